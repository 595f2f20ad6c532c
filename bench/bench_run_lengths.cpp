// SPDX-License-Identifier: Apache-2.0
// Run lengths: masks x height x width of the pictures. Elements are masks, or pairs of masks.
//
// Bound for encode_masks/columns/50x640x640: 20 MB are read, and 0.32 million words of 64 pixels
// are compared. From bits, 2.6 MB are read.
#include "plain/run_lengths.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/run_lengths.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

struct run_lengths_operands {
  static constexpr index_t count = 50, side = 640, pixels = side * side;
  std::vector<std::uint8_t> by_column, by_row;
  std::vector<std::uint32_t> plain_counts, counts;
  std::vector<index_t> offsets;
  std::vector<double> ious;
  std::vector<grid_size> size{{side, side}}, sizes;
  run_lengths_workspace workspace;
  masks_workspace decoding;
  masks_view masks;

  /// Discs.
  run_lengths_operands()
      : by_column(count * pixels),
        by_row(count * pixels),
        ious(count * count),
        sizes(count, {side, side}) {
    random_generator random(1);
    for (index_t i = 0; i < count; ++i) {
      const double x = random.uniform(0, side), y = random.uniform(0, side);
      const double radius = random.uniform(15, 200);
      for (index_t k = 0; k < pixels; ++k) {
        const double u = static_cast<double>(k / side) - x, v = static_cast<double>(k % side) - y;
        const std::uint8_t pixel = u * u + v * v < radius * radius ? 1 : 0;
        by_column[static_cast<std::size_t>(i * pixels + k)] = pixel;
        by_row[static_cast<std::size_t>(i * pixels + k % side * side + k / side)] = pixel;
      }
    }
    const run_lengths_view runs = encode(threading::sequential, true);
    counts.assign(runs.counts.begin(), runs.counts.end());
    offsets.assign(runs.offsets.begin(), runs.offsets.end());
    masks = decode_masks(view(), mask_pixels::bits, decoding, threading::sequential);
  }

  run_lengths_view view() const { return {sizes, offsets, counts}; }
  run_lengths_view encode(threading policy, bool has_columns) {
    return encode_masks({has_columns ? by_column.data() : by_row.data(),
                         count,
                         {side, side},
                         pixels,
                         has_columns ? 1 : side,
                         has_columns ? side : 1},
                        workspace, policy);
  }
};

const bool registered = [] {
  using operands = run_lengths_operands;
  constexpr double pairs = operands::count * operands::count;
  constexpr double bytes = operands::count * operands::pixels;
  const auto prepare = [] { return std::make_shared<operands>(); };
  register_with_plain(
      "encode_masks/columns/50x640x640", {operands::count, bytes}, prepare,
      [](operands& d, threading policy) {
        const run_lengths_view runs = d.encode(policy, true);
        d.plain_counts.assign(runs.counts.begin(), runs.counts.end());
      },
      [](operands& d) {
        VECDET_PLAIN(plain_encode_masks)
        (d.by_column.data(), operands::count, operands::pixels, d.plain_counts);
      },
      [](operands& d) { return d.plain_counts; });
  register_vecdet("encode_masks/rows/50x640x640", {operands::count, bytes}, prepare,
                  [](operands& d, threading policy) { d.encode(policy, false); });
  register_vecdet(
      "encode_masks/50x640x640", {operands::count, bytes / 8}, prepare,
      [](operands& d, threading policy) { encode_masks(d.masks, d.size, d.workspace, policy); });
  register_with_plain(
      "mask_iou/50x640x640", {pairs, pairs * sizeof(double)}, prepare,
      [](operands& d, threading policy) {
        mask_iou(d.view(), d.view(), mask_overlap::iou, {},
                 {d.ious.data(), operands::count, operands::count}, d.workspace, policy);
      },
      [](operands& d) {
        VECDET_PLAIN(plain_mask_iou)
        (d.counts.data(), d.offsets.data(), operands::count, d.ious.data());
      },
      [](operands& d) { return d.ious; });
  show_in_figures("(encode_masks(/columns)?|mask_iou)/50x640x640");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
