// SPDX-License-Identifier: Apache-2.0
// Masks and pictures to run lengths. Pixels that differ from the one before them begin a run. No
// picture is transposed: between two rows, the bits that differ are changes of their columns, which
// a counting sort brings into the order of columns. The pixels are read once: kernels list the
// words that have changes.
#pragma once

#include <vecdet/args/mask_bits.hpp>
#include <vecdet/detail/bit_lines.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
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
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/mask_bits/mask_bits.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Calls use(i) for each bit i of a word, ascending.
template <class Use>
void for_each_bit(std::uint64_t word, const Use& use) {
  for (; word != 0; word &= word - 1) use(index_t{__builtin_ctzll(word)});
}

/// Writes `count` bytes, `stride` apart, as a line of bits: 1 for those that are not 0.
inline void pack_apart(const std::uint8_t* bytes, index_t stride, index_t count,
                       std::uint8_t* line) noexcept {
  for (index_t i = 0; i < count; i += 8) {
    unsigned byte = 0;
    for (index_t k = 0; k < std::min(count - i, index_t{8}); ++k)
      byte |= static_cast<unsigned>(bytes[(i + k) * stride] != 0) << k;
    line[i / 8] = static_cast<std::uint8_t>(byte);
  }
}

/// The words of changes that a mask may have, if it is read by rows.
inline index_t most_row_changes(const encoded_mask& m) {
  return m.width() == 0 || m.height() == 0 ? 0 : (m.height() + 1) * (m.width() / 64 + 1);
}

/// Finds the changes of a mask whose lines are rows. Words of a column are found from its top on.
inline void find_row_changes(encoded_mask& m, const std::uint8_t* bits, index_t row_bytes,
                             const mask_bits_kernels& kernels) {
  const index_t width = m.width(), rows = m.height(), words = (width + 63) / 64;
  if (width == 0 || rows == 0) return;
  const bool has_top = m.y1 == 0, has_bottom = m.y2 == m.picture.height;
  const std::uint8_t* const bottom = bits + (rows - 1) * row_bytes;
  const auto add = [&m](std::uint64_t changes, index_t k, index_t y) {
    m.found.add(changes, m.x1 + 64 * k, y);
  };
  if (has_top || has_bottom) {
    // The pixel before the first of a column is the last of the column to its left. The column at
    // the right of the rectangle begins after the rectangle's last one.
    const index_t columns = std::min(width + 1, m.picture.width - m.x1);
    std::uint64_t last = 0;
    for (index_t k = 0; 64 * k < columns; ++k) {
      const std::uint64_t first = has_top ? line_word(bits, width, k) : 0;
      const std::uint64_t below = has_bottom ? line_word(bottom, width, k) : 0;
      std::uint64_t changes = first ^ (below << 1 | last);
      last = below >> 63;
      if (columns - 64 * k < 64) changes &= (std::uint64_t{1} << (columns - 64 * k)) - 1;
      add(changes, k, 0);
    }
  }
  if (!has_top)
    for (index_t k = 0; k < words; ++k) add(line_word(bits, width, k), k, m.y1);
  kernels.row_changes(bits, row_bytes, width, rows, m.x1, m.y1 + 1, m.found);
  if (!has_bottom)
    for (index_t k = 0; k < words; ++k) add(line_word(bottom, width, k), k, m.y2);
}

/// A call of encode_masks whose arguments have been checked.
class encode_masks_call {
 public:
  encode_masks_call(run_lengths_buffers& buffers, index_t count, bool has_columns)
      : buffers_(buffers),
        count_(count),
        has_columns_(has_columns),
        masks_(grown(buffers.masks, count)),
        kernels_(detail::kernels<mask_bits_kernels>(active_isa())) {}

  /// The masks, to be filled before run().
  encoded_mask* masks() const noexcept { return masks_; }

  /// @param find find(i, mask, kernels, memory) finds the changes of mask i, with so many lines of
  ///   memory
  /// @param most_words most_words(mask) is the number of words of changes that a mask may have
  /// @param cost of all masks: that of reading so many pixels as bytes
  template <class Find, class MostWords>
  run_lengths_view run(const Find& find, const MostWords& most_words, index_t memory_lines,
                       index_t cost, threading policy) {
    constexpr index_t least_cost = 1 << 18;  // bytes: some ten microseconds
    const chunking chunks = chunks_of_cost(count_, cost, least_cost);
    index_t words = 0;
    for (index_t i = 0; i < count_; ++i) words += most_words(masks_[i]);
    auto* next = reinterpret_cast<change_word*>(
        grown_scratch(buffers_.found, lines_for<change_word>(words)));
    for (index_t i = 0; i < count_; ++i) {
      masks_[i].found = {next, 0, 0};
      next += most_words(masks_[i]);
    }
    for_each_chunk_with_memory(policy, chunks, buffers_.scratch, memory_lines,
                               [&](index_t first, index_t last, cache_line* memory) {
                                 for (index_t i = first; i < last; ++i)
                                   find(i, masks_[i], kernels_,
                                        reinterpret_cast<std::uint8_t*>(memory));
                               });
    index_t* const offsets = grown(buffers_.offsets, count_ + 1);
    grid_size* const sizes = grown(buffers_.sizes, count_);
    offsets[0] = 0;
    index_t most_columns = 0;
    for (index_t i = 0; i < count_; ++i) {
      offsets[i + 1] = offsets[i] + masks_[i].found.changes + 1;
      sizes[i] = masks_[i].picture;
      if (masks_[i].found.size > 0) most_columns = std::max(most_columns, masks_[i].width() + 1);
    }
    std::uint32_t* const counts = grown(buffers_.counts, offsets[count_]);
    const index_t lines = has_columns_ ? 0 : lines_for<index_t>(most_columns);
    for_each_chunk_with_memory(policy, chunks, buffers_.scratch, lines,
                               [&](index_t first, index_t last, cache_line* memory) {
                                 for (index_t i = first; i < last; ++i)
                                   write(masks_[i], counts + offsets[i],
                                         reinterpret_cast<index_t*>(memory));
                               });
    return {{sizes, count_}, {offsets, count_ + 1}, {counts, offsets[count_]}};
  }

 private:
  /// Writes the positions of all changes, and then their differences.
  void write(const encoded_mask& mask, std::uint32_t* counts, index_t* columns) const {
    const vector_view<const change_word> found(mask.found.words, mask.found.size);
    if (has_columns_) {
      std::uint32_t* to = counts;
      for (const change_word& word : found)
        for_each_bit(word.bits,
                     [&](index_t bit) { *to++ = word.x + static_cast<std::uint32_t>(bit); });
    } else if (!found.empty()) {
      // First the number of changes of each column, then where the column's next one is written.
      const index_t width = mask.width() + 1, height = mask.picture.height;
      std::fill_n(columns, width, index_t{0});
      for (const change_word& word : found)
        for_each_bit(word.bits, [&](index_t bit) { ++columns[index_t{word.x} - mask.x1 + bit]; });
      index_t next = 0;
      for (index_t x = 0; x < width; ++x) {
        const index_t own = columns[x];
        columns[x] = next;
        next += own;
      }
      for (const change_word& word : found)
        for_each_bit(word.bits, [&](index_t bit) {
          const index_t x = index_t{word.x} + bit;
          counts[columns[x - mask.x1]++] = static_cast<std::uint32_t>(x * height + word.y);
        });
    }
    make_counts(counts, mask.found.changes, pixels_of(mask.picture));
  }

  run_lengths_buffers& buffers_;
  index_t count_;
  bool has_columns_;
  encoded_mask* masks_;
  const mask_bits_kernels& kernels_;
};

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
  const auto row_bytes = [](const detail::encoded_mask& m) { return (m.width() + 7) / 8; };
  index_t bytes = 0, most_bytes = 0;
  for (index_t i = 0; i < count; ++i) {
    const index_t* const box = masks.boxes[i];
    detail::encoded_mask& mask = call.masks()[i];
    mask = {detail::picture_of(sizes, i), box[0], box[1], box[2], box[3], {}};
    const index_t own = row_bytes(mask) * mask.height();
    bytes += own;
    most_bytes = std::max(most_bytes, own);
  }
  const auto find = [&](index_t i, detail::encoded_mask& m,
                        const detail::mask_bits_kernels& kernels, std::uint8_t* memory) {
    const std::uint8_t* const pixels = masks.pixels.data() + masks.offsets[i];
    const index_t width = m.width();
    if (!is_packed && width > 0)
      for (index_t y = 0; y < m.height(); ++y)
        kernels.pack(pixels + y * width, width, memory + y * row_bytes(m));
    detail::find_row_changes(m, is_packed ? pixels : memory, row_bytes(m), kernels);
  };
  const index_t lines = is_packed ? 0 : detail::lines_for<std::uint8_t>(most_bytes);
  const index_t cost = (is_packed ? 2 : 8) * bytes;  // of 8 pixels each
  return call.run(find, detail::most_row_changes, lines, cost, policy);
}

inline run_lengths_view encode_masks(const byte_pictures<const std::uint8_t>& pictures,
                                     run_lengths_workspace& workspace, threading policy) {
  constexpr const char* function = "encode_masks";
  detail::check_pictures(function, pictures);
  auto& buffers = detail::workspace_access::buffers(workspace);
  detail::check_apart_from_results(function, "pictures", detail::range_of(pictures), buffers);
  const index_t count = pictures.count;
  const grid_size size = pictures.size;
  const index_t pixels = detail::pixels_of(size);
  // Columns whose bytes follow each other are in the order of the counts as they are.
  const bool has_columns =
      pictures.row_stride == 1 && (pictures.column_stride != 1 || size.width == 1);
  const profile::scope timing([&] {
    return detail::run_lengths_problem(function, has_columns ? "columns" : "rows", count, size,
                                       count * pixels, policy.threads());
  });
  detail::encode_masks_call call(buffers, count, has_columns);
  for (index_t i = 0; i < count; ++i) call.masks()[i] = {size, 0, 0, size.width, size.height, {}};
  if (has_columns) {
    const bool is_one_line = pictures.column_stride == size.height;
    const index_t lines = is_one_line ? 1 : size.width;
    const index_t length = is_one_line ? pixels : size.height;
    const auto find = [&](index_t i, detail::encoded_mask& m,
                          const detail::mask_bits_kernels& kernels, std::uint8_t*) {
      if (pixels == 0) return;
      bool last = false;
      for (index_t k = 0; k < lines; ++k)
        kernels.line_changes(pictures.data + i * pictures.stride + k * pictures.column_stride,
                             length, k * length, last, m.found);
    };
    return call.run(
        find, [&](const detail::encoded_mask&) { return lines * ((length + 63) / 64); }, 0,
        count * pixels, policy);
  }
  const index_t row_bytes = (size.width + 7) / 8;
  const auto find = [&](index_t i, detail::encoded_mask& m,
                        const detail::mask_bits_kernels& kernels, std::uint8_t* memory) {
    if (pixels == 0) return;
    for (index_t y = 0; y < size.height; ++y) {
      const std::uint8_t* const row = pictures.data + i * pictures.stride + y * pictures.row_stride;
      if (pictures.column_stride == 1)
        kernels.pack(row, size.width, memory + y * row_bytes);
      else
        detail::pack_apart(row, pictures.column_stride, size.width, memory + y * row_bytes);
    }
    detail::find_row_changes(m, memory, row_bytes, kernels);
  };
  return call.run(find, detail::most_row_changes,
                  detail::lines_for<std::uint8_t>(size.height * row_bytes), count * pixels, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
