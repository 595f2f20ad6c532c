// SPDX-License-Identifier: Apache-2.0
// Checks of pictures in the caller's memory.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/run_lengths_checks.hpp>
#include <vecdet/run_lengths_view.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// From the first byte of any pixel to the last.
template <class T>
address_range range_of(const byte_pictures<T>& pictures) {
  index_t first = 0, last = 0;
  if (pictures.count == 0 || pixels_of(pictures.size) == 0) return {pictures.data, index_t{0}};
  const index_t steps[3][2] = {{pictures.count, pictures.stride},
                               {pictures.size.height, pictures.row_stride},
                               {pictures.size.width, pictures.column_stride}};
  for (const auto& step : steps) (step[1] < 0 ? first : last) += (step[0] - 1) * step[1];
  const auto data = reinterpret_cast<std::uintptr_t>(pictures.data);
  return {data + static_cast<std::uintptr_t>(first), data + static_cast<std::uintptr_t>(last) + 1};
}

template <class T>
void check_pictures(const char* function, const byte_pictures<T>& pictures) {
  check_member(pictures.count >= 0, function, "pictures", "count", pictures.count, "0 or more");
  check_run_picture(function, "pictures", "", 0, pictures.size);
  check_member(pictures.data != nullptr || pictures.count == 0 || pixels_of(pictures.size) == 0,
               function, "pictures", "data", "null", "memory of all pixels");
  const auto check_step = [&](const char* name, index_t count, index_t stride) {
    constexpr index_t most = index_t{1} << 60;
    check_member(count <= 1 || (stride >= -(most / count) && stride <= most / count), function,
                 "pictures", name, stride, "a distance within what memory can address");
  };
  check_step("stride", pictures.count, pictures.stride);
  check_step("row_stride", pictures.size.height, pictures.row_stride);
  check_step("column_stride", pictures.size.width, pictures.column_stride);
}

/// Throws if two pixels may share a byte: sorted by their strides, each stride must be longer than
/// what lies within it.
inline void check_no_shared_pixels(const char* function,
                                   const byte_pictures<std::uint8_t>& pictures) {
  // The stride of a single element may be any number, also one that std::abs cannot return.
  const auto step = [](index_t stride, index_t count) {
    return std::make_pair(count < 2 ? 0 : std::abs(stride), count);
  };
  std::pair<index_t, index_t> steps[] = {step(pictures.stride, pictures.count),
                                         step(pictures.row_stride, pictures.size.height),
                                         step(pictures.column_stride, pictures.size.width)};
  std::sort(std::begin(steps), std::end(steps));
  index_t within = 1;
  for (const auto& [stride, count] : steps) {
    if (count < 2) continue;
    if (stride < within)
      throw_invalid_argument(function, "a stride of the pictures", stride,
                             "at least " + std::to_string(within) + ", the bytes within it");
    within += stride * (count - 1);
  }
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
