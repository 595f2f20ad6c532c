// SPDX-License-Identifier: Apache-2.0
// The points of a level form rows and columns, so the points inside or near a box can be found
// without visiting the others.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/kernels/sixteens.hpp>
#include <vecdet/simd/bits.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::assigner_args;
using detail::point_level;

/// The first of a sequence of ascending numbers for which `is_beyond` holds; it holds for all later
/// ones. The search begins where `value` would be if the numbers were evenly spaced.
template <class IsBeyond>
VECDET_INLINE index_t first_beyond(const float* x, index_t count, float value,
                                   const IsBeyond& is_beyond) {
  const float last = static_cast<float>(count - 1);
  const float guess = (value - x[0]) / (x[count - 1] - x[0]) * last;
  index_t i = guess > 0 ? guess < last ? static_cast<index_t>(guess) : count : 0;
  if (i < 0 || i > count) i = 0;  // from a NaN that -ffast-math let pass
  while (i > 0 && is_beyond(x[i - 1])) --i;
  while (i < count && !is_beyond(x[i])) ++i;
  return i;
}

/// The range [begin, end) of numbers more than `margin` inside (low, high).
struct index_range {
  index_t begin, end;
};
VECDET_INLINE index_range range_within(const float* x, index_t count, float low, float high,
                                       float margin) {
  return {first_beyond(x, count, low, [=](float a) { return a - low > margin; }),
          first_beyond(x, count, high, [=](float a) { return !(high - a > margin); })};
}

/// Calls use(first, last) for each run of points more than `margin` inside a box.
template <class Use>
VECDET_INLINE void for_points_within(const assigner_args& args, const float* box, float margin,
                                     const Use& use) {
  for (index_t l = 0; l < args.level_count; ++l) {
    const point_level& level = args.levels[l];
    if (level.height == 0 || level.width == 0) continue;
    const index_range rows = range_within(level.y, level.height, box[1], box[3], margin);
    if (rows.begin >= rows.end) continue;
    const index_range columns = range_within(level.x, level.width, box[0], box[2], margin);
    if (columns.begin >= columns.end) continue;
    for (index_t row = rows.begin; row < rows.end; ++row) {
      const index_t first = level.first + row * level.width;
      use(first + columns.begin, first + columns.end);
    }
  }
}

/// Writes the `wanted` points of a level nearest to (x, y) to `nearest` and their distances to
/// `distances`: nearest first, ties broken by lower index, at most all points of the level. Returns
/// how many there are.
///
/// The search covers a window around (x, y). A point outside it is at least as far away as the
/// nearest row or column outside it: the float distance, the root of two rounded squares, is never
/// less than either difference.
VECDET_INLINE index_t nearest_points(const point_level& level, float x, float y, index_t wanted,
                                     index_t* nearest, float* distances) {
  const index_t size = level.height * level.width;
  if (wanted > size) wanted = size;
  if (wanted == 0) return 0;
  const auto beyond = [](const float* axis, index_t count, float value) {
    return first_beyond(axis, count, value, [=](float a) { return a > value; });
  };
  const index_t column = beyond(level.x, level.width, x), row = beyond(level.y, level.height, y);
  index_t radius = 1;
  while (4 * radius * radius < wanted) ++radius;
  for (++radius;; radius *= 2) {
    const auto at_least = [](index_t a, index_t least) { return a > least ? a : least; };
    const auto at_most = [](index_t a, index_t most) { return a < most ? a : most; };
    const index_t left = at_least(column - radius, 0), top = at_least(row - radius, 0);
    const index_t right = at_most(column + radius, level.width);
    const index_t bottom = at_most(row + radius, level.height);
    index_t count = 0;
    for (index_t r = top; r < bottom; ++r) {
      const float dy = level.y[r] - y;
      const float dy_squared = rounded(dy * dy);
      for (index_t c = left; c < right; ++c) {
        const float dx = level.x[c] - x;
        const float distance = __builtin_sqrtf(rounded(dx * dx) + dy_squared);
        if (count == wanted && !(distance < distances[count - 1])) continue;
        index_t at = count < wanted ? count++ : count - 1;
        for (; at > 0 && distances[at - 1] > distance; --at) {
          distances[at] = distances[at - 1];
          nearest[at] = nearest[at - 1];
        }
        distances[at] = distance;
        nearest[at] = level.first + r * level.width + c;
      }
    }
    float reach = infinity<float>();  // of the points visited so far
    const auto bound = [&](float difference) {
      const float distance = difference < 0 ? -difference : difference;
      if (distance < reach) reach = distance;
    };
    if (left > 0) bound(level.x[left - 1] - x);
    if (top > 0) bound(level.y[top - 1] - y);
    if (right < level.width) bound(level.x[right] - x);
    if (bottom < level.height) bound(level.y[bottom] - y);
    const bool is_all = left == 0 && top == 0 && right == level.width && bottom == level.height;
    if (is_all || (count == wanted && distances[count - 1] < reach)) return count;
  }
}

/// The first point of a level that breaks the grid: it is not in its row and column, or its row or
/// column does not ascend. Returns the number of points if there is none.
inline index_t find_off_grid_point(const float* points, const point_level& level) {
  const float* at = points + 2 * level.first;
  for (index_t row = 0; row < level.height; ++row, at += 2 * level.width) {
    const float y = level.y[row];
    bool is_grid = row == 0 || level.y[row - 1] < y;
    for_each_by_sixteens(0, level.width, [&](index_t c) VECDET_INLINE_LAMBDA {
      is_grid &= at[2 * c] == level.x[c] && at[2 * c + 1] == y;
    });
    if (row == 0)
      for (index_t c = 1; c < level.width; ++c) is_grid &= level.x[c - 1] < level.x[c];
    if (is_grid) continue;
    for (index_t c = 0; c < level.width; ++c) {
      const bool ascends =
          (row == 0 || level.y[row - 1] < y) && (row > 0 || c == 0 || level.x[c - 1] < level.x[c]);
      if (!ascends || at[2 * c] != level.x[c] || at[2 * c + 1] != y) return row * level.width + c;
    }
  }
  return level.height * level.width;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
