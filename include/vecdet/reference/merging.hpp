// SPDX-License-Identifier: Apache-2.0
// Non-maximum merging in plain scalars, for boxes of one class and image. Every pair is compared.
// Overlaps are computed in the kernels' compute type.
#pragma once

#include <vecdet/merging.hpp>
#include <vecdet/reference/nms.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The groups in order; each is a list of its members' indices.
template <class Real>
std::vector<std::vector<index_t>> merge_boxes(boxes_view<const Real> boxes,
                                              vector_view<const Real> scores,
                                              const merge_params& params) {
  const index_t count = boxes.size();
  const auto place = [&](index_t i) {
    return std::make_tuple(boxes(i, 0), boxes(i, 1), boxes(i, 2), boxes(i, 3));
  };
  std::vector<index_t> order;
  for (index_t i = 0; i < count; ++i)
    if (scores[i] == scores[i]) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : place(a) < place(b);
  });
  nms_params rule = nms_params::sahi(params.match_threshold);
  rule.overlap = params.overlap;
  const auto matches = [&](index_t a, index_t b) {
    const auto corners = [&](index_t i) {
      return box_of<Real>{boxes(i, 0), boxes(i, 1), boxes(i, 2), boxes(i, 3)};
    };
    const Real area_a = nms_area(corners(a), false), area_b = nms_area(corners(b), false);
    const Real most = std::numeric_limits<Real>::max();
    return area_a <= most && area_b <= most && suppresses(corners(a), corners(b), rule);
  };

  std::vector<index_t> others = order;
  if (params.transitive) std::sort(others.begin(), others.end());
  constexpr index_t nobody = -1;
  std::vector<index_t> group_of(static_cast<std::size_t>(count), nobody);
  std::vector<std::vector<index_t>> groups;
  for (const index_t i : order) {
    index_t& group = group_of[static_cast<std::size_t>(i)];
    const bool is_new = group == nobody;
    if (!is_new && !params.transitive) continue;
    if (is_new) {
      group = static_cast<index_t>(groups.size());
      groups.push_back({i});
    }
    for (const index_t j : others) {
      index_t& other_group = group_of[static_cast<std::size_t>(j)];
      if (other_group != nobody || !matches(i, j)) continue;
      if (params.transitive && scores[i] == scores[j] && place(i) != place(j)) continue;
      other_group = group;
      groups[static_cast<std::size_t>(group)].push_back(j);
    }
  }
  return groups;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
