// SPDX-License-Identifier: Apache-2.0
// Replays the fused regression losses, of all boxes or of the foreground by labels: the recorded
// bytes tell which. Targets are one box an anchor. Box is the type of anchors and targets.
#include "replay_inputs.hpp"
#include "replay_levels.hpp"
#include <vecdet/regression_loss.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vecdet;

const std::map<std::string, box_loss> variants = {{"smooth_l1", box_loss::smooth_l1},
                                                  {"giou", box_loss::giou},
                                                  {"diou", box_loss::diou},
                                                  {"ciou", box_loss::ciou}};

template <class T, class Box>
struct operands {
  std::vector<index_t> labels;
  std::vector<T> deltas, grad;
  std::vector<Box> anchors, targets;

  explicit operands(index_t boxes) : labels(profile::labels_like_training(boxes, 80)) {
    const std::vector<float> all = profile::anchors(boxes);
    anchors = bench::converted<Box>(all);
    targets = bench::converted<Box>(bench::predicted_boxes(all));
    deltas = bench::head_deltas<T>(boxes);
    grad.resize(deltas.size());
  }
};

template <class T, class Box>
profile::replay_call make_call(const profile::entry& e, const std::string& variant,
                               execution policy) {
  const auto data = std::make_shared<operands<T, Box>>(e.shape[0]);
  regression_loss_params params;
  params.loss = variants.at(variant);
  const bool with_grad = e.function == "regression_loss_and_grad";
  // Deltas, anchors and targets of all boxes, or their labels; and the gradient.
  const double tensor = static_cast<double>(data->deltas.size()) * sizeof(T);
  const bool all = profile::call_bytes(e) > (with_grad ? 3.5 : 2.5) * tensor;
  const box_selection selection = all ? box_selection::all() : box_selection(data->labels);
  const boxes_view<const T> deltas(data->deltas);
  const boxes_view<const Box> anchors(data->anchors);
  if (with_grad) {
    return [=] {
      regression_loss_and_grad(deltas, anchors, data->targets, selection, data->grad, params,
                               policy);
    };
  }
  return [=] { regression_loss(deltas, anchors, data->targets, selection, params, policy); };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
  const bool is_mixed = e.variant.compare(0, 6, "float_") == 0;
  const std::string variant = is_mixed ? e.variant.substr(6) : e.variant;
  if (variants.count(variant) == 0 || e.shape.size() != 1) return {};
  if (is_mixed) {
    if (e.type != "bf16") return {};
    return make_call<bfloat16, float>(e, variant, policy);
  }
  return profile::for_type(e.type, [&](auto number) {
    return make_call<decltype(number), decltype(number)>(e, variant, policy);
  });
}

const profile::replay_registration registered[] = {
    {"regression_loss", make},
    {"regression_loss_and_grad", make},
};

}  // namespace
