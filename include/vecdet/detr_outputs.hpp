// SPDX-License-Identifier: Apache-2.0
// The outputs of a DETR's decoder layer: an argument of matching, losses and postprocessing.
#pragma once

#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// The output for a batch. Rows are ordered by image, then by query.
template <class T>
struct detr_outputs {
  static_assert(!std::is_integral<T>::value, "integers need a scale: quantised_detr_outputs");
  matrix_view<const T> logits;         ///< (images x queries) x classes
  lasting<boxes_view<const T>> boxes;  ///< images x queries: cx cy w h in [0, 1]
};

}  // namespace VECDET_ABI
}  // namespace vecdet
