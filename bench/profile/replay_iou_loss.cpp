// SPDX-License-Identifier: Apache-2.0
// Replays the IoU losses on anchors and boxes predicted from them.
#include "../support/operands.hpp"
#include "replay_inputs.hpp"
#include "replay_levels.hpp"
#include <vecdet/iou_loss.hpp>

#include <memory>
#include <vector>

namespace {

using namespace vecdet;

/// Registers the three functions of one loss: call(data, policy) for each.
template <class Sum, class Unreduced, class WithGrad>
void register_loss(const std::string& name, const Sum& sum, const Unreduced& unreduced,
                   const WithGrad& with_grad) {
  const auto add = [](const std::string& function, const auto& call) {
    profile::replay_makers()[function] = [=](const profile::entry& e,
                                             execution policy) -> profile::replay_call {
      if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
      if (e.variant != "boxes" || e.shape.size() != 1) return {};
      return profile::for_type(e.type, [&](auto number) -> profile::replay_call {
        const auto data = std::make_shared<bench::iou_loss_operands<decltype(number)>>(
            profile::anchors(e.shape[0]));
        return [=] { call(*data, policy); };
      });
    };
  };
  add(name, sum);
  add(name + "_unreduced", unreduced);
  add(name + "_and_grad", with_grad);
}

/// As a view of const elements.
template <class T>
boxes_view<const T> view(const std::vector<T>& boxes) {
  return boxes;
}

const bool registered = [] {
  register_loss(
      "giou_loss",
      [](const auto& d, execution policy) { giou_loss(view(d.predicted), d.targets, {}, policy); },
      [](auto& d, execution policy) {
        giou_loss_unreduced(view(d.predicted), d.targets, d.loss, {}, policy);
      },
      [](auto& d, execution policy) {
        giou_loss_and_grad(view(d.predicted), d.targets, d.grad, {}, policy);
      });
  register_loss(
      "diou_loss",
      [](const auto& d, execution policy) { diou_loss(view(d.predicted), d.targets, {}, policy); },
      [](auto& d, execution policy) {
        diou_loss_unreduced(view(d.predicted), d.targets, d.loss, {}, policy);
      },
      [](auto& d, execution policy) {
        diou_loss_and_grad(view(d.predicted), d.targets, d.grad, {}, policy);
      });
  register_loss(
      "ciou_loss",
      [](const auto& d, execution policy) { ciou_loss(view(d.predicted), d.targets, {}, policy); },
      [](auto& d, execution policy) {
        ciou_loss_unreduced(view(d.predicted), d.targets, d.loss, {}, policy);
      },
      [](auto& d, execution policy) {
        ciou_loss_and_grad(view(d.predicted), d.targets, d.grad, {}, policy);
      });
  return true;
}();

}  // namespace
