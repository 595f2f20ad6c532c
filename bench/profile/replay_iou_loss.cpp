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

/// As a view of const elements.
template <class T>
boxes_view<const T> view(const std::vector<T>& boxes) {
  return boxes;
}

/// Registers one of the functions: call(data, kind, policy) runs it.
template <class Call>
void add(const std::string& function, const Call& call) {
  profile::replay_makers()[function] = [=](const profile::entry& e,
                                           execution policy) -> profile::replay_call {
    if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
    const auto kind = profile::iou_kinds.find(e.variant);
    if (kind == profile::iou_kinds.end() || e.shape.size() != 1) return {};
    return profile::for_type(e.type, [&](auto number) -> profile::replay_call {
      const auto data = std::make_shared<bench::iou_loss_operands<decltype(number)>>(
          profile::anchors(e.shape[0]));
      return [=, kind = kind->second] { call(*data, kind, policy); };
    });
  };
}

const bool registered = [] {
  add("iou_loss", [](auto& d, iou_kind kind, execution policy) {
    iou_loss(view(d.predicted), d.targets, kind, {}, policy);
  });
  add("iou_loss_unreduced", [](auto& d, iou_kind kind, execution policy) {
    iou_loss_unreduced(view(d.predicted), d.targets, d.loss, kind, {}, policy);
  });
  add("iou_loss_and_grad", [](auto& d, iou_kind kind, execution policy) {
    iou_loss_and_grad(view(d.predicted), d.targets, d.grad, kind, {}, policy);
  });
  return true;
}();

}  // namespace
