// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/assigners.hpp>
#include <vecdet/rotated_assigner.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct assigner_calls {
  bench::pyramid pyramid;
  index_t images, number;  ///< number of candidates
  placed_boxes<T> anchors, predicted, regions;
  placed_matrix<T> points, scores, logits;
  placed<grid_size> levels;
  placed_truth known;
  placed<index_t> region_offsets, matches;
  placed<T> objectness, targets;
  placed<double> strides;
  placed_matrix<T> turned_truth, turned_predictions;
  assigner_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2 + length % 37, 4 * length}}; }
  static shape sized(index_t rows) { return {rows > 3000 ? 400 : 100, rows > 3000 ? 3600 : rows}; }
  static bool takes(const problem& p) { return number_of(p) >= 1; }
  static index_t number_of(const problem& p) {
    return number_after<index_t>(
        "k", p.variant,
        number_after<index_t>("top", p.variant, number_after<index_t>("candidates", p.variant, 9)));
  }
  /// The number of images of a recorded call, computed from its bytes: those of points, scores or
  /// anchors, plus those of each image's matches.
  static index_t images_of(const problem& p) {
    const double per_point = p.bytes / static_cast<double>(p.shape[1]);
    const bool has_anchors = p.variant[0] == 'k' || p.variant.compare(0, 7, "centers") == 0;
    return std::max(index_t{1}, static_cast<index_t>(std::llround(has_anchors ? (per_point - 16) / 8
                                                                              : per_point / 16)));
  }

  assigner_calls(operands& make, const problem& p)
      : pyramid(make.pyramid(p.shape[1])),
        images(make.in_training() ? images_of(p) : 3),
        number(number_of(p)),
        anchors(make.copy(pyramid.anchors)),
        predicted(make.predictions(pyramid, images)),
        regions(make.boxes<T>(images)),
        points(make.matrix_of(pyramid.points, 2)),
        scores(make.matrix<T>(images * pyramid.size(), 80, 0.01, 0.5)),
        logits(make.matrix<T>(images * pyramid.size(), 80, -6, 2)),
        levels(make.copy(pyramid.levels)),
        known(
            make.truth(images, p.shape[0], 0, 80, 8 * std::sqrt(static_cast<double>(p.shape[1])))),
        region_offsets(make.offsets(images, images)),
        matches(make.room<index_t>(images * pyramid.size())),
        objectness(make.numbers<T>(images * pyramid.size(), -6, 2)),
        targets(make.room<T>(images * pyramid.size())),
        strides(make.copy(strides_of(pyramid))),
        turned_truth(make.turned(known.boxes)),
        turned_predictions(make.turned(predicted)) {}

  static std::vector<double> strides_of(const bench::pyramid& of) {
    std::vector<double> strides;
    for (std::size_t l = 0; l < of.levels.size(); ++l)
      strides.push_back(8 * static_cast<double>(index_t{1} << l));
    return strides;
  }

  ground_truth truth(bool with_regions) const {
    ground_truth result = known.view();
    if (!with_regions) return result;
    result.regions = regions;
    result.region_offsets = region_offsets;
    return result;
  }

  void list(call_list& c) {
    const auto add_sim_ota = [&](const std::string& options, const accesses& of_logits,
                                 bool with_regions) {
      c.add("assign_sim_ota/" + text_of("candidates", number) + options,
            of_logits.writes(matches, targets), [this, with_regions](threading policy) {
              sim_ota_params params;
              params.candidates = number;
              const sim_ota_predictions said{logits.in(), objectness.in(), predicted};
              return assign_sim_ota(said, points.in(), levels, strides.in(), truth(with_regions),
                                    matches, targets, params, workspace, policy);
            });
    };
    add(c, "", reads(anchors, levels, known), reads(scores, predicted, points, levels, known),
        false);
    add_sim_ota("", reads(logits, objectness, predicted, points, levels, strides, known), false);
    add(c, "/regions", reads(anchors, levels, known, regions, region_offsets),
        reads(scores, predicted, points, levels, known, regions, region_offsets), true);
    add_sim_ota("/regions",
                reads(logits, objectness, predicted, points, levels, strides, known, regions,
                      region_offsets),
                true);
    const auto add_rotated = [&](const std::string& options, const accesses& inputs,
                                 bool with_regions) {
      c.add("assign_rotated_task_aligned/" + text_of("top", number) + options,
            inputs.writes(matches, targets), [this, with_regions](threading policy) {
              task_aligned_params params;
              params.top = number;
              rotated_ground_truth turned{turned_truth.in(), known.classes, known.image_offsets};
              turned.regions = truth(with_regions).regions;
              turned.region_offsets = truth(with_regions).region_offsets;
              assign_rotated_task_aligned({scores.in(), turned_predictions.in()}, points.in(),
                                          levels, turned, angle_convention::torchvision, matches,
                                          targets, params, workspace, policy);
            });
    };
    add_rotated("",
                reads(scores, turned_predictions, points, levels, turned_truth, known.classes,
                      known.image_offsets),
                false);
    add_rotated("/regions",
                reads(scores, turned_predictions, points, levels, turned_truth, known.classes,
                      known.image_offsets, regions, region_offsets),
                true);
  }

  void add(call_list& c, const std::string& options, const accesses& of_anchors,
           const accesses& of_points, bool with_regions) {
    c.add("assign_fcos/centers" + options, of_anchors.writes(matches),
          [this, with_regions](threading policy) {
            assign_fcos(anchors, levels, truth(with_regions), matches, {}, workspace, policy);
          });
    c.add("assign_atss/" + text_of("k", number) + options, of_anchors.writes(matches),
          [this, with_regions](threading policy) {
            atss_params params;
            params.candidates = number;
            assign_atss(anchors, levels, truth(with_regions), matches, params, workspace, policy);
          });
    c.add("assign_task_aligned/" + text_of("top", number) + options,
          of_points.writes(matches, targets), [this, with_regions](threading policy) {
            task_aligned_params params;
            params.top = number;
            const task_aligned_predictions said{scores.in(), predicted};
            assign_task_aligned(said, points.in(), levels, truth(with_regions), matches, targets,
                                params, workspace, policy);
          });
  }
};

const registered_family registered = calls_of<assigner_calls, float>("assigners");

}  // namespace
}  // namespace vecdet::test
