// SPDX-License-Identifier: Apache-2.0
// Shared by the functions on run lengths: checks, the profiler's problems, chunks, a loop over
// runs, and counts of positions.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/impl/chunks_of_cost.hpp>
#include <vecdet/impl/run_lengths_buffers.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/run_lengths_view.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

constexpr index_t most_run_pixels = (index_t{1} << 32) - 1;

inline index_t pixels_of(const grid_size& size) noexcept { return size.height * size.width; }
inline std::string size_text(const grid_size& size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width);
}

// Checks build their texts only when they fail, because calls must not allocate.

/// Checks a picture's size, element `i` of `list`, or of its member `member`.
inline void check_run_picture(const char* function, const char* list, const char* member, index_t i,
                              const grid_size& size) {
  const auto name = [&] { return element((std::string(list) + member).c_str(), i); };
  for (const index_t side : {size.height, size.width})
    if (side < 0 || side > most_run_pixels)
      throw_invalid_argument(function, name(), side, "sides of 0 to 2^32 - 1");
  if (size.height > 0 && size.width > most_run_pixels / size.height)
    throw_invalid_argument(function, name(), size_text(size), "less than 2^32 pixels");
}

/// The size of the picture of mask `i`, of one size for each mask or one for all.
inline const grid_size& picture_of(const vector_view<const grid_size>& sizes, index_t i) {
  return sizes[sizes.size() == 1 ? 0 : i];
}

/// Checks one size for each of `count` masks, or one for all.
inline void check_run_pictures(const char* function, const vector_view<const grid_size>& sizes,
                               index_t count) {
  if (sizes.size() != 1)
    check_size(function, "sizes.size()", sizes.size(), count, "the number of masks");
  for (index_t i = 0; i < sizes.size(); ++i) check_run_picture(function, "sizes", "", i, sizes[i]);
}

/// Checks the sum of the counts of mask `i` of `list`, which must be the number of pixels.
inline void check_sum(const char* function, const char* list, index_t i, index_t sum,
                      const grid_size& size) {
  if (sum != pixels_of(size))
    throw_invalid_argument(function, "the sum of the counts of " + element(list, i), sum,
                           std::to_string(pixels_of(size)) + ", the number of pixels of its size");
}

inline void check_runs(const char* function, const char* name, const run_lengths_view& runs) {
  const index_t count = runs.size();
  if (runs.offsets.size() != count + 1 && (count > 0 || !runs.offsets.empty()))
    throw_invalid_argument(function, std::string(name) + ".offsets.size()", runs.offsets.size(),
                           std::to_string(count + 1) + ", one more than there are masks");
  if (!runs.offsets.empty())
    check_offsets(function, (std::string(name) + ".offsets").c_str(), runs.offsets,
                  runs.counts.size(), "the number of counts");
  for (index_t i = 0; i < count; ++i) {
    check_run_picture(function, name, ".sizes", i, runs.sizes[i]);
    index_t sum = 0;
    for (const std::uint32_t own : runs[i]) sum += index_t{own};
    check_sum(function, name, i, sum, runs.sizes[i]);
  }
}

/// Checks that all pictures have the size `size`.
inline void check_same_size(const char* function, const char* name, const run_lengths_view& runs,
                            const grid_size& size) {
  for (index_t i = 0; i < runs.size(); ++i)
    if (runs.sizes[i].height != size.height || runs.sizes[i].width != size.width)
      throw_invalid_argument(function, element((std::string(name) + ".sizes").c_str(), i),
                             size_text(runs.sizes[i]),
                             size_text(size) + ", the size of all pictures");
}

/// Checks that an output shares no memory with run lengths.
inline void check_apart_from_runs(const char* function, const char* output,
                                  const address_range& out, const char* name,
                                  const run_lengths_view& runs) {
  const std::string own = name;
  check_apart(function, output, out, (own + ".sizes").c_str(), runs.sizes);
  check_apart(function, output, out, (own + ".offsets").c_str(), runs.offsets);
  check_apart(function, output, out, (own + ".counts").c_str(), runs.counts);
}

/// Checks that an input is not in the workspace's earlier run lengths, which the call overwrites
/// and whose memory may move when it grows.
inline void check_apart_from_results(const char* function, const char* input,
                                     const address_range& in, const run_lengths_buffers& buffers) {
  const auto range = [](const auto& memory) {
    return address_range(memory.data(), static_cast<index_t>(memory.size()));
  };
  for (const address_range& own :
       {range(buffers.sizes), range(buffers.offsets), range(buffers.counts)})
    check(are_apart(in, own), function, input, "in a result of the workspace",
          "memory that the call does not overwrite");
}

/// What the profiler knows of a call on run lengths.
inline profile::problem run_lengths_problem(const char* function, const char* variant,
                                            index_t count, const grid_size& largest, index_t bytes,
                                            int threads) {
  profile::problem p;
  p.function = function;
  p.variant = variant;
  p.type = "u32";
  p.shape = {profile::rounded_count(count), largest.height, largest.width};
  p.implementation = isa_name(active_isa());
  p.threads = threads;
  p.bytes = bytes;
  return p;
}
inline grid_size largest_of(const vector_view<const grid_size>& sizes) {
  grid_size largest;
  for (const grid_size& size : sizes)
    largest = {std::max(largest.height, size.height), std::max(largest.width, size.width)};
  return largest;
}
inline profile::problem run_lengths_problem(const char* function, const run_lengths_view& runs,
                                            const char* variant = nullptr, int threads = 1) {
  return run_lengths_problem(function, variant, runs.size(), largest_of(runs.sizes),
                             runs.counts.size() * index_t{sizeof(std::uint32_t)}, threads);
}

/// Calls use(begin, end) for each run of pixels of the object; runs without pixels are left out.
template <class Use>
void for_each_run(const vector_view<const std::uint32_t>& counts, const Use& use) {
  index_t end = 0;
  for (index_t k = 0; k < counts.size(); ++k) {
    const index_t begin = end;
    end += index_t{counts[k]};
    if (k % 2 == 1 && end > begin) use(begin, end);
  }
}

/// Makes counts of the positions at which pixels change, which ascend and are less than `pixels`.
/// There is one count more than there are positions.
inline void make_counts(std::uint32_t* positions, index_t changes, index_t pixels) {
  std::uint32_t before = 0;
  for (index_t k = 0; k < changes; ++k) {
    const std::uint32_t position = positions[k];
    positions[k] = position - before;
    before = position;
  }
  positions[changes] = static_cast<std::uint32_t>(pixels) - before;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
