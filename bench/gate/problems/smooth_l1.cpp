// SPDX-License-Identifier: Apache-2.0
// Smooth L1 on the deltas of some 4000 boxes: all of them, with weights too, and the few foreground
// ones.
#include "../../plain/smooth_l1.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/smooth_l1.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

/// One box in 50 is foreground, one in 50 ignored.
template <class T>
struct head {
  std::vector<T> predictions, targets, grad;
  std::vector<std::int64_t> labels;
  std::vector<float> weights;

  explicit head(std::int64_t boxes)
      : predictions(normal<T>(4 * boxes, 0.0f, 0.3f, 1)),
        targets(normal<T>(4 * boxes, 0.0f, 0.3f, 2)),
        grad(predictions.size(), T(0.0f)) {
    for (std::int64_t i = 0; i < boxes; ++i) {
      labels.push_back(i % 50 == 7 ? 3 : i % 50 == 9 ? -2 : -1);
      weights.push_back(0.5f + 0.1f * static_cast<float>(i % 8));
    }
  }
  boxes_view<const T> p() const { return predictions; }
  smooth_l1_params weighted() const {
    smooth_l1_params params;
    params.box_weights = weights;
    return params;
  }
};

const problems added{
    {"smooth_l1_loss_and_grad/all/f32/4096x4", make<head<float>>(4096),
     VECDET_GATE_CALL(
         smooth_l1_loss_and_grad(d.p(), d.targets, box_selection::all(), d.grad, {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_smooth_l1<bench::plain_output::grad>(
         d.predictions.data(), d.targets.data(), d.grad.data(), 4 * 4096, 1.0f / 9))},
    {"smooth_l1_loss_and_grad/all/bf16/4096x4", make<head<bfloat16>>(4096),
     VECDET_GATE_CALL(
         smooth_l1_loss_and_grad(d.p(), d.targets, box_selection::all(), d.grad, {}, sequential))},
    {"smooth_l1_loss_and_grad/labels/f32/4096x4", make<head<float>>(4096),
     VECDET_GATE_CALL(smooth_l1_loss_and_grad(d.p(), d.targets, d.labels, d.grad, {}, sequential))},
    {"smooth_l1_loss_and_grad/weighted/f32/4096x4", make<head<float>>(4096),
     VECDET_GATE_CALL(smooth_l1_loss_and_grad(d.p(), d.targets, box_selection::all(), d.grad,
                                              d.weighted(), sequential))},
};

}  // namespace
}  // namespace vecdet::gate
