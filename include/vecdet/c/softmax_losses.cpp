// SPDX-License-Identifier: Apache-2.0
// Losses by softmax: cross entropy and the distribution focal loss. Logits are float, with one row
// per anchor or box side; a stride is the number of elements from one row to the next. Gradients
// have the logits' shape without gaps.
#include <vecdet/c/losses.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/softmax_cross_entropy.hpp>

/// SSD's mining, arXiv 1512.02325: each image counts its foreground rows and a multiple of hard
/// negatives.
typedef struct vecdet_hard_negative_mining {
  int64_t images;                    ///< divides the rows
  int64_t negatives_per_foreground;  ///< 3
  int64_t background;                ///< a class
} vecdet_hard_negative_mining;

using namespace vecdet_c;

/// The sum of the softmax cross entropies of the rows.
/// @unreduced Writes the loss of each row.
VECDET_LOSS(softmax_cross_entropy_loss, const float* logits, int64_t rows, int64_t classes,
            int64_t stride, const int64_t* labels,
            const vecdet_softmax_cross_entropy_params* params) {
  return guarded([&] {
    form.check();
    const auto p = params_of<softmax_cross_entropy_params>(params, form.function);
    on_threads([&](threading policy) {
      const auto losses_of = [&](float* losses) { return vector_view<float>(losses, rows); };
      form.call(losses_of, losses_of, [&](const auto&... out) {
        return compute(matrix_view<const float>(logits, rows, classes, stride),
                       labels_view(labels, rows), out..., p, policy);
      });
    });
  });
}
/// The sum and its gradient. With `mining`, only the foreground and the hardest negatives of each
/// image count; null: all rows.
VECDET_C vecdet_status vecdet_softmax_cross_entropy_loss_and_grad(
    const float* logits, int64_t rows, int64_t classes, int64_t stride, const int64_t* labels,
    const vecdet_hard_negative_mining* mining, const vecdet_softmax_cross_entropy_params* params,
    vecdet_workspace* workspace, double* loss, float* grad) {
  constexpr const char* function = "softmax_cross_entropy_loss_and_grad";
  return guarded([&] {
    check_pointer(loss, function, "loss");
    const auto p = params_of<softmax_cross_entropy_params>(params, function);
    const matrix_view<const float> in(logits, rows, classes, stride);
    const matrix_view<float> out(grad, rows, classes);
    scratch memory(workspace);
    on_threads([&](threading policy) {
      if (mining == nullptr) {
        *loss = softmax_cross_entropy_loss_and_grad(in, labels_view(labels, rows), out, p, policy);
        return;
      }
      const hard_negative_mining mined{mining->images, mining->negatives_per_foreground,
                                       mining->background};
      *loss = softmax_cross_entropy_loss_and_grad(in, labels_view(labels, rows), mined, out, p,
                                                  memory.get<softmax_cross_entropy_workspace>(),
                                                  policy);
    });
  });
}

/// Distribution focal loss, arXiv 2006.04388, of rows x bins logits; one target per row, in bins.
/// `row_weights` null: all 1.
/// @unreduced Writes the loss of each row to `losses`.
/// @and_grad Writes the sum, and its gradient with respect to the logits, in one pass.
VECDET_LOSS(distribution_focal_loss, const float* logits, int64_t rows, int64_t bins,
            int64_t stride, const float* targets, const float* row_weights, double scale) {
  return guarded([&] {
    form.check();
    distribution_focal_loss_params p;
    p.scale = scale;
    p.row_weights = optional_view(row_weights, rows);
    on_threads([&](threading policy) {
      form.call([&](float* losses) { return vector_view<float>(losses, rows); },
                [&](float* grad) { return matrix_view<float>(grad, rows, bins); },
                [&](const auto&... out) {
                  return compute(matrix_view<const float>(logits, rows, bins, stride),
                                 vector_view<const float>(targets, rows), out..., p, policy);
                });
    });
  });
}

#include <vecdet/c/generated/softmax_losses.hpp>
