// SPDX-License-Identifier: Apache-2.0
// The functions of prob_iou.hpp.
#pragma once

#include <vecdet/impl/rotated_boxes.hpp>
#include <vecdet/prob_iou.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

constexpr index_t prob_iou_operations = 80;

}  // namespace detail

template <class T>
void pairwise_prob_iou(matrix_view<T> a, matrix_view<const value_of<T>> b, angle_convention angles,
                       matrix_view<value_of<T>> out, threading policy) {
  detail::run_pairwise_rotated<value_of<T>>(
      {"pairwise_prob_iou", nullptr, detail::prob_iou_operations}, a, b, angles, out,
      empty_iou::nan, policy, [](const auto& own) { return own.pairwise_prob_iou; });
}

template <class T>
void elementwise_prob_iou(matrix_view<T> a, matrix_view<const value_of<T>> b,
                          angle_convention angles, vector_view<value_of<T>> out, threading policy) {
  detail::run_elementwise_rotated<value_of<T>>(
      {"elementwise_prob_iou", nullptr, detail::prob_iou_operations}, a, b, angles, out,
      empty_iou::nan, policy, [](const auto& own) { return own.elementwise_prob_iou; });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
