// SPDX-License-Identifier: Apache-2.0
// Polygons and boxes to run lengths. No edge is drawn: the step at which it passes the middle of a
// column follows from its slope.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/impl/run_lengths_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/run_lengths.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// As in COCO's mask API: z + 0.5, rounded towards 0, so that -1.6 becomes -1.
inline index_t coco_rounded(double z) {
  return static_cast<index_t>(z + 0.5);  // NOLINT(bugprone-incorrect-roundings)
}

/// A point in fifths of pixels.
struct fine_point {
  index_t x, y;

  fine_point(double from_x, double from_y)
      : x(coco_rounded(rounded(5 * from_x))), y(coco_rounded(rounded(5 * from_y))) {}
};

/// An edge, in steps of its longer side.
class polygon_edge {
 public:
  polygon_edge(fine_point a, fine_point b, const grid_size& picture)
      : picture_(picture), from_(a), to_(b) {
    const index_t across = std::abs(b.x - a.x), down = std::abs(b.y - a.y);
    is_flat_ = across >= down;
    if (is_flat_ ? a.x > b.x : a.y > b.y) std::swap(from_, to_);
    steps_ = std::max(across, down);
    if (across == 0) return;
    slope_ = is_flat_ ? quotient(static_cast<double>(to_.y - from_.y), static_cast<double>(across))
                      : quotient(static_cast<double>(to_.x - from_.x), static_cast<double>(down));
    // The middle of column x is between 5 x + 2 and 5 x + 3.
    const index_t left = std::min(a.x, b.x), right = std::max(a.x, b.x);
    first_ = left <= 2 ? 0 : (left + 2) / 5;
    end_ = right < 3 ? 0 : std::min((right - 3) / 5 + 1, picture.width);
  }

  /// The number of columns in which pixels change, at least 0.
  index_t columns() const { return std::max(end_ - first_, index_t{0}); }

  /// Writes the position of the change in each of these columns.
  std::uint32_t* write(std::uint32_t* to) const {
    for (index_t x = first_; x < end_; ++x) {
      const index_t y = is_flat_ ? upper_of_flat(5 * x + 2 - from_.x) : from_.y + step_at(x);
      const index_t row = std::min(y <= 2 ? 0 : (y + 2) / 5, picture_.height);
      *to++ = static_cast<std::uint32_t>(x * picture_.height + row);
    }
    return to;
  }

 private:
  /// The other coordinate at a step.
  index_t at(index_t step) const {
    const auto begin = static_cast<double>(is_flat_ ? from_.y : from_.x);
    return coco_rounded(rounded(begin + rounded(slope_ * static_cast<double>(step))));
  }
  index_t upper_of_flat(index_t step) const { return std::min(at(step), at(step + 1)); }
  /// The last step before the edge passes the middle of column x.
  index_t step_at(index_t x) const {
    const bool is_rising = slope_ > 0;
    const auto is_before = [&](index_t step) { return (at(step) < 5 * x + 3) == is_rising; };
    const double guess = quotient(static_cast<double>(5 * x - from_.x) + 2.5, slope_);
    index_t step = std::min(std::max(static_cast<index_t>(guess), index_t{0}), steps_);
    while (step > 0 && !is_before(step)) --step;
    while (step < steps_ && is_before(step + 1)) ++step;
    return step;
  }

  grid_size picture_;
  fine_point from_, to_;
  bool is_flat_ = false;
  double slope_ = 0;
  index_t steps_ = 0, first_ = 0, end_ = 0;
};

/// Makes counts of the positions at which the pixels of a mask change, in any order. Two changes at
/// a position are none. Returns the number of counts, at most one more than there are positions.
inline index_t counts_of_changes(std::uint32_t* positions, index_t changes, index_t pixels) {
  std::sort(positions, positions + changes);
  index_t written = 0;
  for (index_t k = 0; k < changes;) {
    const std::uint32_t position = positions[k];
    index_t equal = 0;
    for (; k < changes && positions[k] == position; ++k) ++equal;
    if (equal % 2 == 1 && index_t{position} < pixels) positions[written++] = position;
  }
  make_counts(positions, written, pixels);
  return written + 1;
}

constexpr double most_polygon_coordinate = 0x1p27;

/// The masks of `count` polygons: each_edge(i, use) calls use(a, b) for each edge of polygon i.
template <class EachEdge>
run_lengths_view encode_edges(const char* function, index_t count,
                              const vector_view<const grid_size>& sizes, index_t numbers,
                              run_lengths_buffers& buffers, const EachEdge& each_edge) {
  const profile::scope timing([&] {
    return run_lengths_problem(function, nullptr, count, largest_of(sizes),
                               numbers * index_t{sizeof(double)}, 1);
  });
  index_t* const offsets = grown(buffers.offsets, count + 1);
  grid_size* const pictures = grown(buffers.sizes, count);
  offsets[0] = 0;
  index_t most = 0;
  for (index_t i = 0; i < count; ++i) {
    most += 1;
    each_edge(i, [&](const fine_point& a, const fine_point& b) {
      most += polygon_edge(a, b, picture_of(sizes, i)).columns();
    });
  }
  std::uint32_t* const counts = grown(buffers.counts, most);
  for (index_t i = 0; i < count; ++i) {
    const grid_size size = pictures[i] = picture_of(sizes, i);
    std::uint32_t* const own = counts + offsets[i];
    std::uint32_t* end = own;
    each_edge(i, [&](const fine_point& a, const fine_point& b) {
      end = polygon_edge(a, b, size).write(end);
    });
    offsets[i + 1] = offsets[i] + counts_of_changes(own, end - own, pixels_of(size));
  }
  return {{pictures, count}, {offsets, count + 1}, {counts, offsets[count]}};
}

}  // namespace detail

inline run_lengths_view run_lengths_from_polygons(vector_view<const double> points,
                                                  vector_view<const index_t> offsets,
                                                  vector_view<const grid_size> sizes,
                                                  run_lengths_workspace& workspace) {
  constexpr const char* function = "run_lengths_from_polygons";
  const index_t count = std::max(offsets.size() - 1, index_t{0});
  detail::check(points.size() % 2 == 0, function, "points.size()", points.size(),
                "two numbers per point");
  if (offsets.empty())
    detail::check_size(function, "points.size()", points.size(), 0, "as there are no offsets");
  else
    detail::check_offsets(function, "offsets", offsets, points.size() / 2, "the number of points");
  for (index_t i = 0; i < count; ++i)
    if (offsets[i + 1] - offsets[i] < 3)
      detail::throw_invalid_argument(function,
                                     "the number of points of " + detail::element("polygon", i),
                                     offsets[i + 1] - offsets[i], "3 or more");
  detail::check_run_pictures(function, sizes, count);
  constexpr double most = detail::most_polygon_coordinate;
  for (index_t k = 0; k < points.size(); ++k)
    detail::check_element(detail::is_within(points[k], -most, most), function, "points", k,
                          points[k], "a number of at most 2^27 in magnitude");
  auto& buffers = detail::workspace_access::buffers(workspace);
  detail::check_apart_from_results(function, "offsets", offsets, buffers);
  detail::check_apart_from_results(function, "sizes", sizes, buffers);
  return detail::encode_edges(function, count, sizes, points.size(), buffers,
                              [&](index_t i, const auto& use) {
                                const auto point = [&](index_t k) {
                                  return detail::fine_point(points[2 * k], points[2 * k + 1]);
                                };
                                for (index_t k = offsets[i]; k < offsets[i + 1]; ++k)
                                  use(point(k), point(k + 1 < offsets[i + 1] ? k + 1 : offsets[i]));
                              });
}

inline run_lengths_view run_lengths_from_boxes(boxes_view<const double> boxes,
                                               vector_view<const grid_size> sizes,
                                               run_lengths_workspace& workspace) {
  constexpr const char* function = "run_lengths_from_boxes";
  detail::check_run_pictures(function, sizes, boxes.size());
  constexpr double most = detail::most_polygon_coordinate;
  for (index_t i = 0; i < boxes.size(); ++i)
    for (index_t k = 0; k < 4; ++k)
      detail::check_element(detail::is_within(boxes(i, k), -most, most), function, "boxes", i,
                            boxes(i, k), "coordinates of at most 2^27 in magnitude");
  auto& buffers = detail::workspace_access::buffers(workspace);
  detail::check_apart_from_results(function, "sizes", sizes, buffers);
  return detail::encode_edges(function, boxes.size(), sizes, 4 * boxes.size(), buffers,
                              [&](index_t i, const auto& use) {
                                const detail::fine_point corners[] = {{boxes(i, 0), boxes(i, 1)},
                                                                      {boxes(i, 0), boxes(i, 3)},
                                                                      {boxes(i, 2), boxes(i, 3)},
                                                                      {boxes(i, 2), boxes(i, 1)}};
                                for (int k = 0; k < 4; ++k) use(corners[k], corners[(k + 1) % 4]);
                              });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
