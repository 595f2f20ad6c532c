// SPDX-License-Identifier: Apache-2.0
// Classification losses by sigmoids. Logits are rows x classes; a stride is the number of elements
// from one row to the next. Losses and gradients have the logits' type and the same shape without
// gaps. A gradient may be the logits' own memory if these have no gaps. `params` null: the
// defaults.
#include <vecdet/c/losses.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/soft_target_loss.hpp>

/// The targets of the sigmoid focal loss. Either `labels`: a class, background or ignore value per
/// row, with `scores` as the targets of the labelled classes unless that is null; or `dense`:
/// numbers in [0, 1] of the logits' type and shape, without gaps.
typedef struct vecdet_focal_targets {
  const int64_t* labels;
  const float* scores;
  const void* dense;
} vecdet_focal_targets;

namespace vecdet_c {
namespace {

/// The logits of a call.
struct given_logits {
  vecdet_dtype type;
  const void* data;
  int64_t rows, classes, stride;
};

/// The targets of losses that have a label and a score per row.
struct given_labels {
  const int64_t* labels;
  const float* scores;
};

template <class T>
scored_labels targets_of(const given_labels& given, const matrix_view<const T>& logits,
                         const char*) {
  return {labels_view(given.labels, logits.rows()),
          vector_view<const float>(given.scores, logits.rows())};
}

template <class T>
focal_targets<T> targets_of(const vecdet_focal_targets* targets, const matrix_view<const T>& logits,
                            const char* function) {
  check_pointer(targets, function, "targets");
  detail::check((targets->labels != nullptr) + (targets->dense != nullptr) < 2, function, "targets",
                "labels and dense", "one of the two");
  const index_t rows = logits.rows();
  if (targets->dense != nullptr)
    return focal_targets<T>(matrix_view<const T>(as<T>(targets->dense), rows, logits.cols()));
  if (targets->scores == nullptr) return focal_targets<T>(labels_view(targets->labels, rows));
  return targets_of(given_labels{targets->labels, targets->scores}, logits, function);
}

/// A loss's body: compute(logits, targets, output, parameters, policy).
template <class Params, class Form, class Compute, class CParams, class Targets>
vecdet_status loss_of(const Form& form, const Compute& compute, const given_logits& logits,
                      const Targets& targets, const CParams* params) {
  return guarded([&] {
    form.check();
    const auto p = params_of<Params>(params, form.function, logits.rows);
    on_type(logits.type, form.function, [&](auto of, threading policy) {
      const auto in = of.matrix(logits.data, logits.rows, logits.classes, logits.stride);
      const auto compared = targets_of(targets, in, form.function);
      const auto like = [&](void* memory) {
        return of.matrix(memory, logits.rows, logits.classes);
      };
      form.call(like, like,
                [&](const auto&... out) { return compute(in, compared, out..., p, policy); });
    });
  });
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// Writes the number of labels that are neither `background` nor `ignore`. Trainers scale losses by
/// 1 / max(1, foreground).
VECDET_C vecdet_status vecdet_count_foreground(const int64_t* labels, int64_t count,
                                               int64_t background, int64_t ignore,
                                               int64_t* foreground) {
  return guarded([&] {
    check_pointer(foreground, "count_foreground", "foreground");
    *foreground = count_foreground(labels_view(labels, count), background, ignore);
  });
}

/// Sigmoid focal loss, arXiv 1708.02002: writes the sum or mean to `loss`.
/// @unreduced Writes the loss of each element to `losses`.
/// @and_grad Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_LOSS(sigmoid_focal_loss, vecdet_dtype type, const void* logits, int64_t rows,
            int64_t classes, int64_t stride, const vecdet_focal_targets* targets,
            const vecdet_focal_loss_params* params) {
  return loss_of<focal_loss_params>(form, compute, {type, logits, rows, classes, stride}, targets,
                                    params);
}

/// Writes the gradients of the unreduced losses, multiplied element by element by `upstream`, which
/// has the logits' shape without gaps.
VECDET_C vecdet_status vecdet_sigmoid_focal_loss_grad(vecdet_dtype type, const void* logits,
                                                      int64_t rows, int64_t classes, int64_t stride,
                                                      const vecdet_focal_targets* targets,
                                                      const void* upstream,
                                                      const vecdet_focal_loss_params* params,
                                                      void* grad) {
  const auto compute = [&](auto in, const auto& compared, auto out, const auto& p,
                           threading policy) {
    const decltype(in) arriving(static_cast<decltype(in.data())>(upstream), rows, classes);
    sigmoid_focal_loss_grad(in, compared, arriving, out, p, policy);
  };
  return loss_of<focal_loss_params>(unreduced_form<void>{"sigmoid_focal_loss_grad", grad}, compute,
                                    {type, logits, rows, classes, stride}, targets, params);
}

/// Quality focal loss, arXiv 2006.04388. Each row has a label and a score, which is the target of
/// the labelled class.
/// @unreduced Writes the loss of each element to `losses`.
/// @and_grad Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_LOSS(quality_focal_loss, vecdet_dtype type, const void* logits, int64_t rows,
            int64_t classes, int64_t stride, const int64_t* labels, const float* scores,
            const vecdet_quality_focal_params* params) {
  return loss_of<quality_focal_params>(form, compute, {type, logits, rows, classes, stride},
                                       given_labels{labels, scores}, params);
}

/// Varifocal loss, arXiv 2008.13367; otherwise as vecdet_quality_focal_loss().
/// @unreduced Writes the loss of each element to `losses`.
/// @and_grad Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_LOSS(varifocal_loss, vecdet_dtype type, const void* logits, int64_t rows, int64_t classes,
            int64_t stride, const int64_t* labels, const float* scores,
            const vecdet_varifocal_params* params) {
  return loss_of<varifocal_params>(form, compute, {type, logits, rows, classes, stride},
                                   given_labels{labels, scores}, params);
}

/// Binary cross entropy with logits; otherwise as vecdet_quality_focal_loss().
/// @unreduced Writes the loss of each element to `losses`.
/// @and_grad Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_LOSS(bce_loss, vecdet_dtype type, const void* logits, int64_t rows, int64_t classes,
            int64_t stride, const int64_t* labels, const float* scores,
            const vecdet_bce_params* params) {
  return loss_of<bce_params>(form, compute, {type, logits, rows, classes, stride},
                             given_labels{labels, scores}, params);
}

#include <vecdet/c/generated/class_losses.hpp>
