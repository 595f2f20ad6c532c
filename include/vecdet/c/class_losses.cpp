// SPDX-License-Identifier: Apache-2.0
// Classification losses by sigmoids. Logits are rows x classes; a stride is the number of elements
// from one row to the next. Losses and gradients have the logits' type and the same shape without
// gaps. A gradient may be the logits' own memory if these have no gaps. `params` null: the
// defaults.
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

/// An array of the logits' type and shape, without gaps.
template <class T>
matrix_view<const T> like(const matrix_view<const T>& logits, const void* memory) {
  return {as<T>(memory), logits.rows(), logits.cols()};
}
template <class T>
matrix_view<T> like(const matrix_view<const T>& logits, void* memory) {
  return {as<T>(memory), logits.rows(), logits.cols()};
}

/// A function's body: compute(logits, targets, arrays..., parameters, policy) returns what is
/// written to `loss`, unless that is nullptr_t. The arrays have the logits' shape.
template <class Params, class CParams, class Targets, class Loss, class Compute, class... Arrays>
vecdet_status loss_of(const char* function, const given_logits& logits, const Targets& targets,
                      const CParams* params, Loss loss, const Compute& compute, Arrays*... arrays) {
  return guarded([&] {
    if constexpr (std::is_pointer<Loss>::value) check_pointer(loss, function, "loss");
    const auto p = params_of<Params>(params, function, logits.rows);
    on_type(logits.type, function, [&](auto of, threading policy) {
      const auto in = of.matrix(logits.data, logits.rows, logits.classes, logits.stride);
      const auto compared = targets_of(targets, in, function);
      if constexpr (std::is_pointer<Loss>::value)
        *loss = compute(in, compared, like(in, arrays)..., p, policy);
      else
        compute(in, compared, like(in, arrays)..., p, policy);
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
VECDET_C vecdet_status vecdet_sigmoid_focal_loss(vecdet_dtype type, const void* logits,
                                                 int64_t rows, int64_t classes, int64_t stride,
                                                 const vecdet_focal_targets* targets,
                                                 const vecdet_focal_loss_params* params,
                                                 double* loss) {
  return loss_of<focal_loss_params>("sigmoid_focal_loss", {type, logits, rows, classes, stride},
                                    targets, params, loss,
                                    [](const auto&... of) { return sigmoid_focal_loss(of...); });
}

/// Writes the loss of each element to `losses`.
VECDET_C vecdet_status vecdet_sigmoid_focal_loss_unreduced(
    vecdet_dtype type, const void* logits, int64_t rows, int64_t classes, int64_t stride,
    const vecdet_focal_targets* targets, const vecdet_focal_loss_params* params, void* losses) {
  return loss_of<focal_loss_params>(
      "sigmoid_focal_loss_unreduced", {type, logits, rows, classes, stride}, targets, params,
      nullptr, [](const auto&... of) { return sigmoid_focal_loss_unreduced(of...); }, losses);
}

/// Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_C vecdet_status vecdet_sigmoid_focal_loss_and_grad(vecdet_dtype type, const void* logits,
                                                          int64_t rows, int64_t classes,
                                                          int64_t stride,
                                                          const vecdet_focal_targets* targets,
                                                          const vecdet_focal_loss_params* params,
                                                          double* loss, void* grad) {
  return loss_of<focal_loss_params>(
      "sigmoid_focal_loss_and_grad", {type, logits, rows, classes, stride}, targets, params, loss,
      [](const auto&... of) { return sigmoid_focal_loss_and_grad(of...); }, grad);
}

/// Writes the gradients of the unreduced losses, multiplied element by element by `upstream`, which
/// has the logits' shape without gaps.
VECDET_C vecdet_status vecdet_sigmoid_focal_loss_grad(vecdet_dtype type, const void* logits,
                                                      int64_t rows, int64_t classes, int64_t stride,
                                                      const vecdet_focal_targets* targets,
                                                      const void* upstream,
                                                      const vecdet_focal_loss_params* params,
                                                      void* grad) {
  return loss_of<focal_loss_params>(
      "sigmoid_focal_loss_grad", {type, logits, rows, classes, stride}, targets, params, nullptr,
      [](const auto&... of) { return sigmoid_focal_loss_grad(of...); }, upstream, grad);
}

/// Quality focal loss, arXiv 2006.04388. Each row has a label and a score, which is the target of
/// the labelled class.
VECDET_C vecdet_status vecdet_quality_focal_loss(vecdet_dtype type, const void* logits,
                                                 int64_t rows, int64_t classes, int64_t stride,
                                                 const int64_t* labels, const float* scores,
                                                 const vecdet_quality_focal_params* params,
                                                 double* loss) {
  return loss_of<quality_focal_params>("quality_focal_loss", {type, logits, rows, classes, stride},
                                       given_labels{labels, scores}, params, loss,
                                       [](const auto&... of) { return quality_focal_loss(of...); });
}
/// Writes the loss of each element to `losses`.
VECDET_C vecdet_status vecdet_quality_focal_loss_unreduced(
    vecdet_dtype type, const void* logits, int64_t rows, int64_t classes, int64_t stride,
    const int64_t* labels, const float* scores, const vecdet_quality_focal_params* params,
    void* losses) {
  return loss_of<quality_focal_params>(
      "quality_focal_loss_unreduced", {type, logits, rows, classes, stride},
      given_labels{labels, scores}, params, nullptr,
      [](const auto&... of) { return quality_focal_loss_unreduced(of...); }, losses);
}
/// Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_C vecdet_status vecdet_quality_focal_loss_and_grad(vecdet_dtype type, const void* logits,
                                                          int64_t rows, int64_t classes,
                                                          int64_t stride, const int64_t* labels,
                                                          const float* scores,
                                                          const vecdet_quality_focal_params* params,
                                                          double* loss, void* grad) {
  return loss_of<quality_focal_params>(
      "quality_focal_loss_and_grad", {type, logits, rows, classes, stride},
      given_labels{labels, scores}, params, loss,
      [](const auto&... of) { return quality_focal_loss_and_grad(of...); }, grad);
}

/// Varifocal loss, arXiv 2008.13367; otherwise as vecdet_quality_focal_loss().
VECDET_C vecdet_status vecdet_varifocal_loss(vecdet_dtype type, const void* logits, int64_t rows,
                                             int64_t classes, int64_t stride, const int64_t* labels,
                                             const float* scores,
                                             const vecdet_varifocal_params* params, double* loss) {
  return loss_of<varifocal_params>("varifocal_loss", {type, logits, rows, classes, stride},
                                   given_labels{labels, scores}, params, loss,
                                   [](const auto&... of) { return varifocal_loss(of...); });
}
/// Writes the loss of each element to `losses`.
VECDET_C vecdet_status vecdet_varifocal_loss_unreduced(vecdet_dtype type, const void* logits,
                                                       int64_t rows, int64_t classes,
                                                       int64_t stride, const int64_t* labels,
                                                       const float* scores,
                                                       const vecdet_varifocal_params* params,
                                                       void* losses) {
  return loss_of<varifocal_params>(
      "varifocal_loss_unreduced", {type, logits, rows, classes, stride},
      given_labels{labels, scores}, params, nullptr,
      [](const auto&... of) { return varifocal_loss_unreduced(of...); }, losses);
}
/// Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_C vecdet_status vecdet_varifocal_loss_and_grad(vecdet_dtype type, const void* logits,
                                                      int64_t rows, int64_t classes, int64_t stride,
                                                      const int64_t* labels, const float* scores,
                                                      const vecdet_varifocal_params* params,
                                                      double* loss, void* grad) {
  return loss_of<varifocal_params>(
      "varifocal_loss_and_grad", {type, logits, rows, classes, stride},
      given_labels{labels, scores}, params, loss,
      [](const auto&... of) { return varifocal_loss_and_grad(of...); }, grad);
}

/// Binary cross entropy with logits; otherwise as vecdet_quality_focal_loss().
VECDET_C vecdet_status vecdet_bce_loss(vecdet_dtype type, const void* logits, int64_t rows,
                                       int64_t classes, int64_t stride, const int64_t* labels,
                                       const float* scores, const vecdet_bce_params* params,
                                       double* loss) {
  return loss_of<bce_params>("bce_loss", {type, logits, rows, classes, stride},
                             given_labels{labels, scores}, params, loss,
                             [](const auto&... of) { return bce_loss(of...); });
}
/// Writes the loss of each element to `losses`.
VECDET_C vecdet_status vecdet_bce_loss_unreduced(vecdet_dtype type, const void* logits,
                                                 int64_t rows, int64_t classes, int64_t stride,
                                                 const int64_t* labels, const float* scores,
                                                 const vecdet_bce_params* params, void* losses) {
  return loss_of<bce_params>(
      "bce_loss_unreduced", {type, logits, rows, classes, stride}, given_labels{labels, scores},
      params, nullptr, [](const auto&... of) { return bce_loss_unreduced(of...); }, losses);
}
/// Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_C vecdet_status vecdet_bce_loss_and_grad(vecdet_dtype type, const void* logits, int64_t rows,
                                                int64_t classes, int64_t stride,
                                                const int64_t* labels, const float* scores,
                                                const vecdet_bce_params* params, double* loss,
                                                void* grad) {
  return loss_of<bce_params>(
      "bce_loss_and_grad", {type, logits, rows, classes, stride}, given_labels{labels, scores},
      params, loss, [](const auto&... of) { return bce_loss_and_grad(of...); }, grad);
}
