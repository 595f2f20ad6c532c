// SPDX-License-Identifier: Apache-2.0
// Run lengths to masks and pictures. Where a run begins and ends in a column, bits or bytes are
// flipped; then each row is combined with the one above it by exclusive or.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/byte_picture_checks.hpp>
#include <vecdet/impl/mask_checks.hpp>
#include <vecdet/impl/masks_buffers.hpp>
#include <vecdet/impl/run_lengths_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/masks.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/run_lengths.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Writes a mask row by row, `row_bytes` each, `row_stride` apart. flip(x, y) changes the byte of a
/// pixel.
template <class Flip>
void decode_rows(const vector_view<const std::uint32_t>& counts, const grid_size& size,
                 std::uint8_t* rows, index_t row_bytes, index_t row_stride, const Flip& flip) {
  if (pixels_of(size) == 0) return;
  for (index_t y = 0; y < size.height; ++y)
    std::memset(rows + y * row_stride, 0, static_cast<std::size_t>(row_bytes));
  for_each_run(counts, [&](index_t begin, index_t end) {
    const index_t last = (end - 1) / size.height;
    index_t x = begin / size.height;
    flip(x, begin % size.height);
    while (x < last) flip(++x, index_t{0});
    if (end % size.height != 0) flip(last, end % size.height);
  });
  for (index_t y = 1; y < size.height; ++y) {
    std::uint8_t* const row = rows + y * row_stride;
    const std::uint8_t* const above = row - row_stride;
    for (index_t i = 0; i < row_bytes; ++i) row[i] ^= above[i];
  }
}

/// Writes a mask column by column.
inline void decode_columns(const vector_view<const std::uint32_t>& counts,
                           const byte_pictures<std::uint8_t>& pictures, std::uint8_t* picture) {
  index_t x = 0, y = 0;
  std::uint8_t value = 0;
  for (const std::uint32_t count : counts) {
    for (index_t left{count}; left > 0;) {
      const index_t now = std::min(left, pictures.size.height - y);
      std::uint8_t* const to = picture + x * pictures.column_stride + y * pictures.row_stride;
      if (pictures.row_stride == 1)
        std::memset(to, value, static_cast<std::size_t>(now));
      else
        for (index_t i = 0; i < now; ++i) to[i * pictures.row_stride] = value;
      left -= now;
      y += now;
      if (y == pictures.size.height) {
        y = 0;
        ++x;
      }
    }
    value ^= 1;
  }
}

constexpr index_t least_decoded_bytes = 1 << 17;  // some ten microseconds

}  // namespace detail

inline masks_view decode_masks(const run_lengths_view& runs, mask_pixels pixels,
                               masks_workspace& workspace, threading policy) {
  constexpr const char* function = "decode_masks";
  const bool is_packed = pixels == mask_pixels::bits;
  detail::check(is_packed || pixels == mask_pixels::bytes, function, "pixels",
                static_cast<int>(pixels), "a mask_pixels");
  detail::check_runs(function, "runs", runs);
  const index_t count = runs.size();
  const auto row_bytes = [&](index_t i) {
    return is_packed ? (runs.sizes[i].width + 7) / 8 : runs.sizes[i].width;
  };
  index_t bytes = 0;
  for (index_t i = 0; i < count; ++i) {
    bytes += runs.sizes[i].height * row_bytes(i);
    detail::check(bytes <= index_t{1} << 48, function, "runs.size()", count,
                  "masks that fit into memory");
  }
  const profile::scope timing([&] {
    return detail::run_lengths_problem(function, runs, is_packed ? "bits" : "bytes",
                                       policy.threads());
  });
  auto& buffers = detail::workspace_access::buffers(workspace);
  buffers.make_rectangles(count);
  index_t* const boxes = buffers.boxes.data();
  index_t* const offsets = buffers.offsets.data();
  for (index_t i = 0; i < count; ++i) {
    boxes[4 * i] = boxes[4 * i + 1] = 0;
    boxes[4 * i + 2] = runs.sizes[i].width;
    boxes[4 * i + 3] = runs.sizes[i].height;
    offsets[i + 1] = offsets[i] + runs.sizes[i].height * row_bytes(i);
  }
  auto* const all = reinterpret_cast<std::uint8_t*>(
      detail::grown_scratch(buffers.pixels, detail::lines_for<std::uint8_t>(bytes)));
  detail::for_each_chunk(
      policy, detail::chunks_of_cost(count, bytes, detail::least_decoded_bytes),
      [&](index_t, index_t first, index_t last) {
        for (index_t i = first; i < last; ++i) {
          std::uint8_t* const rows = all + offsets[i];
          const index_t stride = row_bytes(i);
          if (is_packed)
            detail::decode_rows(
                runs[i], runs.sizes[i], rows, stride, stride, [&](index_t x, index_t y) {
                  rows[y * stride + x / 8] ^= static_cast<std::uint8_t>(1u << (x % 8));
                });
          else
            detail::decode_rows(runs[i], runs.sizes[i], rows, stride, stride,
                                [&](index_t x, index_t y) { rows[y * stride + x] ^= 1; });
        }
      });
  return {{boxes, count}, {offsets, count + 1}, {all, bytes}, pixels};
}

inline void decode_masks(const run_lengths_view& runs, const byte_pictures<std::uint8_t>& pictures,
                         threading policy) {
  constexpr const char* function = "decode_masks";
  detail::check_pictures(function, pictures);
  detail::check_runs(function, "runs", runs);
  detail::check_size(function, "pictures.count", pictures.count, runs.size(),
                     "the number of masks");
  if (runs.size() == 0) return;
  detail::check_same_size(function, "runs", runs, pictures.size);
  if (detail::pixels_of(pictures.size) == 0) return;
  detail::check_no_shared_pixels(function, pictures);
  detail::check_apart_from_runs(function, "pictures", detail::range_of(pictures), "runs", runs);
  const bool has_rows = pictures.column_stride == 1 && pictures.row_stride != 1;
  const profile::scope timing([&] {
    return detail::run_lengths_problem(function, runs, has_rows ? "rows" : "columns",
                                       policy.threads());
  });
  const index_t bytes = runs.size() * detail::pixels_of(pictures.size);
  detail::for_each_chunk(
      policy, detail::chunks_of_cost(runs.size(), bytes, detail::least_decoded_bytes),
      [&](index_t, index_t first, index_t last) {
        for (index_t i = first; i < last; ++i) {
          std::uint8_t* const picture = pictures.data + i * pictures.stride;
          if (has_rows)
            detail::decode_rows(
                runs[i], pictures.size, picture, pictures.size.width, pictures.row_stride,
                [&](index_t x, index_t y) { picture[y * pictures.row_stride + x] ^= 1; });
          else
            detail::decode_columns(runs[i], pictures, picture);
        }
      });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
