// SPDX-License-Identifier: Apache-2.0
// Matching of any boxes with any options, against the reference, index for index.
#include "box_input.hpp"
#include "support/matcher.hpp"
#include <vecdet/reference/matching.hpp>

#include <cmath>
#include <utility>

using namespace vecdet;

namespace {

matcher_params any_matcher(fuzz::input& in) {
  matcher_params params;
  params.low_threshold = in.one_of({0.4, 0.3, 0.5, 0.0, -1.0, in.tame(0, 1)});
  params.high_threshold = in.one_of({0.5, 0.7, 0.5, 0.0, 1.0, in.tame(0, 1)});
  if (params.low_threshold > params.high_threshold)
    std::swap(params.low_threshold, params.high_threshold);
  params.allow_low_quality = in.flag();
  params.skip_untouched = in.flag();
  params.force_best = in.flag();
  params.empty = in.flag() ? empty_iou::nan : empty_iou::zero;
  params.region_threshold = in.one_of({0.5, 0.0, 1.0, in.tame(0, 1)});
  params.ignore_matched = in.flag();
  params.coder.weight_x = in.one_of({1.0, 10.0});
  return params;
}

/// Concatenated boxes of images.
struct listed_boxes {
  fuzz::tensor<float> boxes;
  std::vector<index_t> offsets;

  listed_boxes(fuzz::input& in, index_t images, index_t most, fuzz::box_kind kind)
      : boxes(0), offsets{0} {
    for (index_t k = 0; k < images; ++k) offsets.push_back(offsets.back() + in.integer(0, most));
    boxes = fuzz::some_boxes<float>(in, offsets.back(), kind);
  }
  boxes_view<const float> of(index_t image) const {
    const auto k = static_cast<std::size_t>(image);
    return {boxes.data() + 4 * offsets[k], offsets[k + 1] - offsets[k]};
  }
};

}  // namespace

void fuzz::target(input& in) {
  const box_kind kind = any_box_kind(in);
  const index_t count = in.byte() < 16 ? in.integer(4000, 4200) : in.integer(0, 600);
  const index_t images = in.integer(1, 3);
  const tensor<float> anchors = some_boxes<float>(in, count, kind);
  const listed_boxes truths(in, images, 20, kind), regions(in, images, 2, kind);
  const matcher_params params = any_matcher(in);
  const boxes_view<const float> anchors_view(anchors);

  // The reference's matches and IoUs.
  std::vector<index_t> matches(static_cast<std::size_t>(images * count));
  std::vector<double> ious(matches.size());
  for (index_t k = 0; k < images; ++k) {
    index_t* const per_image = matches.data() + k * count;
    reference::match_anchors(anchors_view, truths.of(k), vector_view<index_t>(per_image, count),
                             test::as_reference(params),
                             vector_view<double>(ious.data() + k * count, count), regions.of(k));
    for (index_t i = 0; i < count; ++i)
      if (per_image[i] >= 0) per_image[i] += truths.offsets[static_cast<std::size_t>(k)];
  }

  const ground_truth truth{boxes_view<const float>(truths.boxes),
                           {},
                           truths.offsets,
                           boxes_view<const float>(regions.boxes),
                           regions.offsets};
  const index_t total = images * count;
  const tensor<index_t> out(total), labels(total);
  const tensor<float> best(total), deltas(4 * total);
  const match_results asked{vector_view<index_t>(out), vector_view<index_t>(labels),
                            vector_view<float>(best), boxes_view<float>(deltas)};
  match_workspace workspace;
  on_every_isa(
      "matching",
      [&](results& results) {
        for (float& delta : deltas) delta = -12345;
        match_anchors(anchors_view, truth, asked, params, workspace, threading::parallel);
        fuzz::results first, second;
        first.add(out), first.add(best), first.add(deltas);
        const anchor_index index(anchors_view);
        match_anchors(index, truth, asked, params, workspace, threading::sequential);
        second.add(out), second.add(best), second.add(deltas);
        expect_same("matching with an index gives other results", first, second);
        results.add(out);
        results.add(best);
        results.add(labels);
        results.add(deltas);
      },
      [&](const char* set, const std::vector<double>& values) {
        const auto at = [&](index_t k) { return values[static_cast<std::size_t>(k)]; };
        for (index_t i = 0; i < total; ++i) {
          const auto k = static_cast<std::size_t>(i);
          const double label = static_cast<double>(std::min<index_t>(matches[k], 0));
          const bool right =
              at(i) == static_cast<double>(matches[k]) &&
              (at(total + i) == ious[k] || (std::isnan(at(total + i)) && std::isnan(ious[k]))) &&
              at(2 * total + i) == label;
          if (!right)
            fail(std::string(set) + " matches anchor " + std::to_string(i) + " with " +
                 std::to_string(at(i)) + ", IoU " + std::to_string(at(total + i)) + ", expected " +
                 std::to_string(matches[k]) + ", " + std::to_string(ious[k]));
          for (index_t c = 0; matches[k] < 0 && c < 4; ++c)
            if (at(3 * total + 4 * i + c) != -12345) fail("deltas of no match were written");
        }
      });
}
