// SPDX-License-Identifier: Apache-2.0
// Masks and pictures to run lengths. Pixels that differ from the one before them begin a run. No
// picture is transposed: between two rows, the bits that differ are changes of their columns, which
// a counting sort brings into the order of columns.
#pragma once

#include <vecdet/detail/bit_lines.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/byte_picture_checks.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/impl/mask_checks.hpp>
#include <vecdet/impl/run_lengths_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/run_lengths.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Calls use(i) for each bit i of a word, ascending.
template <class Use>
void for_each_bit(std::uint64_t word, const Use& use) {
  for (; word != 0; word &= word - 1) use(index_t{__builtin_ctzll(word)});
}

/// Writes `count` bytes, `stride` apart, as a line of bits: 1 for those that are not 0.
inline void pack_line(const std::uint8_t* bytes, index_t stride, index_t count,
                      std::uint8_t* line) noexcept {
  index_t i = 0;
  for (; stride == 1 && i + 8 <= count; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, 8);
    line[i / 8] = static_cast<std::uint8_t>(bits_of_8_bytes(word));
  }
  for (; i < count; i += 8) {
    unsigned byte = 0;
    for (index_t k = 0; k < std::min(count - i, index_t{8}); ++k)
      byte |= static_cast<unsigned>(bytes[(i + k) * stride] != 0) << k;
    line[i / 8] = static_cast<std::uint8_t>(byte);
  }
}

/// The changes of a mask whose lines are rows: calls visit(word, x, y), where bit i of the word
/// says whether pixel (x + i, y) differs from the one before it. Rows ascend, and words in a row.
template <class Visit>
void visit_rows(const encoded_mask& m, const Visit& visit) {
  const index_t width = m.x2 - m.x1, rows = m.y2 - m.y1, words = (width + 63) / 64;
  if (width == 0 || rows == 0) return;
  const bool has_top = m.y1 == 0, has_bottom = m.y2 == m.picture.height;
  const std::uint8_t* const bottom = m.bits + (rows - 1) * m.line_bytes;
  if (has_top || has_bottom) {
    // The pixel before the first of a column is the last of the column to its left. The column at
    // the right of the rectangle begins after the rectangle's last one.
    const index_t columns = std::min(width + 1, m.picture.width - m.x1);
    std::uint64_t last = 0;
    for (index_t k = 0; 64 * k < columns; ++k) {
      const std::uint64_t first = has_top ? line_word(m.bits, width, k) : 0;
      const std::uint64_t below = has_bottom ? line_word(bottom, width, k) : 0;
      std::uint64_t changes = first ^ (below << 1 | last);
      last = below >> 63;
      if (columns - 64 * k < 64) changes &= (std::uint64_t{1} << (columns - 64 * k)) - 1;
      visit(changes, m.x1 + 64 * k, index_t{0});
    }
  }
  if (!has_top)
    for (index_t k = 0; k < words; ++k) visit(line_word(m.bits, width, k), m.x1 + 64 * k, m.y1);
  for (index_t y = 1; y < rows; ++y) {
    const std::uint8_t* const row = m.bits + y * m.line_bytes;
    const std::uint8_t* const above = row - m.line_bytes;
    for (index_t k = 0; k < words; ++k)
      visit(line_word(row, width, k) ^ line_word(above, width, k), m.x1 + 64 * k, m.y1 + y);
  }
  if (!has_bottom)
    for (index_t k = 0; k < words; ++k) visit(line_word(bottom, width, k), m.x1 + 64 * k, m.y2);
}

/// The same for a picture whose lines are columns: columns ascend, and words in a column.
template <class Visit>
void visit_columns(const encoded_mask& m, const Visit& visit) {
  if (pixels_of(m.picture) == 0) return;
  std::uint64_t last = 0;
  for (index_t x = 0; x < m.picture.width; ++x)
    for (index_t k = 0; 64 * k < m.picture.height; ++k) {
      const std::uint64_t word = line_word(m.bits + x * m.line_bytes, m.picture.height, k);
      std::uint64_t changes = word ^ (word << 1 | last);
      const index_t left = m.picture.height - 64 * k;
      if (left < 64) changes &= (std::uint64_t{1} << left) - 1;
      last = (word >> (std::min(left, index_t{64}) - 1)) & 1;
      visit(changes, x, 64 * k);
    }
}

/// A call of encode_masks whose arguments have been checked.
class encode_masks_call {
 public:
  encode_masks_call(run_lengths_buffers& buffers, index_t count, bool has_columns)
      : buffers_(buffers),
        count_(count),
        has_columns_(has_columns),
        masks_(grown(buffers.masks, count)) {}

  /// The masks, to be filled before run().
  encoded_mask* masks() const noexcept { return masks_; }

  /// @param pack pack(i) makes the bits of mask i, unless it has them
  /// @param bytes of all pixels
  template <class Pack>
  run_lengths_view run(const Pack& pack, index_t bytes, threading policy) {
    constexpr index_t least_cost = 1 << 16;  // bytes: some ten microseconds
    const chunking chunks = chunks_of_cost(count_, bytes, least_cost);
    index_t* const offsets = grown(buffers_.offsets, count_ + 1);
    grid_size* const sizes = grown(buffers_.sizes, count_);
    offsets[0] = 0;
    for_each_chunk(policy, chunks, [&](index_t, index_t first, index_t last) {
      for (index_t i = first; i < last; ++i) {
        pack(i);
        index_t changes = 0;
        visit(masks_[i], [&](std::uint64_t word, index_t, index_t) {
          if (word != 0) changes += count_bits(word);
        });
        offsets[i + 1] = changes + 1;
      }
    });
    index_t most_columns = 0;
    for (index_t i = 0; i < count_; ++i) {
      offsets[i + 1] += offsets[i];
      sizes[i] = masks_[i].picture;
      if (masks_[i].y1 < masks_[i].y2)
        most_columns = std::max(most_columns, masks_[i].x2 - masks_[i].x1 + 1);
    }
    std::uint32_t* const counts = grown(buffers_.counts, offsets[count_]);
    const index_t lines = has_columns_ ? 0 : lines_for<index_t>(most_columns);
    for_each_chunk_with_memory(policy, chunks, buffers_.scratch, lines,
                               [&](index_t first, index_t last, cache_line* memory) {
                                 for (index_t i = first; i < last; ++i)
                                   write(masks_[i], offsets[i + 1] - offsets[i],
                                         counts + offsets[i], reinterpret_cast<index_t*>(memory));
                               });
    return {{sizes, count_}, {offsets, count_ + 1}, {counts, offsets[count_]}};
  }

 private:
  template <class Visit>
  void visit(const encoded_mask& mask, const Visit& use) const {
    if (has_columns_)
      visit_columns(mask, use);
    else
      visit_rows(mask, use);
  }

  /// Writes the positions of all changes, and then their differences.
  void write(const encoded_mask& mask, index_t size, std::uint32_t* counts,
             index_t* columns) const {
    const index_t height = mask.picture.height;
    if (has_columns_) {
      index_t written = 0;
      visit_columns(mask, [&](std::uint64_t word, index_t x, index_t y) {
        for_each_bit(word, [&](index_t bit) {
          counts[written++] = static_cast<std::uint32_t>(x * height + y + bit);
        });
      });
    } else if (size > 1) {
      // First the number of changes of each column, then where the column's next one is written.
      const index_t width = mask.x2 - mask.x1 + 1;
      std::fill_n(columns, width, index_t{0});
      visit_rows(mask, [&](std::uint64_t word, index_t x, index_t) {
        for_each_bit(word, [&](index_t bit) { ++columns[x - mask.x1 + bit]; });
      });
      index_t next = 0;
      for (index_t x = 0; x < width; ++x) {
        const index_t own = columns[x];
        columns[x] = next;
        next += own;
      }
      visit_rows(mask, [&](std::uint64_t word, index_t x, index_t y) {
        for_each_bit(word, [&](index_t bit) {
          counts[columns[x - mask.x1 + bit]++] = static_cast<std::uint32_t>((x + bit) * height + y);
        });
      });
    }
    make_counts(counts, size - 1, pixels_of(mask.picture));
  }

  run_lengths_buffers& buffers_;
  index_t count_;
  bool has_columns_;
  encoded_mask* masks_;
};

/// Room for the packed bits of all masks.
inline std::uint8_t* packed_bits(run_lengths_buffers& buffers, index_t bytes) {
  return reinterpret_cast<std::uint8_t*>(
      grown_scratch(buffers.packed, lines_for<std::uint8_t>(bytes)));
}

}  // namespace detail

inline run_lengths_view encode_masks(const masks_view& masks, vector_view<const grid_size> sizes,
                                     run_lengths_workspace& workspace, threading policy) {
  constexpr const char* function = "encode_masks";
  detail::check_run_pictures(function, sizes, masks.size());
  detail::check_masks(function, "masks", masks, &sizes);
  auto& buffers = detail::workspace_access::buffers(workspace);
  detail::check_apart_from_results(function, "masks.boxes", masks.boxes, buffers);
  detail::check_apart_from_results(function, "masks.offsets", masks.offsets, buffers);
  detail::check_apart_from_results(function, "masks.pixels", masks.pixels, buffers);
  detail::check_apart_from_results(function, "sizes", sizes, buffers);
  const bool is_packed = masks.kind == mask_pixels::bits;
  const index_t count = masks.size();
  const profile::scope timing([&] {
    return detail::run_lengths_problem(function, is_packed ? "bits" : "bytes", count,
                                       detail::largest_of(sizes), masks.pixels.size(),
                                       policy.threads());
  });
  detail::encode_masks_call call(buffers, count, false);
  index_t bytes = 0;
  for (index_t i = 0; i < count; ++i) {
    const index_t* const box = masks.boxes[i];
    const index_t line_bytes = (box[2] - box[0] + 7) / 8;
    const std::uint8_t* const bits = masks.pixels.data() + masks.offsets[i];
    call.masks()[i] = {
        detail::picture_of(sizes, i), box[0], box[1], box[2], box[3], bits, line_bytes};
    bytes += line_bytes * (box[3] - box[1]);
  }
  if (is_packed) return call.run([](index_t) {}, bytes, policy);

  std::uint8_t* const packed = detail::packed_bits(buffers, bytes);
  index_t used = 0;
  for (index_t i = 0; i < count; ++i) {
    detail::encoded_mask& mask = call.masks()[i];
    mask.bits = packed + used;
    used += mask.line_bytes * (mask.y2 - mask.y1);
  }
  const auto pack = [&](index_t i) {
    const detail::encoded_mask& mask = call.masks()[i];
    const index_t width = mask.x2 - mask.x1;
    if (width == 0) return;
    std::uint8_t* const lines = packed + (mask.bits - packed);
    for (index_t y = 0; y < mask.y2 - mask.y1; ++y)
      detail::pack_line(masks.pixels.data() + masks.offsets[i] + y * width, 1, width,
                        lines + y * mask.line_bytes);
  };
  return call.run(pack, 8 * bytes, policy);
}

inline run_lengths_view encode_masks(const byte_pictures<const std::uint8_t>& pictures,
                                     run_lengths_workspace& workspace, threading policy) {
  constexpr const char* function = "encode_masks";
  detail::check_pictures(function, pictures);
  auto& buffers = detail::workspace_access::buffers(workspace);
  detail::check_apart_from_results(function, "pictures", detail::range_of(pictures), buffers);
  const index_t count = pictures.count;
  const grid_size size = pictures.size;
  // Columns whose bytes follow each other are in the order of the counts as they are.
  const bool has_columns =
      pictures.row_stride == 1 && (pictures.column_stride != 1 || size.width == 1);
  const profile::scope timing([&] {
    return detail::run_lengths_problem(function, has_columns ? "columns" : "rows", count, size,
                                       count * detail::pixels_of(size), policy.threads());
  });
  detail::encode_masks_call call(buffers, count, has_columns);
  const index_t lines = has_columns ? size.width : size.height;
  const index_t length = has_columns ? size.height : size.width;
  const index_t line_bytes = (length + 7) / 8;
  std::uint8_t* const packed = detail::packed_bits(buffers, count * lines * line_bytes);
  for (index_t i = 0; i < count; ++i)
    call.masks()[i] = {size,      0, 0, size.width, size.height, packed + i * lines * line_bytes,
                       line_bytes};
  const index_t line_stride = has_columns ? pictures.column_stride : pictures.row_stride;
  const index_t stride = has_columns ? pictures.row_stride : pictures.column_stride;
  const auto pack = [&](index_t i) {
    if (detail::pixels_of(size) == 0) return;
    const std::uint8_t* const picture = pictures.data + i * pictures.stride;
    for (index_t k = 0; k < lines; ++k)
      detail::pack_line(picture + k * line_stride, stride, length,
                        packed + (i * lines + k) * line_bytes);
  };
  return call.run(pack, count * detail::pixels_of(size), policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
