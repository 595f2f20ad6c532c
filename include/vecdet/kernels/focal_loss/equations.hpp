// SPDX-License-Identifier: Apache-2.0
// An equation of the focal loss in the form that a call needs: with its weights, and the memory
// that it works on.
#pragma once

#include <vecdet/args/focal_loss.hpp>
#include <vecdet/kernels/focal_loss/terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::focal_block;
using detail::focal_output;
static_assert(focal_block % row_lanes == 0, "blocks are added up row after row");

/// Memory of consecutive elements. Pointers that a call does not use are null.
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

/// The parameters of an equation. Elements without targets are negatives.
struct focal_formula {
  double positive, negative;  ///< weights
  double gamma;
  double focusing;   ///< 1; 0 if the modulating factor is a constant in the gradient
  bool has_targets;  ///< if false, all are negatives, and their losses are summed without weights
  bool mirrored;     ///< the logits are negated logits of positives
  focal_output output;
};

/// The maximum number of elements processed together: several blocks.
constexpr int max_focal_group = 4 * focal_block;

/// A formula and the code that computes it.
template <class T>
struct focal_equation : focal_formula {
  /// The number of elements processed together, a multiple of a block.
  int group;
  /// Processes elements [0, size), where size is a multiple of a block: writes the output and adds
  /// up the losses. Losses of elements with targets are multiplied by their weights.
  void (*compute)(const focal_equation&, const focal_span<T>&, index_t size, lane_sums&);
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
