// SPDX-License-Identifier: Apache-2.0
// Masks of pixels: masks x height x width of the pictures. Elements are masks, or pairs of masks.
//
// The masks are whole pictures of bits, as frameworks have them, each with a disc of 15 to 200
// pixels radius. Bound for mask_iou/bits/50x640x640: 2.6 MB are read once for the rectangles and
// the copy, which are 0.3 million words. The common rectangles of the 1,275 pairs, each mask with
// itself included, have 0.18 million words: 22,000 vectors of AVX-512 with 9 operations each.
// mask_iou/noise/50x640x640 is the worst case: all pixels of all pairs, 8.2 million words.
#include "plain/mask_bits.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/mask_bits.hpp>
#include <vecdet/mask_merging.hpp>
#include <vecdet/mask_nms.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vecdet::bench {
namespace {

struct mask_bits_operands {
  static constexpr index_t count = 50, side = 640, words = side * side / 64;
  std::vector<std::uint64_t> bits;
  std::vector<index_t> boxes, offsets{0}, areas, boxes_found;
  std::vector<std::int64_t> plain_memory;
  std::vector<float> scores;
  std::vector<index_t> kept;  ///< by NMS; of group_masks, the first mask of each mask's group
  mask_nms_workspace nms;
  mask_merging_workspace merging;
  std::vector<std::uint64_t> plain_union;
  std::vector<double> ious;
  mask_bits_workspace workspace;

  explicit mask_bits_operands(bool is_noise)
      : bits(count * words), areas(count), boxes_found(4 * count), ious(count * count) {
    random_generator random(1);
    for (index_t i = 0; i < count; ++i) {
      const double x = random.uniform(0, side), y = random.uniform(0, side);
      const double radius = random.uniform(15, 200);
      for (index_t k = 0; k < side * side; ++k) {
        const double u = static_cast<double>(k % side) - x, v = static_cast<double>(k / side) - y;
        const bool has = is_noise ? random.uniform(0, 1) < 0.5 : u * u + v * v < radius * radius;
        bits[static_cast<std::size_t>(i * words + k / 64)] |= std::uint64_t{has} << k % 64;
      }
      boxes.insert(boxes.end(), {0, 0, side, side});
      scores.push_back(static_cast<float>(random.uniform(0, 1)));
      offsets.push_back(offsets.back() + side * side / 8);
    }
  }

  masks_view view() const {
    return {boxes_view<const index_t>(boxes.data(), count), offsets,
            vector_view<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bits.data()),
                                            offsets.back()),
            mask_pixels::bits};
  }
};

const bool registered = [] {
  using operands = mask_bits_operands;
  constexpr double pairs = operands::count * operands::count;
  constexpr double bytes = operands::count * operands::words * sizeof(std::uint64_t);
  const auto discs = [] { return std::make_shared<operands>(false); };
  const auto noise = [] { return std::make_shared<operands>(true); };
  const auto iou = [](operands& d, threading policy) {
    mask_iou(d.view(), d.view(), mask_overlap::iou, {},
             {d.ious.data(), operands::count, operands::count}, d.workspace, policy);
  };
  const auto plain_iou = [](operands& d) {
    VECDET_PLAIN(plain_bits_iou)
    (d.bits.data(), operands::count, operands::words, d.plain_memory, d.ious.data());
  };
  const auto ious = [](operands& d) -> std::vector<double>& { return d.ious; };
  const work of_pairs{pairs, bytes + pairs * sizeof(double)};
  register_with_plain("mask_iou/bits/50x640x640", of_pairs, discs, iou, plain_iou, ious);
  register_with_plain("mask_iou/noise/50x640x640", of_pairs, noise, iou, plain_iou, ious);
  register_with_plain(
      "mask_areas/bits/50x640x640", {operands::count, bytes}, discs,
      [](operands& d, threading policy) { mask_areas(d.view(), d.areas, policy); },
      [](operands& d) {
        VECDET_PLAIN(plain_mask_areas)
        (d.bits.data(), operands::count, operands::words, d.areas.data());
      },
      [](operands& d) -> std::vector<index_t>& { return d.areas; });
  register_vecdet(
      "mask_boxes/bits/50x640x640", {operands::count, bytes}, discs,
      [](operands& d, threading policy) { mask_boxes(d.view(), d.boxes_found, policy); });
  register_with_plain(
      "mask_nms/bits/f32/50x640x640", {operands::count, bytes}, discs,
      [](operands& d, threading policy) {
        const auto kept = mask_nms(d.view(), vector_view<const float>(d.scores), {},
                                   nms_params(0.3), d.nms, policy);
        d.kept.assign(kept.begin(), kept.end());
      },
      [](operands& d) {
        VECDET_PLAIN(plain_mask_nms)
        (d.bits.data(), d.scores.data(), operands::count, operands::words, 0.3, d.plain_memory,
         d.kept);
      },
      [](operands& d) -> std::vector<index_t>& { return d.kept; });
  register_with_plain(
      "group_masks/bits/f32/50x640x640", {operands::count, bytes}, discs,
      [](operands& d, threading policy) {
        const mask_groups groups = group_masks(d.view(), vector_view<const float>(d.scores), {},
                                               mask_overlap::iou, 0.3, d.merging, policy);
        d.kept.resize(operands::count);
        for (index_t g = 0; g + 1 < groups.offsets.size(); ++g)
          for (index_t m = groups.offsets[g]; m < groups.offsets[g + 1]; ++m)
            d.kept[static_cast<std::size_t>(groups.members[m])] = groups.members[groups.offsets[g]];
      },
      [](operands& d) {
        VECDET_PLAIN(plain_group_masks)
        (d.bits.data(), d.scores.data(), operands::count, operands::words, 0.3, d.plain_memory,
         d.plain_union, d.kept);
      },
      [](operands& d) -> std::vector<index_t>& { return d.kept; });
  show_in_figures("(mask_((iou|areas)/bits|nms/bits/f32)|group_masks/bits/f32)/50x640x640");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
