// SPDX-License-Identifier: Apache-2.0
#include "masks.hpp"

#include <algorithm>
#include <utility>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// The location before a pixel, and the weight of the next.
inline std::pair<std::int64_t, float> location_of(std::int64_t pixel, std::int64_t pixels,
                                                  std::int64_t locations) {
  const double scale = static_cast<double>(locations) / static_cast<double>(pixels);
  const double at = std::max((static_cast<double>(pixel) + 0.5) * scale - 0.5, 0.0);
  const std::int64_t before = std::min(static_cast<std::int64_t>(at), locations - 1);
  return {before, static_cast<float>(at - static_cast<double>(before))};
}

/// Writes the bits of a row of pixels between two rows of locations, of which `memory` has the
/// columns and weights. Returns the end of the row.
std::uint8_t* write_row(const float* above, const float* below, float weight, float threshold,
                        plain_masks_memory& memory, std::uint8_t* pixels) {
  const auto across = static_cast<std::int64_t>(memory.columns.size());
  const std::int64_t* const before = memory.columns.data();
  const float* const weights = memory.weights.data();
  float* const between = memory.between.data();
  for (std::int64_t x = 0; x < across; ++x) {
    const std::int64_t k = before[x];
    const float upper = above[k] + weights[x] * (above[k + 1] - above[k]);
    const float lower = below[k] + weights[x] * (below[k + 1] - below[k]);
    between[x] = upper + weight * (lower - upper);
  }
  for (std::int64_t x = 0; x < across; x += 8) {
    unsigned byte = 0;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(8, across - x); ++k)
      byte |= static_cast<unsigned>(between[x + k] > threshold) << k;
    *pixels++ = static_cast<std::uint8_t>(byte);
  }
  return pixels;
}

}  // namespace

void plain_masks_from_prototypes(const float* prototypes, std::int64_t channels,
                                 std::int64_t height, std::int64_t width, const float* coefficients,
                                 const std::int64_t* boxes, std::int64_t count, std::int64_t side,
                                 plain_masks_memory& memory, std::uint8_t* pixels) {
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t* const box = boxes + 4 * n;
    const std::int64_t across = box[2] - box[0];
    if (across == 0 || box[3] == box[1]) continue;
    const std::int64_t left = location_of(box[0], side, width).first;
    const std::int64_t top = location_of(box[1], side, height).first;
    const std::int64_t columns =
        std::min(location_of(box[2] - 1, side, width).first + 2, width) - left;
    const std::int64_t rows =
        std::min(location_of(box[3] - 1, side, height).first + 2, height) - top;
    // The logits of all locations, with the last column and row twice.
    const std::int64_t stride = columns + 1;
    memory.logits.assign(static_cast<std::size_t>((rows + 1) * stride), 0.0f);
    float* const logits = memory.logits.data();
    for (std::int64_t y = 0; y < rows; ++y) {
      float* const row = logits + y * stride;
      for (std::int64_t c = 0; c < channels; ++c) {
        const float factor = coefficients[n * channels + c];
        const float* const from = prototypes + (c * height + top + y) * width + left;
        for (std::int64_t x = 0; x < columns; ++x) row[x] += factor * from[x];
      }
      row[columns] = row[columns - 1];
    }
    std::copy(logits + (rows - 1) * stride, logits + rows * stride, logits + rows * stride);
    memory.columns.resize(static_cast<std::size_t>(across));
    memory.weights.resize(static_cast<std::size_t>(across));
    memory.between.resize(static_cast<std::size_t>(across));
    for (std::int64_t x = 0; x < across; ++x) {
      const auto at = location_of(box[0] + x, side, width);
      memory.columns[static_cast<std::size_t>(x)] = at.first - left;
      memory.weights[static_cast<std::size_t>(x)] = at.second;
    }
    for (std::int64_t y = box[1]; y < box[3]; ++y) {
      const auto at = location_of(y, side, height);
      const float* const above = logits + (at.first - top) * stride;
      pixels = write_row(above, above + stride, at.second, 0.0f, memory, pixels);
    }
  }
}

void plain_paste_masks(const float* maps, std::int64_t side, const float* boxes, std::int64_t count,
                       std::int64_t height, std::int64_t width, float threshold,
                       plain_masks_memory& memory, std::uint8_t* pixels) {
  const std::int64_t locations = side + 2, stride = locations + 1;
  const float factor = static_cast<float>(locations) / static_cast<float>(side);
  // The map with its border, and the last column and row once more.
  memory.logits.assign(static_cast<std::size_t>((locations + 1) * stride), 0.0f);
  float* const map = memory.logits.data();
  for (std::int64_t n = 0; n < count; ++n) {
    const float* const box = boxes + 4 * n;
    std::int64_t first[2], size[2], begin[2], end[2];
    for (int k = 0; k < 2; ++k) {
      const float half = (box[k + 2] - box[k]) * 0.5f * factor;
      const float centre = (box[k + 2] + box[k]) * 0.5f;
      first[k] = static_cast<std::int64_t>(centre - half);
      size[k] = std::max<std::int64_t>(static_cast<std::int64_t>(centre + half) - first[k] + 1, 1);
      begin[k] = std::max<std::int64_t>(first[k], 0);
      end[k] = std::min(first[k] + size[k], k == 0 ? width : height);
    }
    const std::int64_t across = end[0] - begin[0];
    if (across <= 0 || end[1] <= begin[1]) continue;
    for (std::int64_t y = 0; y < side; ++y)
      std::copy(maps + (n * side + y) * side, maps + (n * side + y + 1) * side,
                map + (y + 1) * stride + 1);
    memory.columns.resize(static_cast<std::size_t>(across));
    memory.weights.resize(static_cast<std::size_t>(across));
    memory.between.resize(static_cast<std::size_t>(across));
    for (std::int64_t x = 0; x < across; ++x) {
      const auto at = location_of(begin[0] - first[0] + x, size[0], locations);
      memory.columns[static_cast<std::size_t>(x)] = at.first;
      memory.weights[static_cast<std::size_t>(x)] = at.second;
    }
    for (std::int64_t y = begin[1]; y < end[1]; ++y) {
      const auto at = location_of(y - first[1], size[1], locations);
      const float* const above = map + at.first * stride;
      pixels = write_row(above, above + stride, at.second, threshold, memory, pixels);
    }
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
