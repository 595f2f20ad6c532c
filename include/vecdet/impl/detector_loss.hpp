// SPDX-License-Identifier: Apache-2.0
// Functions shared by the whole losses of detectors.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/impl/ground_truth.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/matching.hpp>

#include <algorithm>
#include <cstddef>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// scale / (max(1, foreground) images)
inline double scale_of_foreground(double scale, index_t foreground, index_t images) {
  return quotient(
      scale, static_cast<double>(std::max(index_t{1}, foreground)) * static_cast<double>(images));
}

/// Throws if a head's gradient shares memory with the ground truth.
template <class T>
void check_apart_from_truth(const char* function, const char* name, const head_view<T>& grad,
                            const ground_truth& truth) {
  for_each_memory_of(truth, [&](const char* truth_name, const address_range& memory) {
    check_levels_apart(function, name, grad, truth_name, memory);
  });
}

/// Random access to the anchors of an index.
class indexed_anchors {
 public:
  explicit indexed_anchors(const anchor_index& anchors)
      : blocks_(workspace_access::buffers(anchors).blocks.data()) {}

  void operator()(index_t i, float* corners) const {
    const box_rows& rows = blocks_[i / block_anchors];
    const index_t k = i % block_anchors;
    corners[0] = rows.x1[k];
    corners[1] = rows.y1[k];
    corners[2] = rows.x2[k];
    corners[3] = rows.y2[k];
  }

 private:
  const box_rows* blocks_;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
