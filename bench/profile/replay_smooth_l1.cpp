// SPDX-License-Identifier: Apache-2.0
// Replays smooth L1 of all boxes, of the foreground by labels, or by a list of as many.
#include "../support/operands.hpp"
#include "replay_inputs.hpp"
#include "replay_levels.hpp"
#include <vecdet/smooth_l1.hpp>

#include <memory>

namespace {

using namespace vecdet;

template <class T>
profile::replay_call make_call(const profile::entry& e, execution policy) {
  const auto data =
      std::make_shared<bench::smooth_l1_operands<T>>(profile::labels_like_training(e.shape[0], 80));
  const box_selection selection = e.variant == "all"      ? box_selection::all()
                                  : e.variant == "labels" ? box_selection(data->labels)
                                                          : box_selection::list(data->foreground);
  if (e.function == "smooth_l1_loss") {
    return [=] {
      smooth_l1_loss(boxes_view<const T>(data->predictions), data->targets, selection, {}, policy);
    };
  }
  if (e.function == "smooth_l1_loss_unreduced") {
    return [=] {
      smooth_l1_loss_unreduced(boxes_view<const T>(data->predictions), data->targets, selection,
                               data->out, {}, policy);
    };
  }
  return [=] {
    smooth_l1_loss_and_grad(boxes_view<const T>(data->predictions), data->targets, selection,
                            data->out, {}, policy);
  };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
  const bool known = e.variant == "all" || e.variant == "labels" || e.variant == "list";
  if (!known || e.shape.size() != 2) return {};
  return profile::for_type(e.type,
                           [&](auto number) { return make_call<decltype(number)>(e, policy); });
}

const profile::replay_registration registered[] = {
    {"smooth_l1_loss", make},
    {"smooth_l1_loss_unreduced", make},
    {"smooth_l1_loss_and_grad", make},
};

}  // namespace
