// SPDX-License-Identifier: Apache-2.0
// IoU: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/iou_kind.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// One call over boxes `a` and `b`, which are stored as S says.
template <class S>
struct iou_args {
  typename stored<S>::in a;
  typename stored<S>::boxes b;
  typename stored<S>::each out;
  index_t columns, out_stride;  ///< of all pairs: the number of boxes b, and out's row stride
  iou_kind kind;
  empty_iou rule;
  bool past_cache;  ///< `out` is too large to be kept in the cache
};

template <class T>
struct iou_kernels {
  /// out[i * out_stride + j] of a's boxes i in [first_a, last_a) and b's j in [first_b, last_b).
  /// Where it writes past the cache, both borders move up to where a cache line of a row begins,
  /// but for the row's ends.
  void (*pairwise)(const iou_args<T>&, index_t first_a, index_t last_a, index_t first_b,
                   index_t last_b);
  /// out[i] of a's box i and b's.
  void (*elementwise)(const iou_args<T>&, index_t first, index_t last);
  void (*elementwise_separate)(const iou_args<separate<T>>&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
