// SPDX-License-Identifier: Apache-2.0
// An equation of the focal loss as a call needs it, with its weights, and the memory that it is
// computed on.
#pragma once

#include <vecdet/args/focal_loss.hpp>
#include <vecdet/kernels/focal_loss/terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::focal_block;
using detail::focal_output;
static_assert(focal_block % row_lanes == 0, "blocks are added up row after row");

/// Memory of consecutive elements. What a call does not use is null.
template <class T>
struct focal_span {
  const T* x;
  const T* t;
  const T* upstream;
  T* out;

  VECDET_INLINE focal_span at(index_t i) const {
    return {x + i, t != nullptr ? t + i : t, upstream != nullptr ? upstream + i : upstream,
            out != nullptr ? out + i : out};
  }
};

/// What an equation computes with. Elements without targets are negatives.
struct focal_formula {
  double positive, negative;  ///< weights
  double gamma;
  double focusing;   ///< 1, or 0 where the modulating factor is a constant in the gradient
  bool has_targets;  ///< otherwise all are negatives, whose losses are added up without weights
  bool mirrored;     ///< the logits are those of positives, with their signs turned
  focal_output output;
};

/// Elements that are worked on together at most: some blocks.
constexpr int max_focal_group = 4 * focal_block;

/// A formula and the code that computes it.
template <class T>
struct focal_equation : focal_formula {
  /// Elements that are worked on together, a multiple of a block.
  int group;
  /// Elements [0, size), size being a multiple of a block: writes the output and adds up the
  /// losses, those of elements with targets times their weights.
  void (*compute)(const focal_equation&, const focal_span<T>&, index_t size, lane_sums&);
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
