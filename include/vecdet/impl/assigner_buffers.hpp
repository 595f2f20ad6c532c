// SPDX-License-Identifier: Apache-2.0
// The buffers of assigner_workspace.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct assigner_buffers {
  std::vector<float> points, axes, values, planes, metrics, greatest, widest, ranks, extents,
      near_boxes;
  std::vector<double> turned;
  std::vector<index_t> chosen, counts, positives, near, near_counts, foreground;
  std::vector<point_level> levels;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
