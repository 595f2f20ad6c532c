// SPDX-License-Identifier: Apache-2.0
// Run lengths of any pictures, strings and polygons: counts, strings and polygons equal the
// reference, and decoding returns the pictures. Any strings and counts either give masks whose
// counts add up, or are refused.
#include "fuzz_input.hpp"
#include <vecdet/reference/run_lengths.hpp>
#include <vecdet/run_lengths.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

using namespace vecdet;

namespace {

void check_counts(const run_lengths_view& runs, index_t i,
                  const std::vector<std::uint32_t>& expected) {
  if (std::vector<std::uint32_t>(runs[i].begin(), runs[i].end()) != expected)
    fuzz::fail("counts differ");
}

void fuzz_pictures(fuzz::input& in) {
  const grid_size size{in.integer(0, 70), in.integer(0, 70)};
  const index_t count = in.integer(0, 2), pixels = size.height * size.width;
  const fuzz::tensor<std::uint8_t> bytes(count * pixels), back(count * pixels);
  for (std::uint8_t& byte : bytes) byte = in.byte() < 128 ? 0 : 1;
  const bool has_columns = in.flag();
  const index_t down = has_columns ? 1 : size.width, across = has_columns ? size.height : 1;
  run_lengths_workspace workspace, second;
  masks_workspace decoding;
  const run_lengths_view runs = encode_masks(
      byte_pictures<const std::uint8_t>{bytes.data(), count, size, pixels, down, across},
      workspace);
  for (index_t i = 0; i < count; ++i)
    check_counts(runs, i, reference::run_lengths(size, [&](index_t x, index_t y) {
                   return bytes[static_cast<std::size_t>(i * pixels + y * down + x * across)] != 0;
                 }));
  decode_masks(runs, byte_pictures<std::uint8_t>{back.data(), count, size, pixels, down, across});
  if (std::vector<std::uint8_t>(back.begin(), back.end()) !=
      std::vector<std::uint8_t>(bytes.begin(), bytes.end()))
    fuzz::fail("decoded pictures differ");
  const mask_polygons_view polygons = mask_polygons(runs, second);
  for (index_t i = 0; i < count; ++i) {
    std::vector<std::uint8_t> odd(static_cast<std::size_t>(pixels));
    for (index_t k = polygons.mask_offsets[i]; k < polygons.mask_offsets[i + 1]; ++k) {
      const index_t begin = polygons.offsets[k], points = polygons.offsets[k + 1] - begin;
      run_lengths_workspace drawing;
      const auto drawn = reference::pixels_of_runs(
          run_lengths_from_polygons({polygons.points.data() + 2 * begin, 2 * points},
                                    std::vector<index_t>{0, points}, {&size, 1}, drawing)[0]);
      for (std::size_t p = 0; p < drawn.size(); ++p) odd[p] ^= drawn[p];
    }
    if (odd != reference::pixels_of_runs(runs[i])) fuzz::fail("polygons do not give the mask");
  }
  const run_lengths_view again =
      encode_masks(decode_masks(runs, mask_pixels::bits, decoding), {&size, 1}, second);
  if (std::vector<std::uint32_t>(again.counts.begin(), again.counts.end()) !=
      std::vector<std::uint32_t>(runs.counts.begin(), runs.counts.end()))
    fuzz::fail("masks that are encoded again differ");
}

void fuzz_polygon(fuzz::input& in) {
  const grid_size size{in.integer(0, 40), in.integer(0, 40)};
  const index_t count = in.integer(0, 7);
  std::vector<double> points;
  for (index_t k = 0; k < 2 * count; ++k)
    points.push_back(in.byte() < 8 ? in.number<double>()
                                   : static_cast<double>(in.integer(-200, 600)) / 10);
  run_lengths_workspace workspace;
  try {
    const run_lengths_view runs =
        run_lengths_from_polygons(points, std::vector<index_t>{0, count}, {&size, 1}, workspace);
    bool is_small = true;  // the reference draws every point
    for (const double z : points) is_small = is_small && std::abs(z) < 1e4;
    if (is_small) check_counts(runs, 0, reference::polygon_run_lengths(points, size));
    index_t sum = 0;
    for (const std::uint32_t own : runs[0]) sum += index_t{own};
    if (sum != size.height * size.width) fuzz::fail("the counts do not add up");
  } catch (const std::invalid_argument&) {
  }
}

void fuzz_string(fuzz::input& in) {
  const grid_size size{in.integer(0, 300), in.integer(0, 300)};
  const std::string given = in.text();
  const fuzz::tensor<char> text(std::vector<char>(given.begin(), given.end()));
  const std::vector<index_t> offsets{0, text.size()};
  run_lengths_workspace workspace, second;
  try {
    const run_lengths_view runs = run_lengths_from_strings(
        {offsets, vector_view<const char>(text.data(), text.size())}, {&size, 1}, workspace);
    const run_length_strings strings = run_lengths_to_strings(runs, second);
    if (std::string(strings.text.begin(), strings.text.end()) !=
        reference::run_length_string(runs[0]))
      fuzz::fail("strings differ");
    std::vector<index_t> areas(1), box(4);
    mask_areas(runs, areas);
    mask_boxes(runs, box);
    double iou = -1;
    for (const mask_overlap overlap : {mask_overlap::iou, mask_overlap::smaller_area}) {
      mask_iou(runs, runs, overlap, {}, {&iou, 1, 1}, second);
      if (iou != (areas[0] > 0 ? 1 : 0)) fuzz::fail("a wrong overlap of a mask with itself");
    }
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace

void fuzz::target(input& in) {
  switch (in.byte() % 3) {
    case 0:
      return fuzz_pictures(in);
    case 1:
      return fuzz_polygon(in);
    default:
      return fuzz_string(in);
  }
}
