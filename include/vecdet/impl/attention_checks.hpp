// SPDX-License-Identifier: Apache-2.0
// The checks of deformable_attention.hpp.
#pragma once

#include <vecdet/attention_shape.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline void check_attention_shape(const char* function, const attention_shape& shape) {
  check(shape.images >= 0, function, "shape.images", shape.images, "0 or more");
  check(shape.queries >= 0, function, "shape.queries", shape.queries, "0 or more");
  check(shape.heads >= 0, function, "shape.heads", shape.heads, "0 or more");
  check(shape.channels >= 0, function, "shape.channels", shape.channels, "0 or more");
  constexpr index_t most = std::numeric_limits<std::int32_t>::max();
  index_t locations = 0, points = 0;
  for (index_t l = 0; l < shape.levels.size(); ++l) {
    const attention_level& level = shape.levels[l];
    const auto check_level = [&](const char* member, index_t value, bool holds,
                                 const char* expected) {
      if (!holds)
        throw_invalid_argument(function, element("shape.levels", l) + "." + member, value,
                               expected);
    };
    check_level("height", level.height, level.height >= 0 && level.height <= most, "0 to 2^31 - 1");
    check_level("width", level.width, level.width >= 0 && level.width <= most, "0 to 2^31 - 1");
    check_level("points", level.points, level.points >= 0 && level.points <= most - points,
                "0 to 2^31 - 1 in all levels");
    check_level("height", level.height, level.height * level.width <= most - locations,
                "at most 2^31 - 1 locations in all levels");
    locations += level.height * level.width;
    points += level.points;
  }
}

/// Throws unless the size of an array is the product of these numbers. The product may overflow.
inline void check_attention_size(const char* function, const char* argument, index_t size,
                                 std::initializer_list<index_t> sizes, const char* meaning) {
  index_t expected = 1;
  bool is_empty = false, is_too_large = false;
  for (const index_t n : sizes) is_empty = is_empty || n == 0;
  for (const index_t n : sizes) {
    if (is_empty || is_too_large) break;
    is_too_large = n > std::numeric_limits<index_t>::max() / expected;
    if (!is_too_large) expected *= n;
  }
  if (is_empty) expected = 0;
  if (is_too_large)
    throw_invalid_argument(function, argument, size,
                           std::string(meaning) + ", more than memory can address");
  check_size(function, argument, size, expected, meaning);
}

/// The checks of the inputs that forward and backward share.
template <class T>
void check_attention_inputs(const char* function, const attention_shape& shape,
                            const vector_view<const T>& value,
                            const vector_view<const compute_type<T>>& points,
                            const vector_view<const compute_type<T>>& weights) {
  check_attention_shape(function, shape);
  check_attention_size(function, "value.size()", value.size(),
                       {shape.images, shape.locations(), shape.heads, shape.channels},
                       "images x locations x heads x channels");
  check_attention_size(function, "points.size()", points.size(),
                       {shape.images, shape.queries, shape.heads, shape.points(), 2},
                       "images x queries x heads x points x 2");
  check_attention_size(function, "weights.size()", weights.size(),
                       {shape.images, shape.queries, shape.heads, shape.points()},
                       "images x queries x heads x points");
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
