// SPDX-License-Identifier: Apache-2.0
// The IoU losses over N predicted boxes.
#pragma once

#include <vecdet/args/iou_loss.hpp>
#include <vecdet/args/loss_output.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/iou_loss/terms.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Without Grad, terms that only the gradient needs are not computed. With Grad, the gradient is
/// written if its stream is given.
template <iou_kind Kind, bool Grad, class T>
struct iou_loss_of_boxes {
  using real = compute_type<T>;
  static constexpr bool adds_up = true, lanes_are_boxes = true;
  real scale, epsilon;

  VECDET_INLINE row_pack<real> operator()(const box_streams<T>& group) const {
    alignas(64) real losses[box_group];
    // Unrolling interleaves the instructions of a group's two halves. On AVX2, that saves 9% of
    // DIoU's time and 5% of CIoU's, but costs GIoU 4%. For types other than float, smaller code
    // matters more.
    constexpr bool unrolled = Grad && Kind != iou_kind::giou && std::is_same<T, float>::value;
    if constexpr (unrolled) {
      VECDET_UNROLL_ROWS
      for (int i = 0; i < box_group; i += count) compute(group, i, losses);
    } else {
      VECDET_NO_UNROLL
      for (int i = 0; i < box_group; i += count) compute(group, i, losses);
    }
    return load_pack<row_pack<real>::batches>(losses);
  }

 private:
  static constexpr int N = boxes_in_flight, count = box_pack<real, N>::count;

  /// Computes boxes [i, i + count) of the group.
  VECDET_INLINE void compute(const box_streams<T>& group, int i, real* losses) const {
    // Not through group.at(i), which tests each stream for null.
    auto terms = iou_loss_of<Kind>(load_boxes<N>(detail::from_box(group.in, i)),
                                   load_boxes<N>(detail::from_box(group.boxes[0], i)), epsilon);
    weigh_boxes<Grad>(terms, scale, group.weights, i);
    const pack<real, N> loss = to_box_order(terms.loss);
    if (Grad && group.out != nullptr) store_boxes<N>(detail::from_box(group.out, i), terms.grad);
    if (group.out_each != nullptr) {
      const pack<real, N> factor(scale);
      store_pack<N>(group.out_each + i,
                    scale != 0 ? loss * factor : vanishing_product(loss, factor));
    }
    store_pack<N>(losses + i, loss);
  }
};

template <iou_kind Kind, class T>
double iou_loss_of_kind(const detail::iou_loss_args<T>& a, index_t first, index_t last) {
  using real = compute_type<T>;
  const auto scale = static_cast<real>(a.scale), epsilon = static_cast<real>(a.epsilon);
  const bool grad = a.output == loss_output::grad;
  const box_streams<T> streams{a.predicted,
                               {a.targets, nullptr},
                               a.box_weights,
                               grad ? a.grad : nullptr,
                               a.output == loss_output::loss ? a.loss : nullptr};
  const iou_loss_of_boxes<Kind, true, T> with_grad{scale, epsilon};
  const iou_loss_of_boxes<Kind, !loss_alone_has_code<T>, T> for_loss{scale, epsilon};
  return run_boxes(grad ? as_operation<T>(with_grad) : as_operation<T>(for_loss), streams, first,
                   last);
}

template <class T>
double iou_loss(const detail::iou_loss_args<T>& a, index_t first, index_t last) {
  if (a.kind == iou_kind::giou) return iou_loss_of_kind<iou_kind::giou>(a, first, last);
  if (a.kind == iou_kind::diou) return iou_loss_of_kind<iou_kind::diou>(a, first, last);
  return iou_loss_of_kind<iou_kind::ciou>(a, first, last);
}

template <class T>
struct kernels_of<detail::iou_loss_kernels<T>> {
  static constexpr detail::iou_loss_kernels<T> get() {
    detail::iou_loss_kernels<T> kernels{};
    kernels.run = iou_loss<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(iou_loss_kernels)
