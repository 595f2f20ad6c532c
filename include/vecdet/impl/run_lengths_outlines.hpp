// SPDX-License-Identifier: Apache-2.0
// Run lengths to the polygons around their pixels. In a column, a run of pixels has two horizontal
// edges, which are one pixel long. Between two columns, edges that continue each other are joined
// directly, and others by the vertical edges between them. The polygons are the cycles of edges.
#pragma once

#include <vecdet/impl/run_lengths_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/run_lengths.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The polygons around the pixels of a mask, with the pixels to the right of every edge, as seen
/// along the edge in a picture whose y axis points down.
class mask_outlines {
 public:
  explicit mask_outlines(run_lengths_buffers& buffers)
      : edges_(buffers.edges), points_(buffers.points), ends_(buffers.polygon_offsets) {}

  /// Adds the polygons of a mask to those before them.
  void add(const vector_view<const std::uint32_t>& counts, index_t height) {
    edges_.clear();
    list_edges(counts, height);
    const auto count = static_cast<index_t>(edges_.size());
    index_t left = 0, left_end = 0;
    for (index_t first = 0; first < count || left < left_end;) {
      // The edges of the columns before and after a vertical line.
      const index_t x = left < left_end ? at(left).x + 1 : at(first).x;
      index_t end = first;
      while (end < count && at(end).x == x) ++end;
      join({left, left_end, first, end});
      left = first;
      left_end = first = end;
    }
    for (index_t i = 0; i < count; ++i)
      if (at(i).next >= 0) trace(i);
  }

 private:
  struct edge_lists {
    index_t left, left_end, right, right_end;
  };

  outline_edge& at(index_t i) const { return edges_[static_cast<std::size_t>(i)]; }
  /// Edges alternate in each column: an upper one has pixels below it.
  static bool is_upper(index_t i) { return i % 2 == 0; }

  void list_edges(const vector_view<const std::uint32_t>& counts, index_t height) {
    index_t begin = 0, end = 0;
    const auto list_run = [&] {
      while (begin < end) {  // never, if the height is 0
        const index_t x = begin / height, column_end = std::min(end, (x + 1) * height);
        edges_.push_back({x, begin - x * height, -1});
        edges_.push_back({x, column_end - x * height, -1});
        begin = column_end;
      }
    };
    for_each_run(counts, [&](index_t own_begin, index_t own_end) {
      if (own_begin != end) {  // runs that follow each other directly are one
        list_run();
        begin = own_begin;
      }
      end = own_end;
    });
    list_run();
  }

  /// Joins the edges that meet on a vertical line. Upper edges go right, lower ones left, vertical
  /// edges up if their pixels are in the right column, and otherwise down.
  void join(edge_lists e) {
    constexpr index_t none = std::numeric_limits<index_t>::max();
    bool in_left = false, in_right = false;
    index_t begun = -1;  // the edge from which the current vertical one goes down or comes up
    while (e.left < e.left_end || e.right < e.right_end) {
      const index_t left_y = e.left < e.left_end ? at(e.left).y : none;
      const index_t right_y = e.right < e.right_end ? at(e.right).y : none;
      const bool has_left = left_y <= right_y, has_right = right_y <= left_y;
      // Where four edges meet, a vertical one is joined to that of its own pixel.
      const auto edge_of = [&](bool right) {
        return has_right && (right || !has_left) ? e.right : e.left;
      };
      if (begun < 0 && has_left && has_right) {
        if (is_upper(e.left))
          at(e.left).next = e.right;
        else
          at(e.right).next = e.left;
      } else {
        if (begun >= 0) {
          const index_t end = edge_of(in_right);
          if (in_right)
            at(end).next = begun;
          else
            at(begun).next = end;
        }
        const bool right_after = in_right != has_right;
        begun = (in_left != has_left) != right_after ? edge_of(right_after) : -1;
      }
      in_left = in_left != has_left;
      in_right = in_right != has_right;
      e.left += has_left ? 1 : 0;
      e.right += has_right ? 1 : 0;
    }
  }

  /// Adds the polygon of an edge.
  void trace(index_t first) {
    index_t i = first;
    do {
      const outline_edge own = at(i);
      at(i).next = -1;
      const index_t next_y = at(own.next).y;
      if (next_y != own.y) {
        const auto x = static_cast<double>(is_upper(i) ? own.x + 1 : own.x);
        points_.insert(points_.end(),
                       {x, static_cast<double>(own.y), x, static_cast<double>(next_y)});
      }
      i = own.next;
    } while (i != first);
    ends_.push_back(static_cast<index_t>(points_.size()) / 2);
  }

  std::vector<outline_edge>& edges_;
  std::vector<double>& points_;
  std::vector<index_t>& ends_;
};

}  // namespace detail

inline mask_polygons_view mask_polygons(const run_lengths_view& runs,
                                        run_lengths_workspace& workspace) {
  constexpr const char* function = "mask_polygons";
  detail::check_runs(function, "runs", runs);
  const profile::scope timing([&] { return detail::run_lengths_problem(function, runs); });
  auto& buffers = detail::workspace_access::buffers(workspace);
  const index_t count = runs.size();
  index_t* const masks = detail::grown(buffers.outline_offsets, count + 1);
  buffers.points.clear();
  buffers.polygon_offsets.assign(1, 0);
  masks[0] = 0;
  detail::mask_outlines outlines(buffers);
  for (index_t i = 0; i < count; ++i) {
    outlines.add(runs[i], runs.sizes[i].height);
    masks[i + 1] = static_cast<index_t>(buffers.polygon_offsets.size()) - 1;
  }
  return {{masks, count + 1}, buffers.polygon_offsets, buffers.points};
}

}  // namespace VECDET_ABI
}  // namespace vecdet
