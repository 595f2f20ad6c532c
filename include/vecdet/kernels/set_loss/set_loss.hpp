// SPDX-License-Identifier: Apache-2.0
// L1 and GIoU of matched queries with their gradients with respect to centre and size, 16 pairs at
// a time. With the gradient g with respect to corners, the gradient with respect to cx is g_x1 +
// g_x2, and that with respect to w is (g_x2 - g_x1) / 2.
#pragma once

#include <vecdet/args/set_loss.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/iou_loss/terms.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::set_pair_losses;

/// The sign of x: 0 at 0, NaN at NaN.
template <int N>
VECDET_INLINE pack<float, N> sign_of(const pack<float, N>& x) {
  using real = pack<float, N>;
  const real zero = 0.0f;
  return select(x > zero, real(1.0f), select(x < zero, real(-1.0f), x));
}

/// Corners of boxes given as centre and size.
template <int N>
VECDET_INLINE box_pack<float, N> corners_of_centres(const box_pack<float, N>& b) {
  using real = pack<float, N>;
  const real half_w = real(0.5f) * b.x2, half_h = real(0.5f) * b.y2;
  return {b.x1 - half_w, b.y1 - half_h, b.x1 + half_w, b.y1 + half_h};
}

/// The results of 16 pairs.
struct set_pair_results {
  alignas(64) float l1[box_group], giou[box_group], iou[box_group];
  alignas(64) float l1_grad[4 * box_group], giou_grad[4 * box_group];
};

/// Computes pairs [i, i + batch_lanes<float>) of a group.
VECDET_INLINE void compute_set_pairs(const float* predicted, const float* target, float l1_scale,
                                     float giou_scale, int i, set_pair_results& to) {
  constexpr int N = 1;
  using real = pack<float, N>;
  const auto p = load_boxes<N>(predicted + 4 * i), t = load_boxes<N>(target + 4 * i);
  const real dx = p.x1 - t.x1, dy = p.y1 - t.y1, dw = p.x2 - t.x2, dh = p.y2 - t.y2;
  const auto corners = corners_of_centres(p), aim = corners_of_centres(t);
  const real iou =
      iou_of<iou_kind::iou>(corners, area_of(corners), aim, area_of(aim), empty_iou::zero);
  const auto giou = iou_loss_of<iou_kind::giou>(corners, aim, detail::set_loss_epsilon);
  const auto& g = giou.grad;
  const auto l1_slope = [&](const real& d) VECDET_INLINE_LAMBDA {
    return vanishing_product(sign_of(d), real(l1_scale));
  };
  const auto giou_slope = [&](const real& d) VECDET_INLINE_LAMBDA {
    return vanishing_product(d, real(giou_scale));
  };
  const real half = 0.5f;
  store_pack<N>(to.l1 + i, to_box_order(abs(dx) + abs(dy) + abs(dw) + abs(dh)));
  store_pack<N>(to.giou + i, to_box_order(giou.loss));
  store_pack<N>(to.iou + i, to_box_order(iou));
  store_boxes<N>(to.l1_grad + 4 * i,
                 box_pack<float, N>{l1_slope(dx), l1_slope(dy), l1_slope(dw), l1_slope(dh)});
  store_boxes<N>(
      to.giou_grad + 4 * i,
      box_pack<float, N>{giou_slope(g.x1 + g.x2), giou_slope(g.y1 + g.y2),
                         giou_slope(half * (g.x2 - g.x1)), giou_slope(half * (g.y2 - g.y1))});
}

template <class T>
set_pair_losses set_pairs(const detail::set_loss_args<T>& args, index_t first, index_t last) {
  constexpr int N = row_pack<float>::batches;
  const auto l1_scale = static_cast<float>(args.l1_scale);
  const auto giou_scale = static_cast<float>(args.giou_scale);
  lane_sums l1, giou;
  for (; first < last; first += box_group) {
    const int count = last - first < box_group ? static_cast<int>(last - first) : box_group;
    // Missing pairs are pairs of equal boxes.
    alignas(64) float predicted[4 * box_group] = {}, target[4 * box_group] = {};
    const detail::set_pair* const pairs = args.pairs + first;
    for (int i = 0; i < count; ++i)
      for (int k = 0; k < 4; ++k) {
        predicted[4 * i + k] = static_cast<float>(args.boxes[4 * pairs[i].row + k]);
        target[4 * i + k] = args.truth[4 * pairs[i].box + k];
      }
    set_pair_results of;
    for (int i = 0; i < box_group; i += batch_lanes<float>)
      compute_set_pairs(predicted, target, l1_scale, giou_scale, i, of);
    l1.add(first_lanes<float>(load_pack<N>(of.l1), count));
    giou.add(first_lanes<float>(load_pack<N>(of.giou), count));
    for (int i = 0; i < count; ++i) {
      const index_t row = pairs[i].row;
      args.ious[row] = of.iou[i];
      for (int k = 0; k < 4; ++k) {
        const float by_l1 = of.l1_grad[4 * i + k], by_giou = of.giou_grad[4 * i + k];
        if (args.giou_grad != nullptr) {
          args.grad[4 * row + k] = T(by_l1);
          args.giou_grad[4 * row + k] = T(by_giou);
        } else {
          args.grad[4 * row + k] = T(by_l1 + by_giou);
        }
      }
    }
  }
  return {l1.total(), giou.total()};
}

template <class T>
struct kernels_of<detail::set_loss_kernels<T>> {
  static constexpr detail::set_loss_kernels<T> get() {
    detail::set_loss_kernels<T> kernels{};
    kernels.run = set_pairs<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(set_loss_kernels<float>)
VECDET_KERNELS(set_loss_kernels<bfloat16>)
