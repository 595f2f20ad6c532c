// SPDX-License-Identifier: Apache-2.0
// Box coding in the kernel table.
#pragma once

#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {

/// What the four numbers of a box are.
enum class box_format {
  xyxy,    ///< two corners
  xywh,    ///< the corner of least coordinates, width and height: COCO's files
  cxcywh,  ///< centre, width and height: SSD's priors
};

namespace detail {

/// One call over N boxes, T being the stored type. Not every function uses every member.
template <class T>
struct box_coding_args {
  const T* in;       ///< deltas to decode, boxes to encode or to convert
  const T* anchors;  ///< N of them
  T* out;            ///< may be `in`
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

template <class T>
struct box_coding_row {
  using function = void (*)(const box_coding_args<T>&, index_t first, index_t last);
  function encode, decode, encode_distances, decode_distances, convert;
  function areas;       ///< one number a box into `out`
  function large_mask;  ///< 1 into `mask` where both sides are min_size or more, else 0
};

}  // namespace detail
}  // namespace vecdet
