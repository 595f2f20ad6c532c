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

scored_labels scored_labels_of(const int64_t* labels, const float* scores, int64_t rows) {
  return {labels_view(labels, rows), vector_view<const float>(scores, rows)};
}

template <class T>
focal_targets<T> focal_targets_of(const vecdet_focal_targets* targets,
                                  const matrix_view<const T>& logits, const char* function) {
  check_pointer(targets, function, "targets");
  detail::check((targets->labels != nullptr) + (targets->dense != nullptr) < 2, function, "targets",
                "labels and dense", "one of the two");
  const index_t rows = logits.rows();
  if (targets->dense != nullptr)
    return focal_targets<T>(matrix_view<const T>(as<T>(targets->dense), rows, logits.cols()));
  if (targets->scores == nullptr) return focal_targets<T>(labels_view(targets->labels, rows));
  return focal_targets<T>(scored_labels_of(targets->labels, targets->scores, rows));
}

/// Calls loss(logits, policy) with the logits in their type.
template <class Loss>
void on_logits(vecdet_dtype type, const void* logits, int64_t rows, int64_t classes, int64_t stride,
               const char* function, const Loss& loss) {
  on_type(type, function, [&](auto of, threading policy) {
    loss(of.matrix(logits, rows, classes, stride), policy);
  });
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
  constexpr const char* function = "sigmoid_focal_loss";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<focal_loss_params>(params, function, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      *loss = sigmoid_focal_loss(in, focal_targets_of(targets, in, function), p, policy);
    });
  });
}

/// Writes the loss of each element to `losses`.
VECDET_C vecdet_status vecdet_sigmoid_focal_loss_unreduced(
    vecdet_dtype type, const void* logits, int64_t rows, int64_t classes, int64_t stride,
    const vecdet_focal_targets* targets, const vecdet_focal_loss_params* params, void* losses) {
  constexpr const char* function = "sigmoid_focal_loss_unreduced";
  return guarded([&] {
    const auto p = params_of<focal_loss_params>(params, function, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      sigmoid_focal_loss_unreduced(in, focal_targets_of(targets, in, function), like(in, losses), p,
                                   policy);
    });
  });
}

/// Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_C vecdet_status vecdet_sigmoid_focal_loss_and_grad(vecdet_dtype type, const void* logits,
                                                          int64_t rows, int64_t classes,
                                                          int64_t stride,
                                                          const vecdet_focal_targets* targets,
                                                          const vecdet_focal_loss_params* params,
                                                          double* loss, void* grad) {
  constexpr const char* function = "sigmoid_focal_loss_and_grad";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<focal_loss_params>(params, function, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      *loss = sigmoid_focal_loss_and_grad(in, focal_targets_of(targets, in, function),
                                          like(in, grad), p, policy);
    });
  });
}

/// Writes the gradients of the unreduced losses, multiplied element by element by `upstream`, which
/// has the logits' shape without gaps.
VECDET_C vecdet_status vecdet_sigmoid_focal_loss_grad(vecdet_dtype type, const void* logits,
                                                      int64_t rows, int64_t classes, int64_t stride,
                                                      const vecdet_focal_targets* targets,
                                                      const void* upstream,
                                                      const vecdet_focal_loss_params* params,
                                                      void* grad) {
  constexpr const char* function = "sigmoid_focal_loss_grad";
  return guarded([&] {
    const auto p = params_of<focal_loss_params>(params, function, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      sigmoid_focal_loss_grad(in, focal_targets_of(targets, in, function), like(in, upstream),
                              like(in, grad), p, policy);
    });
  });
}

/// Quality focal loss, arXiv 2006.04388. Each row has a label and a score, which is the target of
/// the labelled class.
VECDET_C vecdet_status vecdet_quality_focal_loss(vecdet_dtype type, const void* logits,
                                                 int64_t rows, int64_t classes, int64_t stride,
                                                 const int64_t* labels, const float* scores,
                                                 const vecdet_quality_focal_params* params,
                                                 double* loss) {
  constexpr const char* function = "quality_focal_loss";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<quality_focal_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      *loss = quality_focal_loss(in, targets, p, policy);
    });
  });
}
/// Writes the loss of each element to `losses`.
VECDET_C vecdet_status vecdet_quality_focal_loss_unreduced(
    vecdet_dtype type, const void* logits, int64_t rows, int64_t classes, int64_t stride,
    const int64_t* labels, const float* scores, const vecdet_quality_focal_params* params,
    void* losses) {
  constexpr const char* function = "quality_focal_loss_unreduced";
  return guarded([&] {
    const auto p = params_of<quality_focal_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      quality_focal_loss_unreduced(in, targets, like(in, losses), p, policy);
    });
  });
}
/// Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_C vecdet_status vecdet_quality_focal_loss_and_grad(vecdet_dtype type, const void* logits,
                                                          int64_t rows, int64_t classes,
                                                          int64_t stride, const int64_t* labels,
                                                          const float* scores,
                                                          const vecdet_quality_focal_params* params,
                                                          double* loss, void* grad) {
  constexpr const char* function = "quality_focal_loss_and_grad";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<quality_focal_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      *loss = quality_focal_loss_and_grad(in, targets, like(in, grad), p, policy);
    });
  });
}

/// Varifocal loss, arXiv 2008.13367; otherwise as vecdet_quality_focal_loss().
VECDET_C vecdet_status vecdet_varifocal_loss(vecdet_dtype type, const void* logits, int64_t rows,
                                             int64_t classes, int64_t stride, const int64_t* labels,
                                             const float* scores,
                                             const vecdet_varifocal_params* params, double* loss) {
  constexpr const char* function = "varifocal_loss";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<varifocal_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      *loss = varifocal_loss(in, targets, p, policy);
    });
  });
}
/// Writes the loss of each element to `losses`.
VECDET_C vecdet_status vecdet_varifocal_loss_unreduced(vecdet_dtype type, const void* logits,
                                                       int64_t rows, int64_t classes,
                                                       int64_t stride, const int64_t* labels,
                                                       const float* scores,
                                                       const vecdet_varifocal_params* params,
                                                       void* losses) {
  constexpr const char* function = "varifocal_loss_unreduced";
  return guarded([&] {
    const auto p = params_of<varifocal_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      varifocal_loss_unreduced(in, targets, like(in, losses), p, policy);
    });
  });
}
/// Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_C vecdet_status vecdet_varifocal_loss_and_grad(vecdet_dtype type, const void* logits,
                                                      int64_t rows, int64_t classes, int64_t stride,
                                                      const int64_t* labels, const float* scores,
                                                      const vecdet_varifocal_params* params,
                                                      double* loss, void* grad) {
  constexpr const char* function = "varifocal_loss_and_grad";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<varifocal_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      *loss = varifocal_loss_and_grad(in, targets, like(in, grad), p, policy);
    });
  });
}

/// Binary cross entropy with logits; otherwise as vecdet_quality_focal_loss().
VECDET_C vecdet_status vecdet_bce_loss(vecdet_dtype type, const void* logits, int64_t rows,
                                       int64_t classes, int64_t stride, const int64_t* labels,
                                       const float* scores, const vecdet_bce_params* params,
                                       double* loss) {
  constexpr const char* function = "bce_loss";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<bce_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function,
              [&](const auto& in, threading policy) { *loss = bce_loss(in, targets, p, policy); });
  });
}
/// Writes the loss of each element to `losses`.
VECDET_C vecdet_status vecdet_bce_loss_unreduced(vecdet_dtype type, const void* logits,
                                                 int64_t rows, int64_t classes, int64_t stride,
                                                 const int64_t* labels, const float* scores,
                                                 const vecdet_bce_params* params, void* losses) {
  constexpr const char* function = "bce_loss_unreduced";
  return guarded([&] {
    const auto p = params_of<bce_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      bce_loss_unreduced(in, targets, like(in, losses), p, policy);
    });
  });
}
/// Writes the loss, and its gradient with respect to the logits, in one pass.
VECDET_C vecdet_status vecdet_bce_loss_and_grad(vecdet_dtype type, const void* logits, int64_t rows,
                                                int64_t classes, int64_t stride,
                                                const int64_t* labels, const float* scores,
                                                const vecdet_bce_params* params, double* loss,
                                                void* grad) {
  constexpr const char* function = "bce_loss_and_grad";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<bce_params>(params, function, rows);
    const auto targets = scored_labels_of(labels, scores, rows);
    on_logits(type, logits, rows, classes, stride, function, [&](const auto& in, threading policy) {
      *loss = bce_loss_and_grad(in, targets, like(in, grad), p, policy);
    });
  });
}
