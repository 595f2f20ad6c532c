// SPDX-License-Identifier: Apache-2.0
// Replays the sigmoid focal loss on logits and labels like those of a detector in training.
#include "replay_inputs.hpp"
#include <vecdet/focal_loss.hpp>

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vecdet;

template <class T>
struct operands {
  index_t rows, classes;
  std::vector<index_t> labels;
  std::vector<float> scores;
  std::vector<T> logits, targets, output, upstream;

  operands(index_t n, index_t c, const std::string& variant) : rows(n), classes(c) {
    labels = profile::labels_like_training(rows, classes);
    logits = bench::head_logits<T>(labels, classes);
    output.resize(logits.size());
    upstream.assign(logits.size(), T(1.0f));
    if (variant == "scored") scores.assign(labels.size(), 0.5f);
    if (variant != "dense") return;
    targets.assign(logits.size(), T(0.0f));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0) continue;
      targets[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(labels[i])] =
          T(1.0f);
    }
  }
  matrix_view<const T> view(const std::vector<T>& data) const {
    return {data.data(), rows, classes};
  }
  focal_targets<T> wanted() const {
    if (!scores.empty()) return scored_labels{labels, scores};
    if (targets.empty()) return labels;
    return view(targets);
  }
};

template <class T>
profile::replay_call make_call(const profile::entry& e, execution policy) {
  const bool dense = e.variant == "dense";
  const bool nchw = e.variant == "nchw";
  const auto data = std::make_shared<operands<T>>(e.shape[0], e.shape[1], e.variant);
  matrix_view<T> out{data->output.data(), data->rows, data->classes};
  focal_loss_params params;
  if (e.function == "sigmoid_focal_loss") {
    return [=] { sigmoid_focal_loss(data->view(data->logits), data->wanted(), params, policy); };
  }
  if (e.function == "sigmoid_focal_loss_unreduced") {
    return [=] {
      sigmoid_focal_loss_unreduced(data->view(data->logits), data->wanted(), out, params, policy);
    };
  }
  if (nchw || e.variant == "levels") {
    // One level of one anchor, whose locations are all rows.
    return [=] {
      const auto layout = nchw ? head_layout::nchw : head_layout::nhwc;
      const head_level<const T> logits{data->logits.data(), data->rows, 1};
      const head_level<T> grad{data->output.data(), data->rows, 1};
      sigmoid_focal_loss_and_grad(
          head_view<const T>({&logits, 1}, 1, 1, data->classes, layout), data->wanted(),
          head_view<T>({&grad, 1}, 1, 1, data->classes, layout), {}, params, policy);
    };
  }
  if (e.function == "sigmoid_focal_loss_and_grad") {
    return [=] {
      sigmoid_focal_loss_and_grad(data->view(data->logits), data->wanted(), out, params, policy);
    };
  }
  // The function takes one number or a tensor as upstream gradient; the bytes tell which it was.
  const double tensors =
      profile::call_bytes(e) / (static_cast<double>(data->logits.size()) * sizeof(T));
  if (tensors > (dense ? 3.5 : 2.5)) {
    return [=] {
      sigmoid_focal_loss_grad(data->view(data->logits), data->wanted(), data->view(data->upstream),
                              out, params, policy);
    };
  }
  return [=] {
    sigmoid_focal_loss_grad(data->view(data->logits), data->wanted(), 1.0, out, params, policy);
  };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  if (e.shape.size() != 2) return {};
  const bool is_known = e.variant == "labels" || e.variant == "scored" || e.variant == "dense" ||
                        e.variant == "levels" || e.variant == "nchw";
  if (!is_known) return {};
  return profile::for_type(e.type,
                           [&](auto number) { return make_call<decltype(number)>(e, policy); });
}

const profile::replay_registration registered[] = {
    {"sigmoid_focal_loss", make},
    {"sigmoid_focal_loss_unreduced", make},
    {"sigmoid_focal_loss_and_grad", make},
    {"sigmoid_focal_loss_grad", make},
};

}  // namespace
