// SPDX-License-Identifier: Apache-2.0
// The fused regression losses of some 4000 anchors, few of them foreground.
#include "../../plain/regression_loss.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/regression_loss.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

/// One anchor in 50 is foreground, one in 50 ignored.
struct regression {
  std::vector<float> deltas, anchors, targets, grad;
  std::vector<std::int64_t> labels;

  explicit regression(std::int64_t boxes)
      : deltas(normal<float>(4 * boxes, 0.0f, 0.2f)),
        anchors(clustered_boxes(boxes, 1)),
        targets(clustered_boxes(boxes, 2)),
        grad(deltas.size()) {
    for (std::int64_t i = 0; i < boxes; ++i)
      labels.push_back(i % 50 == 7 ? 3 : i % 50 == 9 ? -2 : -1);
  }
  boxes_view<const float> d() const { return deltas; }
};

regression_loss_params with(box_loss loss) {
  regression_loss_params params;
  params.loss = loss;
  return params;
}

const problems added{
    {"regression_loss_and_grad/smooth_l1/f32/4096", make<regression>(4096),
     VECDET_GATE_CALL(regression_loss_and_grad(d.d(), d.anchors, d.targets, d.labels, d.grad,
                                               with(box_loss::smooth_l1), sequential)),
     VECDET_GATE_CALL(bench::native::plain_regression_loss<bench::plain_loss::smooth_l1,
                                                           bench::plain_output::grad>(
         d.deltas.data(), d.anchors.data(), d.targets.data(), d.labels.data(), d.grad.data(), 4096,
         1.0f / 9))},
    {"regression_loss_and_grad/ciou/f32/4096", make<regression>(4096),
     VECDET_GATE_CALL(regression_loss_and_grad(d.d(), d.anchors, d.targets, d.labels, d.grad,
                                               with(box_loss::ciou), sequential))},
};

}  // namespace
}  // namespace vecdet::gate
