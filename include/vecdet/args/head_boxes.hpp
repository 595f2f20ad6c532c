// SPDX-License-Identifier: Apache-2.0
// Boxes of a head's levels: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/selected_boxes.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Where the four numbers of each box of a level are. Steps are in elements; in NCHW, that of a
/// location is 1.
struct level_box_steps {
  index_t anchors;  ///< per location
  index_t location, anchor, number;
};

template <class T>
struct head_boxes_kernels {
  /// Copies boxes [first, last) of a level to N x 4.
  void (*gather)(const T* level, const level_box_steps&, index_t first, index_t last, T* boxes);
  /// Copies N x 4 to boxes [first, last) of a level.
  void (*scatter)(const T* boxes, const level_box_steps&, index_t first, index_t last, T* level);
  /// Writes the indices of labels that select to `found`, from label `first` on, and their number
  /// to `count`. Returns the end of the labels read: `last`, or earlier if `found` has no memory
  /// for another `label_block`.
  index_t (*find)(const selected_boxes&, index_t first, index_t last, index_t most, index_t* found,
                  index_t& count);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
