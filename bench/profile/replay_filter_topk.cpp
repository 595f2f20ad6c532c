// SPDX-License-Identifier: Apache-2.0
// Replays filter_topk on logits of a RetinaNet in training, or as if they were probabilities: the
// best 1000 of the scores above the recorded threshold.
#include "replay_inputs.hpp"
#include "replay_levels.hpp"
#include <vecdet/filter_topk.hpp>

#include <memory>
#include <vector>

namespace {

using namespace vecdet;

template <class T>
struct operands {
  std::vector<T> logits;
  filter_topk_workspace workspace;
};

template <class T>
profile::replay_call make_call(const profile::entry& e, double threshold, score_kind kind,
                               execution policy) {
  const index_t rows = e.shape[0], cols = e.shape[1];
  const auto data = std::make_shared<operands<T>>();
  data->logits = bench::head_logits<T>(profile::labels_like_training(rows, cols), cols);
  const matrix_view<const T> logits(data->logits.data(), rows, cols);
  return [=] { filter_topk(logits, threshold, 1000, data->workspace, policy, kind); };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
  const auto probability = profile::number_after<double>("probability", e.variant);
  const score_kind kind = probability ? score_kind::probabilities : score_kind::logits;
  const double threshold = probability
                               ? *probability
                               : profile::number_after<double>("threshold", e.variant).value_or(-1);
  if (e.shape.size() != 2 || !(threshold >= 0 && threshold <= 1)) return {};
  return profile::for_logit_type(
      e.type, [&](auto number) { return make_call<decltype(number)>(e, threshold, kind, policy); });
}

const profile::replay_registration registered("filter_topk", make);

}  // namespace
