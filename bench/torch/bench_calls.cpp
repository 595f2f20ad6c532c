// SPDX-License-Identifier: Apache-2.0
// The overhead of calling an operator, compared with the kernel, on inputs of a few numbers: the
// kernel alone, on allocated memory; the operator; and a step with the gradient. A minimal operator
// shows PyTorch's own overhead.
#include "support.hpp"
#include <vecdet/focal_loss.hpp>
#include <vecdet/nms.hpp>

#include <cstdint>

namespace vecdet::bench {
namespace {

using at::Tensor;
constexpr std::int64_t sum = at::Reduction::Sum;

const bool calls = [] {
  at::manual_seed(1);
  const Tensor x = at::randn({8, 4}), input = tracked(x), labels = at::zeros({8}, at::kLong);
  const Tensor grad = at::empty_like(x), some = some_boxes(8), scores = at::rand({8});
  add("call/sigmoid_focal_loss/f32/8x4/kernel", [=] {
    return vecdet::sigmoid_focal_loss(matrix_view<const float>(x.data_ptr<float>(), 8, 4),
                                      labels_view(labels.data_ptr<std::int64_t>(), 8), {},
                                      threading::sequential);
  });
  add("call/sigmoid_focal_loss/f32/8x4/operator",
      [=] { return ops::sigmoid_focal_loss(x, labels, 0.25, 2, sum); });
  add("call/sum/f32/8x4/libtorch", [=] { return x.sum(); });
  add("call/sigmoid_focal_loss_and_grad/f32/8x4/kernel", [=] {
    return vecdet::sigmoid_focal_loss_and_grad(matrix_view<const float>(x.data_ptr<float>(), 8, 4),
                                               labels_view(labels.data_ptr<std::int64_t>(), 8),
                                               matrix_view<float>(grad.data_ptr<float>(), 8, 4), {},
                                               threading::sequential);
  });
  add("call/sigmoid_focal_loss_and_grad/f32/8x4/operator",
      [=] { return ops::sigmoid_focal_loss(input, labels, 0.25, 2, sum); });
  add_step("call/sigmoid_focal_loss_and_grad/f32/8x4/operator_and_backward", {input},
           [=] { return ops::sigmoid_focal_loss(input, labels, 0.25, 2, sum); });
  add_step("call/sum/f32/8x4/libtorch_and_backward", {input}, [=] { return input.sum(); });
  add("call/nms/f32/8/kernel", [=] {
    static nms_workspace workspace;
    return vecdet::nms(boxes_view<const float>(some.data_ptr<float>(), 8),
                       vector_view<const float>(scores.data_ptr<float>(), 8),
                       nms_params::torchvision(0.5), workspace, threading::sequential)
        .size();
  });
  add("call/nms/f32/8/operator", [=] { return ops::nms(some, scores, 0.5); });
  add("call/decode_boxes/f32/8/operator", [=] { return ops::decode_boxes(some, some); });
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
