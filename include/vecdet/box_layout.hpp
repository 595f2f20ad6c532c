// SPDX-License-Identifier: Apache-2.0
// Lets structs of four numbers serve as boxes. Specialise box_layout for a struct in one line;
// containers of that struct then convert to boxes_view:
//
//   template <> struct vecdet::box_layout<my_box> : vecdet::box_numbers<float> {};
//
// For a struct of x, y, width and height, such as cv::Rect2f, state the format. Functions that take
// corners then reject it at compile time; convert_boxes() converts it to corners:
//
//   template <>
//   struct vecdet::box_layout<cv::Rect2f> : vecdet::box_numbers<float, vecdet::box_format::xywh>
//   {};
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/detail/target.hpp>

#include <array>

namespace vecdet {
inline namespace VECDET_ABI {

/// Four consecutive numbers of type T in this format, and nothing else.
template <class T, box_format Format = box_format::xyxy>
struct box_numbers {
  using coordinate = T;
  static constexpr box_format format = Format;
};

/// Not a box, unless specialised.
template <class Box>
struct box_layout {};

template <class T>
struct box_layout<std::array<T, 4>> : box_numbers<T> {};

}  // namespace VECDET_ABI
}  // namespace vecdet
