// SPDX-License-Identifier: Apache-2.0
// How a struct of four numbers becomes a box. Specialise box_layout for it in one line, and
// containers of it convert to boxes_view:
//
//   template <> struct vecdet::box_layout<my_box> : vecdet::box_numbers<float> {};
//
// A struct of x, y, width and height, such as cv::Rect2f, says so and is refused where a function
// takes corners; convert_boxes() makes corners of it:
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

/// Four numbers of type T in this format, one after the other and nothing else.
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
