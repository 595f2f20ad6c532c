// SPDX-License-Identifier: Apache-2.0
// GIoU, DIoU and CIoU losses of as many boxes as RetinaNet has anchors at 800 x 800.
#include "plain/iou_loss.hpp"
#include "support/implementations.hpp"
#include "support/operands.hpp"
#include <vecdet/iou_loss.hpp>
#include <vecdet/reference/iou_loss.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
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
    time_calls(state, [&] {
      double sum = 0;
      reference::for_each_box(grad, [&](index_t i) {
        const auto exact =
            reference::iou_loss(kind, reference::load_box(p, i), reference::load_box(t, i));
        sum += exact.loss;
        return exact.grad;
      });
      benchmark::DoNotOptimize(sum);
    });
  });
}

/// `call(data, predicted, policy)` next to the plain loop that writes the same numbers to `result`.
template <plain_loss L, plain_output O, class Call>
void register_call(const std::string& problem, double numbers_written, const Call& call,
                   std::vector<float> predictions::*result) {
  register_with_plain(
      problem, {boxes, 4 * (8 + numbers_written) * boxes}, make_predictions,
      [=](predictions& data, threading policy) {
        return call(data, boxes_view<const float>(data.predicted), policy);
      },
      [=](predictions& data) {
        return VECDET_PLAIN(plain_iou_loss<L, O>)(data.predicted.data(), data.targets.data(),
                                                  (data.*result).data(), box_count);
      },
      result);
}

template <plain_loss L>
void register_kind(const std::string& name, iou_kind kind, reference::iou_kind exact) {
  using view = boxes_view<const float>;
  const std::string rest = "/" + name + "/f32/120087";
  register_reference("iou_loss_and_grad" + rest, {boxes, 48 * boxes}, exact);
  register_call<L, plain_output::grad>(
      "iou_loss_and_grad" + rest, 4,
      [=](predictions& data, view predicted, threading policy) {
        return iou_loss_and_grad(predicted, data.targets, data.grad, kind, {}, policy);
      },
      &predictions::grad);
  register_call<L, plain_output::sum>(
      "iou_loss" + rest, 0,
      [=](predictions& data, view predicted, threading policy) {
        return iou_loss(predicted, data.targets, kind, {}, policy);
      },
      &predictions::grad);
  register_call<L, plain_output::loss>(
      "iou_loss_unreduced" + rest, 1,
      [=](predictions& data, view predicted, threading policy) {
        iou_loss_unreduced(predicted, data.targets, data.loss, kind, {}, policy);
      },
      &predictions::loss);
}

const bool registered = [] {
  register_kind<plain_loss::giou>("giou", iou_kind::giou, reference::iou_kind::giou);
  register_kind<plain_loss::diou>("diou", iou_kind::diou, reference::iou_kind::diou);
  register_kind<plain_loss::ciou>("ciou", iou_kind::ciou, reference::iou_kind::ciou);
  show_in_figures("iou_loss_and_grad/[gdc]iou/f32/120087");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
