// SPDX-License-Identifier: Apache-2.0
// Assigners on grids of any shape with any boxes. ATSS must equal the reference index for index,
// because it also compares in float. The task-aligned assigners and SimOTA are checked by
// properties that hold under any rounding.
#include "box_input.hpp"
#include <vecdet/reference/rotated_assigner.hpp>
#include <vecdet/rotated_assigner.hpp>

namespace vecdet::fuzz {
namespace {

/// Boxes with a direction each: centre, width, height and angle.
tensor<float> turned(input& in, const tensor<float>& corners) {
  const index_t count = corners.size() / 4;
  const tensor<float> numbers(5 * count);
  const bool is_any = in.byte() >= 224;
  for (index_t i = 0; i < count; ++i) {
    const float* const box = corners.data() + 4 * i;
    // Directions differ also where the bytes are used up.
    const double direction = in.tame(-400, 400) + 25 * static_cast<double>(i % 16);
    const float angle = is_any ? in.number<float>() : static_cast<float>(direction);
    const float turned_box[] = {(box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0],
                                box[3] - box[1], angle};
    std::copy_n(turned_box, 5, numbers.data() + 5 * i);
  }
  return numbers;
}

/// Fails unless matched points are in boxes of their image, and boxes get their points.
void check_rotated(const rotated_task_aligned_predictions& said, matrix_view<const float> points,
                   const rotated_ground_truth& truth, angle_convention angles,
                   const task_aligned_params& params, const tensor<index_t>& matches,
                   const tensor<float>& targets) {
  const index_t count = points.rows(), images = truth.image_offsets.size() - 1;
  const index_t boxes = truth.boxes.rows();
  // The reference rounds differently: sides are longer or shorter by `part`.
  const auto is_inside = [&](index_t point, index_t box, double part) {
    reference::rotated_box own = reference::load_rotated_box(truth.boxes, box, angles);
    if (!(own.w >= 0 && own.h >= 0)) return false;
    const auto side = [&](double length) {
      const double searched = length < params.least_side ? params.grown_side : length;
      return searched + part * (1 + searched + std::abs(own.x) + std::abs(own.y));
    };
    own.w = side(own.w), own.h = side(own.h);
    return reference::is_in_rotated_box(static_cast<double>(points(point, 0)),
                                        static_cast<double>(points(point, 1)), own);
  };
  constexpr double part = 1e-9;
  std::vector<float> overlaps(static_cast<std::size_t>(boxes * images * count));
  const matrix_view<float> overlap(overlaps.data(), boxes, images * count);
  pairwise_prob_iou(truth.boxes, said.boxes, angles, overlap);
  for (index_t image = 0; image < images; ++image) {
    const index_t first = truth.image_offsets[image], last = truth.image_offsets[image + 1];
    const index_t* const matched = matches.data() + image * count;
    for (index_t i = 0; i < count; ++i) {
      const auto target = static_cast<double>(targets.data()[image * count + i]);
      if (matched[i] < 0) {
        if (target != 0) fail("a point without a match has a target");
        continue;
      }
      if (matched[i] < first || matched[i] >= last)
        fail("a point is matched with a rotated box of another image");
      if (!is_inside(i, matched[i], part))
        fail("a point is matched with a rotated box that does not contain it");
      if (!(target >= 0 && target <= 1.0001)) fail("a target is not in [0, 1]");
    }
    for (index_t box = first; box < last; ++box) {
      index_t inside = 0, aligned = 0, unmatched = 0;
      bool has_match = false;
      for (index_t i = 0; i < count; ++i) {
        if (!is_inside(i, box, part)) continue;
        ++inside;
        has_match = has_match || matched[i] >= 0;
        // Surely inside, with a metric that is neither 0 nor too great in any rounding.
        const float score = said.scores(image * count + i, truth.classes[box]);
        if (!is_inside(i, box, -part) || !(score > 1e-3f && score < 1e3f) ||
            !(overlap(box, image * count + i) > 1e-3f))
          continue;
        ++aligned;
        unmatched += matched[i] < 0;
      }
      if (aligned == 0) continue;
      // With final_top, another box may take a point of this one and keep others.
      if (params.final_top > 0)
        has_match = std::any_of(matched, matched + count, [](index_t match) { return match >= 0; });
      if (!has_match) fail("no point in a rotated box is matched");
      if (params.final_top == 0 && inside <= params.top && unmatched > 0)
        fail("a point that a rotated box chooses is not matched");
    }
  }
}

}  // namespace
}  // namespace vecdet::fuzz

using namespace vecdet;

void fuzz::target(input& in) {
  std::vector<grid_size> levels;
  std::vector<index_t> sizes;
  std::vector<float> points, anchors;
  for (index_t l = in.integer(0, 3); l > 0; --l) {
    const grid_size size{in.integer(0, 9), in.integer(0, 9)};
    const float step = in.one_of({8.0f, 1.0f, 50.0f}), half = step * in.one_of({4.0f, 0.5f, 0.0f});
    const float x0 = in.one_of({0.0f, 4.0f, -100.0f});
    for (index_t i = 0; i < size.height * size.width; ++i) {
      const float x = x0 + step * static_cast<float>(i % size.width);
      const float y = step * static_cast<float>(i / size.width);
      points.insert(points.end(), {x, y});
      anchors.insert(anchors.end(), {x - half, y - half, x + half, y + half});
    }
    levels.push_back(size);
    sizes.push_back(size.height * size.width);
  }
  const index_t count = static_cast<index_t>(points.size() / 2), classes = 3;
  const index_t images = in.integer(1, 3), boxes = in.integer(0, 20);
  std::vector<index_t> offsets{0}, categories;
  for (index_t k = 1; k < images; ++k) offsets.push_back(in.integer(offsets.back(), boxes));
  offsets.push_back(boxes);
  for (index_t i = 0; i < boxes; ++i) categories.push_back(in.integer(0, classes - 1));
  const auto truth_boxes = some_boxes<float>(in, boxes, any_box_kind(in));
  std::vector<index_t> region_offsets{0};
  for (index_t k = 0; k < images; ++k)
    region_offsets.push_back(region_offsets.back() + in.integer(0, 2));
  const auto regions = some_boxes<float>(in, region_offsets.back(), any_box_kind(in));
  const auto regions_of = [&](index_t image) {
    const auto k = static_cast<std::size_t>(image);
    return boxes_view<const float>(regions.data() + 4 * region_offsets[k],
                                   region_offsets[k + 1] - region_offsets[k]);
  };
  const auto predicted = some_boxes<float>(in, images * count, any_box_kind(in));
  const auto scores = in.numbers<float>(images * count * classes);
  const auto objectness = in.numbers<float>(images * count);
  sim_ota_params sim_ota;
  sim_ota.candidates = in.one_of<index_t>({10, 1, 1000});
  sim_ota.radius = in.one_of({2.5, 0.0, 100.0});
  sim_ota.iou_weight = in.one_of({3.0, 0.0});
  std::vector<double> strides;
  for (std::size_t l = 0; l < levels.size(); ++l) strides.push_back(in.one_of({8.0, 0.5, 300.0}));
  atss_params atss;
  atss.candidates = in.one_of<index_t>({9, 1, 2, 100, 0});
  task_aligned_params params;
  params.top = in.one_of<index_t>({10, 1, 3, 1000, 0});
  params.alpha = in.one_of({0.5, 1.0, 0.0});
  params.beta = in.one_of({6.0, 1.0, 0.0});
  params.least_side = in.one_of({0.0, 8.0, 100.0});
  params.grown_side = in.one_of({16.0, 0.0, 300.0});
  params.final_top = in.one_of<index_t>({0, 1, 2});
  if (params.final_top > params.top) params.final_top = params.top;
  atss.region_threshold = in.one_of({0.5, 0.0, 1.0});
  const ground_truth truth{boxes_view<const float>(truth_boxes), categories, offsets,
                           boxes_view<const float>(regions), region_offsets};
  const task_aligned_predictions said{{scores.data(), images * count, classes},
                                      boxes_view<const float>(predicted)};
  const auto angles = static_cast<angle_convention>(in.byte() % 6);
  const auto turned_truth = turned(in, truth_boxes), turned_predictions = turned(in, predicted);
  rotated_ground_truth rotated_truth{{turned_truth.data(), boxes, 5}, categories, offsets};
  rotated_truth.regions = truth.regions;
  rotated_truth.region_offsets = truth.region_offsets;
  const rotated_task_aligned_predictions rotated_said{
      said.scores, {turned_predictions.data(), images * count, 5}};
  const tensor<float> where(points), about(anchors), targets(images * count);
  const tensor<index_t> matches(images * count);
  assigner_workspace workspace;
  on_every_isa("assigners", [&](results& results) {
    assign_atss(boxes_view<const float>(about), levels, truth, matches, atss, workspace,
                threading::parallel);
    results.add(matches);
    for (index_t image = 0; image < images; ++image) {
      const index_t first = offsets[static_cast<std::size_t>(image)];
      const index_t last = offsets[static_cast<std::size_t>(image + 1)];
      auto expected =
          reference::atss(boxes_view<const float>(about), sizes,
                          {truth_boxes.data() + 4 * first, last - first}, atss.candidates)
              .matches;
      reference::ignore_anchors(expected, boxes_view<const float>(about), regions_of(image),
                                atss.region_threshold);
      for (index_t i = 0; i < count; ++i) {
        const index_t match = expected[static_cast<std::size_t>(i)];
        if (matches[static_cast<std::size_t>(image * count + i)] !=
            (match < 0 ? match : first + match))
          fail("ATSS differs from the reference");
      }
    }
    assign_task_aligned(said, {where.data(), count, 2}, levels, truth, matches, targets, params,
                        workspace, threading::parallel);
    results.add(matches);
    results.add(targets);
    std::vector<index_t> points_of(static_cast<std::size_t>(boxes));
    for (index_t i = 0; i < images * count; ++i) {
      const index_t match = matches[static_cast<std::size_t>(i)], image = i / count;
      const double target = static_cast<double>(targets[static_cast<std::size_t>(i)]);
      if (match < 0) {
        if (target != 0) fail("a point without a match has a target");
        std::vector<index_t> expected{-1};
        reference::ignore_points(expected, {points.data() + 2 * (i % count), 1, 2},
                                 regions_of(image));
        if (match != expected[0]) fail("a point is in a region and not ignored, or the reverse");
        continue;
      }
      if (match < offsets[static_cast<std::size_t>(image)] ||
          match >= offsets[static_cast<std::size_t>(image + 1)])
        fail("a point is matched with a box of another image");
      const float* const box = truth_boxes.data() + 4 * match;
      const float* const point = points.data() + 2 * (i % count);
      for (int axis = 0; axis < 2; ++axis) {
        float low = box[axis], high = box[axis + 2];
        if (params.least_side > 0 && high - low < static_cast<float>(params.least_side)) {
          const float centre = (low + high) / 2, half = static_cast<float>(params.grown_side) / 2;
          low = centre - half;
          high = centre + half;
        }
        if (!(point[axis] > low && point[axis] < high))
          fail("a point is matched with a box that does not contain it");
      }
      if (params.final_top > 0 && ++points_of[static_cast<std::size_t>(match)] > params.final_top)
        fail("a box keeps more than final_top points");
      if (!(target >= 0 && target <= 1.0001)) fail("a target is not in [0, 1]");
    }
    assign_rotated_task_aligned(rotated_said, {where.data(), count, 2}, levels, rotated_truth,
                                angles, matches, targets, params, workspace, threading::parallel);
    results.add(matches);
    results.add(targets);
    check_rotated(rotated_said, {where.data(), count, 2}, rotated_truth, angles, params, matches,
                  targets);
    const index_t foreground = assign_sim_ota(
        {{scores.data(), images * count, classes}, objectness, boxes_view<const float>(predicted)},
        {where.data(), count, 2}, levels, strides, truth, matches, targets, sim_ota, workspace,
        threading::parallel);
    results.add(matches);
    results.add(targets);
    index_t positives = 0;
    for (index_t i = 0; i < images * count; ++i) {
      const index_t match = matches[static_cast<std::size_t>(i)], image = i / count;
      const float target = targets[static_cast<std::size_t>(i)];
      if (match < 0) {
        if (target != 0) fail("a point without a match has a target");
        continue;
      }
      ++positives;
      if (match < offsets[static_cast<std::size_t>(image)] ||
          match >= offsets[static_cast<std::size_t>(image + 1)])
        fail("a point is matched with a box of another image");
      if (!(target >= 0 && target <= 1.0001f)) fail("an IoU is not in [0, 1]");
      if (std::isnan(objectness[static_cast<std::size_t>(i)]))
        fail("a point with a NaN objectness is matched");
    }
    if (positives != foreground) fail("the number of assigned points is wrong");
  });
}
