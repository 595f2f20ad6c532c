// SPDX-License-Identifier: Apache-2.0
// Box coding: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/box_format.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// One call over N boxes that are stored as S says. Not every function uses every member.
template <class S>
struct box_coding_args {
  typename stored<S>::in in;          ///< deltas to decode, boxes to encode or to convert
  typename stored<S>::boxes anchors;  ///< N of them
  typename stored<S>::out out;        ///< may be `in`
  double weights[4];
  double low_size, high_size;  ///< bounds of dw and dh after division by the weights
  double width, height;        ///< of the image
  bool clips;                  ///< into the image
  bool by_size;                ///< distances divided by the anchor's size
  box_format anchor_format;    ///< of anchors; of `in` where boxes are converted
  box_format out_format;
  double min_size;
  std::uint8_t* mask;
};

template <class S>
using box_coding_function = void (*)(const box_coding_args<S>&, index_t first, index_t last);

template <class T>
struct box_coding_kernels {
  box_coding_function<T> encode, decode, encode_distances, decode_distances, convert;
  box_coding_function<T> areas;       ///< one number a box into `out`
  box_coding_function<T> large_mask;  ///< 1 into `mask` where both sides are min_size or more
  box_coding_function<separate<T>> encode_separate, decode_separate;
};

/// Of bfloat16 deltas on anchors in float.
struct mixed_coding_kernels {
  box_coding_function<mixed_decoding> decode, decode_distances;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
