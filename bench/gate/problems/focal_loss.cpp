// SPDX-License-Identifier: Apache-2.0
// Focal loss on a head that fits the second-level cache, and on SSD300's.
#include "../../plain/focal_loss.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/focal_loss.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

/// One row in 100 is positive, one in 50 ignored.
template <class T>
struct head {
  std::int64_t rows, cols;
  std::vector<T> logits, targets, grad;
  std::vector<std::int64_t> labels;

  head(std::int64_t head_rows, std::int64_t head_cols)
      : rows(head_rows),
        cols(head_cols),
        logits(normal<T>(rows * cols, -4.6f, 1.0f)),
        targets(logits.size(), T(0.0f)),
        grad(logits.size(), T(0.0f)) {
    for (std::int64_t i = 0; i < rows; ++i) {
      labels.push_back(i % 100 == 7 ? i % cols : i % 50 == 3 ? -2 : -1);
      if (labels.back() >= 0) targets[static_cast<std::size_t>(i * cols + labels.back())] = T(1.0f);
    }
  }
  matrix_view<const T> x() const { return {logits.data(), rows, cols}; }
  matrix_view<const T> t() const { return {targets.data(), rows, cols}; }
  matrix_view<T> g() { return {grad.data(), rows, cols}; }
};

focal_loss_params gamma(double value) {
  focal_loss_params params;
  params.gamma = value;
  return params;
}

const problems added{
    {"sigmoid_focal_loss_and_grad/labels/f32/384x80", make<head<float>>(384, 80),
     VECDET_GATE_CALL(sigmoid_focal_loss_and_grad(d.x(), d.labels, d.g(), {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_focal_loss_labels(d.logits.data(), d.labels.data(),
                                                             d.grad.data(), d.rows, d.cols))},
    {"sigmoid_focal_loss_and_grad/dense/f32/384x80", make<head<float>>(384, 80),
     VECDET_GATE_CALL(sigmoid_focal_loss_and_grad(d.x(), d.t(), d.g(), {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_focal_loss_dense(d.logits.data(), d.targets.data(),
                                                            d.grad.data(), d.rows* d.cols))},
    {"sigmoid_focal_loss_and_grad/labels/bf16/384x80", make<head<bfloat16>>(384, 80),
     VECDET_GATE_CALL(sigmoid_focal_loss_and_grad(d.x(), d.labels, d.g(), {}, sequential))},
    {"sigmoid_focal_loss_and_grad/dense/bf16/384x80", make<head<bfloat16>>(384, 80),
     VECDET_GATE_CALL(sigmoid_focal_loss_and_grad(d.x(), d.t(), d.g(), {}, sequential))},
    {"sigmoid_focal_loss_and_grad/gamma1.5/f32/128x80", make<head<float>>(128, 80),
     VECDET_GATE_CALL(sigmoid_focal_loss_and_grad(d.x(), d.labels, d.g(), gamma(1.5), sequential))},
    {"sigmoid_focal_loss_and_grad/labels/f32/8732x81", make<head<float>>(8732, 81),
     VECDET_GATE_CALL(sigmoid_focal_loss_and_grad(d.x(), d.labels, d.g(), {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_focal_loss_labels(d.logits.data(), d.labels.data(),
                                                             d.grad.data(), d.rows, d.cols))},
    {"sigmoid_focal_loss/labels/f32/384x80", make<head<float>>(384, 80),
     VECDET_GATE_CALL(sigmoid_focal_loss(d.x(), d.labels, {}, sequential))},
    {"sigmoid_focal_loss/dense/f32/384x80", make<head<float>>(384, 80),
     VECDET_GATE_CALL(sigmoid_focal_loss(d.x(), d.t(), {}, sequential))},
    {"sigmoid_focal_loss_unreduced/labels/f32/384x80", make<head<float>>(384, 80),
     VECDET_GATE_CALL(sigmoid_focal_loss_unreduced(d.x(), d.labels, d.g(), {}, sequential))},
};

}  // namespace
}  // namespace vecdet::gate
