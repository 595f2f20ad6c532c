// SPDX-License-Identifier: Apache-2.0
// Replays the losses of scored labels on logits and labels like those of a detector in training.
#include "replay_inputs.hpp"
#include "replay_levels.hpp"
#include <vecdet/soft_target_loss.hpp>

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
  std::vector<T> logits, output;

  operands(index_t n, index_t c)
      : rows(n),
        classes(c),
        labels(profile::labels_like_training(n, c)),
        scores(labels.size(), 0.5f),
        logits(bench::head_logits<T>(labels, c)),
        output(logits.size()) {}

  matrix_view<const T> x() const { return {logits.data(), rows, classes}; }
  matrix_view<T> out() { return {output.data(), rows, classes}; }
  scored_labels targets() const { return {labels, scores}; }
};

template <class T>
profile::replay_call make_call(const std::string& function, index_t rows, index_t classes,
                               execution policy) {
  const auto d = std::make_shared<operands<T>>(rows, classes);
  if (function == "quality_focal_loss")
    return [=] { quality_focal_loss(d->x(), d->targets(), {}, policy); };
  if (function == "quality_focal_loss_unreduced")
    return [=] { quality_focal_loss_unreduced(d->x(), d->targets(), d->out(), {}, policy); };
  if (function == "quality_focal_loss_and_grad")
    return [=] { quality_focal_loss_and_grad(d->x(), d->targets(), d->out(), {}, policy); };
  if (function == "varifocal_loss")
    return [=] { varifocal_loss(d->x(), d->targets(), {}, policy); };
  if (function == "varifocal_loss_unreduced")
    return [=] { varifocal_loss_unreduced(d->x(), d->targets(), d->out(), {}, policy); };
  if (function == "varifocal_loss_and_grad")
    return [=] { varifocal_loss_and_grad(d->x(), d->targets(), d->out(), {}, policy); };
  if (function == "bce_loss") return [=] { bce_loss(d->x(), d->targets(), {}, policy); };
  if (function == "bce_loss_unreduced")
    return [=] { bce_loss_unreduced(d->x(), d->targets(), d->out(), {}, policy); };
  return [=] { bce_loss_and_grad(d->x(), d->targets(), d->out(), {}, policy); };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
  if (e.shape.size() != 2 || e.variant != "labels") return {};
  return profile::for_type(e.type, [&](auto number) {
    return make_call<decltype(number)>(e.function, e.shape[0], e.shape[1], policy);
  });
}

const profile::replay_registration registered[] = {
    {"quality_focal_loss", make},
    {"quality_focal_loss_unreduced", make},
    {"quality_focal_loss_and_grad", make},
    {"varifocal_loss", make},
    {"varifocal_loss_unreduced", make},
    {"varifocal_loss_and_grad", make},
    {"bce_loss", make},
    {"bce_loss_unreduced", make},
    {"bce_loss_and_grad", make},
};

}  // namespace
