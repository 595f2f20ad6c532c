// SPDX-License-Identifier: Apache-2.0
// Matching and assigners, which choose the ground-truth box for each anchor.
#pragma once

#include <vecdet/assigners.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/rotated_boxes.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/rotated_assigner.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The boxes of a batch, image after image.
class batch_boxes {
 public:
  /// Without counts, all boxes belong to one image.
  batch_boxes(const char* function, const char* argument, const at::Tensor& boxes,
              const char* counts_name, at::IntArrayRef counts, std::int64_t numbers = 4) {
    check_boxes(function, argument, boxes, numbers);
    check_shape(boxes.dim() == 2, function, argument, boxes, numbers == 4 ? "[M, 4]" : "[M, 5]");
    computed_type(function, argument, boxes);
    tensor_ = contiguous(argument, boxes, at::kFloat);
    if (!counts.empty())
      offsets_ = image_offsets_from(function, counts_name, counts, boxes.size(0), "boxes");
  }

  index_t size() const { return tensor_.size(0); }
  boxes_view<const float> view() const { return boxes<const float>(tensor_); }
  matrix_view<const float> rows() const { return matrix<const float>(tensor_, size(), 5); }
  const std::vector<index_t>& offsets() const { return offsets_; }

 private:
  at::Tensor tensor_;
  std::vector<index_t> offsets_;
};

/// The ground truth of images, given as tensors.
class truth_tensors {
 public:
  truth_tensors(const char* function, const at::Tensor& boxes, const optional_tensor& classes,
                at::IntArrayRef box_counts, std::int64_t numbers = 4)
      : boxes_(function, "boxes", boxes, "box_counts", box_counts, numbers) {
    if (numbers == 4) truth_.boxes = boxes_.view();
    truth_.image_offsets = boxes_.offsets();
    if (!classes.has_value() || !classes->defined()) return;
    classes_.emplace_back(function, "classes", *classes, boxes_.size(), "one integer per box");
    truth_.classes = classes_.back().view();
  }
  truth_tensors(const truth_tensors&) = delete;
  truth_tensors& operator=(const truth_tensors&) = delete;

  void add_regions(const char* function, const optional_tensor& regions,
                   at::IntArrayRef region_counts) {
    if (!regions.has_value() || !regions->defined()) {
      check(region_counts.empty(), function, "region_counts.size()", region_counts.size(),
            "0 without regions");
      return;
    }
    regions_.emplace_back(function, "regions", *regions, "region_counts", region_counts);
    truth_.regions = regions_.back().view();
    truth_.region_offsets = regions_.back().offsets();
  }

  const ground_truth& view() const { return truth_; }
  rotated_ground_truth rotated() const {
    return {boxes_.rows(), truth_.classes, truth_.image_offsets, truth_.regions,
            truth_.region_offsets};
  }

 private:
  batch_boxes boxes_;
  std::vector<labels> classes_;  ///< one or none
  std::vector<batch_boxes> regions_;
  ground_truth truth_;
};

/// [images, anchors], or [anchors] for a single image without counts.
inline std::vector<std::int64_t> shape_of_matches(std::int64_t anchors,
                                                  at::IntArrayRef box_counts) {
  if (box_counts.empty()) return {anchors};
  return {static_cast<std::int64_t>(box_counts.size()), anchors};
}

/// Level sizes from alternating heights and widths.
inline std::vector<grid_size> level_sizes_from(const char* function, at::IntArrayRef level_sizes) {
  check(level_sizes.size() % 2 == 0, function, "level_sizes.size()", level_sizes.size(),
        "height and width of each level");
  std::vector<grid_size> sizes;
  for (std::size_t i = 0; i < level_sizes.size(); i += 2)
    sizes.push_back({level_sizes[i], level_sizes[i + 1]});
  return sizes;
}

/// A detector's predictions for points: scores or logits of the classes, and boxes.
class point_predictions {
 public:
  point_predictions(const char* function, const char* scores_name, const at::Tensor& scores,
                    const at::Tensor& predicted, const at::Tensor& points,
                    at::IntArrayRef level_sizes, at::IntArrayRef box_counts,
                    std::int64_t numbers = 4) {
    check_dense(function, "points", points);
    check_shape(points.dim() == 2 && points.size(1) == 2, function, "points", points, "[N, 2]");
    computed_type(function, "points", points);
    shape_ = shape_of_matches(points.size(0), box_counts);
    check_dense(function, scores_name, scores);
    computed_type(function, scores_name, scores);
    check_shape(scores.dim() == static_cast<std::int64_t>(shape_.size()) + 1 &&
                    scores.sizes().slice(0, shape_.size()) == shape(),
                function, scores_name, scores, "[images, N, classes] or [N, classes]");
    check_boxes(function, "predicted", predicted, numbers);
    computed_type(function, "predicted", predicted);
    check_shape(
        predicted.dim() == scores.dim() && predicted.sizes().slice(0, shape_.size()) == shape(),
        function, "predicted", predicted,
        numbers == 4 ? "[images, N, 4] or [N, 4]" : "[images, N, 5] or [N, 5]");
    scores_.emplace_back(scores_name, scores, at::kFloat);
    boxes_ = contiguous("predicted", predicted, at::kFloat);
    points_ = contiguous("points", points, at::kFloat);
    sizes_ = level_sizes_from(function, level_sizes);
  }

  /// Of the results.
  at::IntArrayRef shape() const { return shape_; }
  matrix_view<const float> scores() const { return scores_.front().view<float>(); }
  boxes_view<const float> boxes() const { return aten::boxes<const float>(boxes_); }
  matrix_view<const float> rotated() const {
    return matrix<const float>(boxes_, boxes_.numel() / 5, 5);
  }
  matrix_view<const float> points() const {
    return matrix<const float>(points_, points_.size(0), 2);
  }
  const std::vector<grid_size>& sizes() const { return sizes_; }

 private:
  std::vector<std::int64_t> shape_;
  std::vector<rows> scores_;  ///< one
  at::Tensor boxes_, points_;
  std::vector<grid_size> sizes_;
};

using match_tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

namespace cpu {

/// Matches `anchors`, N x 4 corners, with the ground truth of each image (matching.hpp). Returns
/// three tensors, images x N, or N without box_counts: the index (int64) of the matched box among
/// all `boxes`, -1 (background) or -2 (ignored); the class of that box, background or ignore
/// (int64); and the anchor's greatest IoU with a box (float32).
/// @param boxes corners, M x 4, image after image
/// @param classes one integer per box; undefined: all 0
/// @param box_counts the number of boxes per image; empty: all boxes belong to one image
/// @param force_best matches every box with its best anchor, as in SSD
/// @param skip_untouched a box that touches no anchor matches nothing
/// @param empty_iou_is_zero 0/0 is 0, as in detectron2, instead of NaN, as in torchvision
/// @param regions boxes in which anchors are ignored, e.g. crowds, image after image
/// @param region_counts the number of regions per image
inline match_tensors match_anchors(const at::Tensor& anchors, const at::Tensor& boxes_,
                                   const optional_tensor& classes, at::IntArrayRef box_counts,
                                   const optional_tensor& regions, at::IntArrayRef region_counts,
                                   const matcher_params& params) {
  constexpr const char* function = "match_anchors";
  return translated([&] {
    check_boxes(function, "anchors", anchors);
    check_shape(anchors.dim() == 2, function, "anchors", anchors, "[N, 4]");
    computed_type(function, "anchors", anchors);
    const at::Tensor a = contiguous("anchors", anchors, at::kFloat);
    truth_tensors truth(function, boxes_, classes, box_counts);
    truth.add_regions(function, regions, region_counts);
    const std::vector<std::int64_t> shape = shape_of_matches(anchors.size(0), box_counts);
    const at::Tensor matches = at::empty(shape, at::kLong), label_of = at::empty(shape, at::kLong);
    const at::Tensor best_ious = at::empty(shape, at::kFloat);
    match_results results;
    results.matches = vector<index_t>(matches);
    results.labels = vector<index_t>(label_of);
    results.best_ious = vector<float>(best_ious);
    vecdet::match_anchors(boxes<const float>(a), truth.view(), results, params,
                          thread_workspace<match_workspace>(), threads());
    return match_tensors(matches, label_of, best_ious);
  });
}

/// The matches of anchors that form a grid on each level. Calls assign(anchors, level sizes, ground
/// truth, matches), which writes them.
template <class Assign>
at::Tensor matches_on_grids(const char* function, const at::Tensor& anchors,
                            at::IntArrayRef level_sizes, const at::Tensor& boxes_,
                            at::IntArrayRef box_counts, const optional_tensor& regions,
                            at::IntArrayRef region_counts, const Assign& assign) {
  return translated([&] {
    check_boxes(function, "anchors", anchors);
    check_shape(anchors.dim() == 2, function, "anchors", anchors, "[N, 4]");
    computed_type(function, "anchors", anchors);
    const at::Tensor a = contiguous("anchors", anchors, at::kFloat);
    const std::vector<grid_size> sizes = level_sizes_from(function, level_sizes);
    truth_tensors truth(function, boxes_, {}, box_counts);
    truth.add_regions(function, regions, region_counts);
    const at::Tensor matches = at::empty(shape_of_matches(anchors.size(0), box_counts), at::kLong);
    assign(boxes<const float>(a), sizes, truth.view(), vector<index_t>(matches));
    return matches;
  });
}

/// ATSS (assigners.hpp). Returns the index of the ground-truth box of each of `anchors` (N x 4
/// corners, one per point) among all `boxes`, -1 (background) or -2 (ignored): images x N, or N
/// without box_counts.
/// @param level_sizes height and width of each level, alternating
/// @param candidates per box and level
/// @param regions boxes in which unmatched anchors are ignored, e.g. crowds, image after image
/// @param region_counts the number of regions per image
inline at::Tensor assign_atss(const at::Tensor& anchors, at::IntArrayRef level_sizes,
                              const at::Tensor& boxes_, at::IntArrayRef box_counts,
                              const optional_tensor& regions, at::IntArrayRef region_counts,
                              const atss_params& params) {
  return matches_on_grids("assign_atss", anchors, level_sizes, boxes_, box_counts, regions,
                          region_counts, [&](const auto&... arguments) {
                            vecdet::assign_atss(arguments..., params,
                                                thread_workspace<assigner_workspace>(), threads());
                          });
}

/// The same for FCOS's assigner (assigners.hpp), with torchvision's centre sampling.
/// @param radius in anchor widths
inline at::Tensor assign_fcos(const at::Tensor& anchors, at::IntArrayRef level_sizes,
                              const at::Tensor& boxes_, at::IntArrayRef box_counts,
                              const optional_tensor& regions, at::IntArrayRef region_counts,
                              const fcos_assigner_params& params) {
  return matches_on_grids("assign_fcos", anchors, level_sizes, boxes_, box_counts, regions,
                          region_counts, [&](const auto&... arguments) {
                            vecdet::assign_fcos(arguments..., params,
                                                thread_workspace<assigner_workspace>(), threads());
                          });
}

/// The task-aligned assigner (assigners.hpp). Returns two tensors, images x N, or N without
/// box_counts, with one element for each of `points` (N x 2): the index of its ground-truth box
/// among all `boxes`, -1 (background) or -2 (ignored); and its target, or 0 without a box.
/// @param scores probabilities, images x N x classes, or N x classes
/// @param predicted corners, images x N x 4, or N x 4
/// @param regions boxes in which unmatched points are ignored, e.g. crowds, image after image
/// @param region_counts the number of regions per image
inline std::tuple<at::Tensor, at::Tensor> assign_task_aligned(
    const at::Tensor& scores, const at::Tensor& predicted, const at::Tensor& points,
    at::IntArrayRef level_sizes, const at::Tensor& boxes_, const at::Tensor& classes,
    at::IntArrayRef box_counts, const optional_tensor& regions, at::IntArrayRef region_counts,
    const task_aligned_params& params) {
  constexpr const char* function = "assign_task_aligned";
  return translated([&] {
    const point_predictions given(function, "scores", scores, predicted, points, level_sizes,
                                  box_counts);
    truth_tensors truth(function, boxes_, classes, box_counts);
    truth.add_regions(function, regions, region_counts);
    const at::Tensor matches = at::empty(given.shape(), at::kLong);
    const at::Tensor targets = at::empty(given.shape(), at::kFloat);
    task_aligned_predictions predictions;
    predictions.scores = given.scores();
    predictions.boxes = given.boxes();
    vecdet::assign_task_aligned(predictions, given.points(), given.sizes(), truth.view(),
                                vector<index_t>(matches), vector<float>(targets), params,
                                thread_workspace<assigner_workspace>(), threads());
    return std::make_tuple(matches, targets);
  });
}

/// The task-aligned assigner for rotated boxes (rotated_assigner.hpp). Returns matches and targets
/// as assign_task_aligned() does. A box is centre, width, height and angle.
/// @param scores probabilities, images x N x classes, or N x classes
/// @param predicted images x N x 5, or N x 5
/// @param regions corners, in which unmatched points are ignored, e.g. crowds, image after image
/// @param region_counts the number of regions per image
inline std::tuple<at::Tensor, at::Tensor> assign_rotated_task_aligned(
    const at::Tensor& scores, const at::Tensor& predicted, const at::Tensor& points,
    at::IntArrayRef level_sizes, const at::Tensor& boxes_, const at::Tensor& classes,
    at::IntArrayRef box_counts, angle_convention angles, const optional_tensor& regions,
    at::IntArrayRef region_counts, const task_aligned_params& params) {
  constexpr const char* function = "assign_rotated_task_aligned";
  return translated([&] {
    const point_predictions given(function, "scores", scores, predicted, points, level_sizes,
                                  box_counts, 5);
    truth_tensors truth(function, boxes_, classes, box_counts, 5);
    truth.add_regions(function, regions, region_counts);
    const at::Tensor matches = at::empty(given.shape(), at::kLong);
    const at::Tensor targets = at::empty(given.shape(), at::kFloat);
    vecdet::assign_rotated_task_aligned(
        {given.scores(), given.rotated()}, given.points(), given.sizes(), truth.rotated(),
        checked_angles(function, angles), vector<index_t>(matches), vector<float>(targets), params,
        thread_workspace<assigner_workspace>(), threads());
    return std::make_tuple(matches, targets);
  });
}

/// SimOTA (assigners.hpp). Returns matches and targets as assign_task_aligned() does.
/// @param logits of the classes, images x N x classes, or N x classes
/// @param objectness logits, images x N, or N
/// @param predicted corners, images x N x 4, or N x 4
/// @param strides one per level
/// @param regions boxes in which unmatched points are ignored, e.g. crowds, image after image
/// @param region_counts the number of regions per image
inline std::tuple<at::Tensor, at::Tensor> assign_sim_ota(
    const at::Tensor& logits, const at::Tensor& objectness, const at::Tensor& predicted,
    const at::Tensor& points, at::IntArrayRef level_sizes, at::ArrayRef<double> strides,
    const at::Tensor& boxes_, const at::Tensor& classes, at::IntArrayRef box_counts,
    const optional_tensor& regions, at::IntArrayRef region_counts, const sim_ota_params& params) {
  constexpr const char* function = "assign_sim_ota";
  return translated([&] {
    const point_predictions given(function, "logits", logits, predicted, points, level_sizes,
                                  box_counts);
    check_dense(function, "objectness", objectness);
    computed_type(function, "objectness", objectness);
    check_shape(objectness.sizes() == given.shape(), function, "objectness", objectness,
                "[images, N] or [N]");
    const at::Tensor o = contiguous("objectness", objectness, at::kFloat);
    truth_tensors truth(function, boxes_, classes, box_counts);
    truth.add_regions(function, regions, region_counts);
    const at::Tensor matches = at::empty(given.shape(), at::kLong);
    const at::Tensor targets = at::empty(given.shape(), at::kFloat);
    sim_ota_predictions predictions;
    predictions.logits = given.scores();
    predictions.objectness = vector<const float>(o);
    predictions.boxes = given.boxes();
    const std::vector<double> steps(strides.begin(), strides.end());
    vecdet::assign_sim_ota(predictions, given.points(), given.sizes(), steps, truth.view(),
                           vector<index_t>(matches), vector<float>(targets), params,
                           thread_workspace<assigner_workspace>(), threads());
    return std::make_tuple(matches, targets);
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
