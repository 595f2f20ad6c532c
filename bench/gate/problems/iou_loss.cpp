// SPDX-License-Identifier: Apache-2.0
// IoU losses with gradients of some 2000 predicted boxes.
#include "../../plain/functions.hpp"
#include "../module/problem.hpp"
#include "random.hpp"
#include <vecdet/iou_loss.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
namespace gate {
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

constexpr execution sequential = execution::sequential;

const problems added{
    {"giou_loss_and_grad/boxes/f32/2048", make<predictions<float>>(2048),
     VECDET_GATE_CALL(giou_loss_and_grad(d.p(), d.targets, d.grad, {}, sequential)),
     VECDET_GATE_CALL(
         bench::native::plain_iou_loss<bench::plain_loss::giou, bench::plain_output::grad>(
             d.predicted.data(), d.targets.data(), d.grad.data(), 2048))},
    {"diou_loss_and_grad/boxes/f32/2048", make<predictions<float>>(2048),
     VECDET_GATE_CALL(diou_loss_and_grad(d.p(), d.targets, d.grad, {}, sequential))},
    {"ciou_loss_and_grad/boxes/f32/2048", make<predictions<float>>(2048),
     VECDET_GATE_CALL(ciou_loss_and_grad(d.p(), d.targets, d.grad, {}, sequential))},
    {"giou_loss_and_grad/boxes/bf16/2048", make<predictions<bfloat16>>(2048),
     VECDET_GATE_CALL(giou_loss_and_grad(d.p(), d.targets, d.grad, {}, sequential))},
};

}  // namespace
}  // namespace gate
}  // namespace vecdet
