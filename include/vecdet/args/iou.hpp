// SPDX-License-Identifier: Apache-2.0
// IoU: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/iou_kind.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// One call over boxes `a` and `b` with storage S.
template <class S>
struct iou_args {
  typename stored<S>::in a;
  typename stored<S>::boxes b;
  typename stored<S>::each out;
  index_t columns, out_stride;  ///< pairwise: the number of boxes b, and out's row stride
  iou_kind kind;
  empty_iou rule;
  bool past_cache;  ///< `out` is too large for the cache: use streaming stores
};

template <class T>
struct iou_kernels {
  /// Writes out[i * out_stride + j] for boxes i of a in [first_a, last_a) and boxes j of b in
  /// [first_b, last_b). With past_cache, both borders of j are rounded up to the start of a cache
  /// line, except at the row's ends.
  void (*pairwise)(const iou_args<T>&, index_t first_a, index_t last_a, index_t first_b,
                   index_t last_b);
  /// Writes out[i] for box i of a and box i of b.
  void (*elementwise)(const iou_args<T>&, index_t first, index_t last);
  void (*elementwise_separate)(const iou_args<separate<T>>&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
