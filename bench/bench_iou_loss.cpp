// SPDX-License-Identifier: Apache-2.0
// GIoU, DIoU and CIoU losses of as many boxes as RetinaNet has anchors at 800 x 800.
#include "plain/functions.hpp"
#include "support/implementations.hpp"
#include "support/operands.hpp"
#include <vecdet/iou_loss.hpp>
#include <vecdet/reference/iou_loss.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

constexpr index_t box_count = 120087;

using predictions = iou_loss_operands<float>;

std::shared_ptr<predictions> make_predictions() {
  return shared_data([] { return predictions(retinanet_anchors()); });
}

constexpr double boxes = static_cast<double>(box_count);

void register_reference(const std::string& problem, work amount, reference::iou_kind kind) {
  register_implementation(problem, "reference", 1, amount, [kind](benchmark::State& state) {
    const auto data = make_predictions();
    const boxes_view<const float> p(data->predicted), t(data->targets);
    std::vector<double> grad(data->grad.size());
    for (auto _ : state) {
      double sum = 0;
      reference::for_each_box(grad, [&](index_t i) {
        const auto exact =
            reference::iou_loss(kind, reference::load_box(p, i), reference::load_box(t, i));
        sum += exact.loss;
        return exact.grad;
      });
      benchmark::DoNotOptimize(sum);
    }
  });
}

/// `call(data, predicted, policy)` beside the plain loop that writes the same into `result`.
template <plain_loss L, plain_output O, class Call>
void register_call(const std::string& function, double numbers_written, const Call& call,
                   std::vector<float> predictions::*result) {
  register_with_plain(
      function + "/boxes/f32/120087", {boxes, 4 * (8 + numbers_written) * boxes}, make_predictions,
      [=](predictions& data, execution policy) {
        return call(data, boxes_view<const float>(data.predicted), policy);
      },
      [=](predictions& data) {
        return VECDET_PLAIN(plain_iou_loss<L, O>)(data.predicted.data(), data.targets.data(),
                                                  (data.*result).data(), box_count);
      },
      result);
}

const bool registered = [] {
  using view = boxes_view<const float>;
  // name: giou, diou or ciou
#define VECDET_REGISTER(name)                                                        \
  register_reference(#name "_loss_and_grad/boxes/f32/120087", {boxes, 48 * boxes},   \
                     reference::iou_kind::name);                                     \
  register_call<plain_loss::name, plain_output::grad>(                               \
      #name "_loss_and_grad", 4,                                                     \
      [](predictions& data, view predicted, execution policy) {                      \
        return name##_loss_and_grad(predicted, data.targets, data.grad, {}, policy); \
      },                                                                             \
      &predictions::grad);                                                           \
  register_call<plain_loss::name, plain_output::sum>(                                \
      #name "_loss", 0,                                                              \
      [](predictions& data, view predicted, execution policy) {                      \
        return name##_loss(predicted, data.targets, {}, policy);                     \
      },                                                                             \
      &predictions::grad);                                                           \
  register_call<plain_loss::name, plain_output::loss>(                               \
      #name "_loss_unreduced", 1,                                                    \
      [](predictions& data, view predicted, execution policy) {                      \
        name##_loss_unreduced(predicted, data.targets, data.loss, {}, policy);       \
      },                                                                             \
      &predictions::loss);
  VECDET_REGISTER(giou)
  VECDET_REGISTER(diou)
  VECDET_REGISTER(ciou)
#undef VECDET_REGISTER
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
