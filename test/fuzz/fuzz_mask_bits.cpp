// SPDX-License-Identifier: Apache-2.0
// Areas, boxes, overlaps, NMS and groups of any masks, as bits with any padding or as bytes: they
// equal the reference on every instruction set. Masks whose rectangles, offsets or numbers of bytes
// lie are refused, and nothing is read beyond their pixels.
#include "fuzz_input.hpp"
#include <vecdet/mask_bits.hpp>
#include <vecdet/mask_merging.hpp>
#include <vecdet/mask_nms.hpp>
#include <vecdet/reference/mask_bits.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

using namespace vecdet;

namespace {

struct fuzzed_masks {
  std::vector<index_t> boxes, offsets{0};
  fuzz::tensor<std::uint8_t> pixels;
  mask_pixels kind;
  bool is_valid = true;

  explicit fuzzed_masks(fuzz::input& in)
      : pixels(0), kind(in.flag() ? mask_pixels::bits : mask_pixels::bytes) {
    const index_t count = in.integer(0, 4);
    const int form = in.byte();
    const bool lies = form < 20, is_tall = form >= 20 && form < 30;
    for (index_t i = 0; i < count; ++i) {
      const index_t x1 = in.integer(0, 130), y1 = in.integer(0, 20);
      const index_t width = in.integer(lies ? -1 : 0, is_tall ? 2 : 140);
      const index_t height = in.integer(0, is_tall ? 3000 : 20);
      boxes.insert(boxes.end(), {x1, y1, x1 + width, y1 + height});
      const index_t row = kind == mask_pixels::bytes ? width : (width + 7) / 8;
      const bool has_byte_more = lies && in.flag();
      offsets.push_back(offsets.back() + row * height + (has_byte_more ? 1 : 0));
      is_valid = is_valid && width >= 0 && !has_byte_more;
    }
    pixels = fuzz::tensor<std::uint8_t>(offsets.back() < 0 ? 0 : offsets.back());
    const int density = in.byte();
    for (std::uint8_t& byte : pixels)
      byte = in.byte() < density ? in.byte() : (in.flag() ? 0xff : 0);
  }
  index_t size() const { return static_cast<index_t>(boxes.size() / 4); }
  masks_view view() const {
    return {boxes_view<const index_t>(boxes.data(), size()), offsets,
            vector_view<const std::uint8_t>(pixels.data(), pixels.size()), kind};
  }
};

/// Kept masks do not overlap each other too much, and every other mask overlaps a better kept one.
void check_nms(const masks_view& masks, const std::vector<float>& scores, mask_overlap overlap,
               threading policy) {
  nms_params params(0.25);
  if (overlap == mask_overlap::smaller_area) params.overlap = nms_overlap::smaller_area;
  mask_nms_workspace workspace;
  const auto kept =
      mask_nms(masks, vector_view<const float>(scores), {}, params, workspace, policy);
  for (index_t i = 0; i < masks.size(); ++i) {
    bool is_kept = false, is_suppressed = false;
    for (const index_t k : kept) {
      is_kept = is_kept || k == i;
      const float own = scores[static_cast<std::size_t>(i)];
      const float other = scores[static_cast<std::size_t>(k)];
      const bool is_better = other > own || (other == own && k < i);
      is_suppressed =
          is_suppressed ||
          (is_better && reference::mask_overlap_of(masks, k, masks, i, overlap, false) > 0.25);
    }
    if (is_kept == is_suppressed) fuzz::fail("a mask is kept or dropped without a reason");
  }
}

/// Every mask is in one group.
void check_groups(const masks_view& masks, const std::vector<float>& scores, mask_overlap overlap,
                  threading policy, fuzz::results& results) {
  mask_merging_workspace workspace;
  const mask_groups found =
      group_masks(masks, vector_view<const float>(scores), {}, overlap, 0.25, workspace, policy);
  std::vector<int> times(static_cast<std::size_t>(masks.size()));
  for (const index_t member : found.members) {
    results.add(static_cast<double>(member));
    ++times[static_cast<std::size_t>(member)];
  }
  for (const index_t begin : found.offsets) results.add(static_cast<double>(begin));
  for (const int own : times)
    if (own != 1) fuzz::fail("a mask is not in one group");
}

/// Calls a function, which must throw for masks that lie, and only for these.
template <class Call>
void check_refusal(bool is_valid, const Call& call) {
  bool throws = false;
  try {
    call();
  } catch (const std::invalid_argument&) {
    throws = true;
  }
  if (throws == is_valid) fuzz::fail("valid masks are refused, or others are not");
}

template <class T>
void check_untouched(bool is_valid, const std::vector<T>& output) {
  for (const T& number : output)
    if (!is_valid && !(number == -1)) fuzz::fail("a call that throws writes");
}

}  // namespace

void fuzz::target(input& in) {
  const fuzzed_masks first(in), second(in);
  const mask_overlap overlap = in.flag() ? mask_overlap::iou : mask_overlap::smaller_area;
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  const index_t rows = first.size(), cols = second.size();
  std::vector<std::uint8_t> crowds;
  if (in.flag())
    for (index_t k = 0; k < cols; ++k) crowds.push_back(in.flag());
  std::vector<float> scores;
  for (index_t i = 0; i < rows; ++i) scores.push_back(static_cast<float>(in.integer(0, 3)));
  mask_bits_workspace workspace;
  fuzz::on_every_isa("mask_iou", [&](fuzz::results& results) {
    const masks_view a = first.view(), b = second.view();
    const bool is_valid = first.is_valid, are_valid = is_valid && second.is_valid;
    std::vector<index_t> areas(static_cast<std::size_t>(rows), -1);
    std::vector<index_t> boxes(static_cast<std::size_t>(4 * rows), -1);
    std::vector<double> pairs(static_cast<std::size_t>(rows * cols), -1);
    std::vector<double> own(static_cast<std::size_t>(rows * rows), -1);
    check_refusal(is_valid, [&] { mask_areas(a, areas, policy); });
    check_refusal(is_valid, [&] { mask_boxes(a, boxes, policy); });
    check_refusal(are_valid, [&] {
      mask_iou(a, b, overlap, crowds, {pairs.data(), rows, cols}, workspace, policy);
    });
    check_refusal(is_valid, [&] {
      mask_iou(a, a, overlap, {}, {own.data(), rows, rows}, workspace, policy);
    });
    check_refusal(is_valid, [&] { check_nms(a, scores, overlap, policy); });
    check_refusal(is_valid, [&] { check_groups(a, scores, overlap, policy, results); });
    check_untouched(is_valid, areas);
    check_untouched(is_valid, boxes);
    check_untouched(are_valid, pairs);
    check_untouched(is_valid, own);
    if (!is_valid) return;
    for (index_t i = 0; i < rows; ++i) {
      if (areas[static_cast<std::size_t>(i)] != reference::mask_area(a, i))
        fuzz::fail("an area differs");
      const auto box = reference::mask_box(a, i);
      for (std::size_t k = 0; k < 4; ++k)
        if (boxes[4 * static_cast<std::size_t>(i) + k] != box[k]) fuzz::fail("a box differs");
      for (index_t k = 0; are_valid && k < cols; ++k) {
        const bool is_crowd = !crowds.empty() && crowds[static_cast<std::size_t>(k)] != 0;
        const double found = pairs[static_cast<std::size_t>(i * cols + k)];
        results.add(found);
        if (!(found == reference::mask_overlap_of(a, i, b, k, overlap, is_crowd)))
          fuzz::fail("an overlap differs");
      }
      for (index_t k = 0; k < rows; ++k)
        if (!(own[static_cast<std::size_t>(i * rows + k)] ==
              reference::mask_overlap_of(a, i, a, k, overlap, false)))
          fuzz::fail("an overlap of a mask of the same list differs");
    }
  });
}
