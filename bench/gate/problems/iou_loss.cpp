// SPDX-License-Identifier: Apache-2.0
// IoU losses with gradients of some 2000 predicted boxes.
#include "../../plain/iou_loss.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/iou_kind.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/version.hpp>

#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

/// Predictions near their targets.
template <class T>
struct predictions {
  std::vector<T> predicted, targets, grad;

  explicit predictions(std::int64_t boxes) : grad(static_cast<std::size_t>(4 * boxes), T(0.0f)) {
    const std::vector<float> off = normal<float>(4 * boxes, 0.0f, 5.0f);
    const std::vector<float> corners = clustered_boxes(boxes);
    for (std::size_t i = 0; i < corners.size(); ++i) {
      targets.push_back(T(corners[i]));
      predicted.push_back(T(corners[i] + off[i]));
    }
  }
  boxes_view<const T> p() const { return predicted; }
};

#if VECDET_VERSION_MINOR < 3
template <class T>
double iou_loss_and_grad(boxes_view<const T> predicted, boxes_view<const T> targets,
                         boxes_view<T> grad, iou_kind kind, const iou_loss_params& params,
                         policy<> threads) {
  return kind == iou_kind::giou   ? giou_loss_and_grad(predicted, targets, grad, params, threads)
         : kind == iou_kind::diou ? diou_loss_and_grad(predicted, targets, grad, params, threads)
                                  : ciou_loss_and_grad(predicted, targets, grad, params, threads);
}
#endif

/// The call, for older revisions with the function above.
template <class T>
double run(predictions<T>& d, iou_kind kind) {
  return iou_loss_and_grad(d.p(), boxes_view<const T>(d.targets), boxes_view<T>(d.grad), kind,
                           iou_loss_params{}, sequential);
}

const problems added{
    {"iou_loss_and_grad/giou/f32/2048", make<predictions<float>>(2048),
     VECDET_GATE_CALL(run(d, iou_kind::giou)),
     VECDET_GATE_CALL(
         bench::native::plain_iou_loss<bench::plain_loss::giou, bench::plain_output::grad>(
             d.predicted.data(), d.targets.data(), d.grad.data(), 2048))},
    {"iou_loss_and_grad/diou/f32/2048", make<predictions<float>>(2048),
     VECDET_GATE_CALL(run(d, iou_kind::diou))},
    {"iou_loss_and_grad/ciou/f32/2048", make<predictions<float>>(2048),
     VECDET_GATE_CALL(run(d, iou_kind::ciou))},
    {"iou_loss_and_grad/giou/bf16/2048", make<predictions<bfloat16>>(2048),
     VECDET_GATE_CALL(run(d, iou_kind::giou))},
};

}  // namespace
}  // namespace vecdet::gate
