// SPDX-License-Identifier: Apache-2.0
// Box coding: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/box_format.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// One call over N boxes with storage S, coded as deltas or as distances.
template <class S>
struct box_coding_args {
  typename stored<S>::in in;          ///< deltas or distances to decode, or boxes to encode
  typename stored<S>::boxes anchors;  ///< N of them
  typename stored<S>::out out;        ///< may be `in`
  box_format anchor_format;
  double weights[4];           ///< of deltas
  double low_size, high_size;  ///< bounds of dw and dh after division by the weights
  bool by_size;                ///< distances are divided by the anchor's size
  bool clips;                  ///< decoded boxes are clipped to the image
  double width, height;        ///< of the image
};

template <class S>
using box_coding_function = void (*)(const box_coding_args<S>&, index_t first, index_t last);

template <class T>
struct box_coding_kernels {
  box_coding_function<T> encode, decode, encode_distances, decode_distances;
  box_coding_function<separate<T>> encode_separate, decode_separate;
};

/// The kernels of box_ops.hpp, for boxes [first, last). `out` may be `boxes`.
template <class T>
struct box_ops_kernels {
  void (*convert)(const T* boxes, box_format from, box_format to, T* out, index_t first,
                  index_t last);
  void (*clip)(const T* boxes, double width, double height, T* out, index_t first, index_t last);
  void (*areas)(const T* boxes, T* areas, index_t first, index_t last);
  /// Writes 1 if both sides are at least min_size, else 0.
  void (*large_mask)(const T* boxes, double min_size, std::uint8_t* mask, index_t first,
                     index_t last);
};

/// Decoding of bfloat16 deltas and distances with anchors of float.
struct mixed_coding_kernels {
  box_coding_function<mixed_decoding> decode, decode_distances;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
