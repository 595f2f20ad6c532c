// SPDX-License-Identifier: Apache-2.0
// COCO's compressed strings of run lengths.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/impl/run_lengths_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/run_lengths.hpp>

#include <cstdint>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A difference of two counts has at most 33 bits with its sign.
constexpr index_t most_run_characters = 7;

/// Writes a number, and returns the end of its characters.
inline char* write_run_number(std::int64_t number, char* to) noexcept {
  for (;;) {
    const auto group = static_cast<int>(number & 31);
    number >>= 5;
    const bool is_last = number == ((group & 16) != 0 ? -1 : 0);
    *to++ = static_cast<char>(48 + group + (is_last ? 0 : 32));
    if (is_last) return to;
  }
}

/// Reads a number at text[at], which moves to its end.
inline std::int64_t read_run_number(const char* function, const vector_view<const char>& text,
                                    index_t end, index_t& at) {
  std::uint64_t number = 0;
  for (int shift = 0; shift < 5 * most_run_characters; shift += 5) {
    check(at < end, function, "strings.text", "cut off within a number", "whole strings");
    const int group = static_cast<unsigned char>(text[at]) - 48;
    if (group < 0 || group > 63)
      throw_invalid_argument(function, element("strings.text", at),
                             "the character " + std::to_string(group + 48),
                             "characters from 48 to 111");
    ++at;
    number |= static_cast<std::uint64_t>(group & 31) << shift;
    if ((group & 32) != 0) continue;
    if ((group & 16) != 0) number |= ~std::uint64_t{0} << (shift + 5);
    return static_cast<std::int64_t>(number);
  }
  throw_invalid_argument(function, element("strings.text", at), "within a longer number",
                         "numbers of at most 7 characters");
}

/// Calls use(count) for each count of a string.
template <class Use>
void for_each_count(const char* function, const run_length_strings& strings, index_t i,
                    const Use& use) {
  std::int64_t before[2] = {};  // the counts two and one before
  index_t read = 0;
  for (index_t at = strings.offsets[i]; at < strings.offsets[i + 1]; ++read) {
    const index_t begin = at;
    std::int64_t count = read_run_number(function, strings.text, strings.offsets[i + 1], at);
    if (read > 2) count += before[0];
    if (count < 0 || count > most_run_pixels)
      throw_invalid_argument(function, "the count at " + element("strings.text", begin), count,
                             "a count of 0 to 2^32 - 1");
    before[0] = before[1];
    before[1] = count;
    use(static_cast<std::uint32_t>(count));
  }
}

}  // namespace detail

inline run_length_strings run_lengths_to_strings(const run_lengths_view& runs,
                                                 run_lengths_workspace& workspace) {
  constexpr const char* function = "run_lengths_to_strings";
  detail::check_runs(function, "runs", runs);
  const profile::scope timing([&] { return detail::run_lengths_problem(function, runs); });
  auto& buffers = detail::workspace_access::buffers(workspace);
  index_t* const offsets = detail::grown(buffers.text_offsets, runs.size() + 1);
  char* const text = detail::grown(buffers.text, detail::most_run_characters * runs.counts.size());
  char* to = text;
  offsets[0] = 0;
  for (index_t i = 0; i < runs.size(); ++i) {
    const vector_view<const std::uint32_t> counts = runs[i];
    for (index_t k = 0; k < counts.size(); ++k)
      to = detail::write_run_number(
          std::int64_t{counts[k]} - (k > 2 ? std::int64_t{counts[k - 2]} : 0), to);
    offsets[i + 1] = to - text;
  }
  return {{offsets, runs.size() + 1}, {text, to - text}};
}

inline run_lengths_view run_lengths_from_strings(const run_length_strings& strings,
                                                 vector_view<const grid_size> sizes,
                                                 run_lengths_workspace& workspace) {
  constexpr const char* function = "run_lengths_from_strings";
  const index_t count = strings.size();
  if (!strings.offsets.empty())
    detail::check_offsets(function, "strings.offsets", strings.offsets, strings.text.size(),
                          "the number of characters");
  detail::check_size(function, "sizes.size()", sizes.size(), count, "the number of strings");
  detail::check_run_pictures(function, sizes, count);
  auto& buffers = detail::workspace_access::buffers(workspace);
  detail::check_apart_from_results(function, "strings.offsets", strings.offsets, buffers);
  detail::check_apart_from_results(function, "strings.text", strings.text, buffers);
  detail::check_apart_from_results(function, "sizes", sizes, buffers);
  index_t all = 0;
  for (index_t i = 0; i < count; ++i) {
    index_t sum = 0;
    detail::for_each_count(function, strings, i, [&](std::uint32_t runs) {
      sum += index_t{runs};
      ++all;
    });
    detail::check_sum(function, "strings", i, sum, sizes[i]);
  }
  const profile::scope timing([&] {
    return detail::run_lengths_problem(function, nullptr, count, detail::largest_of(sizes),
                                       strings.text.size(), 1);
  });
  index_t* const offsets = detail::grown(buffers.offsets, count + 1);
  grid_size* const pictures = detail::grown(buffers.sizes, count);
  std::uint32_t* const counts = detail::grown(buffers.counts, all);
  index_t written = offsets[0] = 0;
  for (index_t i = 0; i < count; ++i) {
    detail::for_each_count(function, strings, i,
                           [&](std::uint32_t runs) { counts[written++] = runs; });
    offsets[i + 1] = written;
    pictures[i] = sizes[i];
  }
  return {{pictures, count}, {offsets, count + 1}, {counts, all}};
}

}  // namespace VECDET_ABI
}  // namespace vecdet
