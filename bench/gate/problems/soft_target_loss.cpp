// SPDX-License-Identifier: Apache-2.0
// The losses of scored labels on a head that fits the second-level cache.
#include "../../plain/soft_target_loss.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/soft_target_loss.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

/// One row in 50 is labelled, one in 50 ignored.
struct head {
  std::int64_t rows = 384, cols = 80;
  std::vector<float> logits, scores, grad;
  std::vector<std::int64_t> labels;

  head() : logits(normal<float>(rows * cols, -4.6f, 1.0f)), grad(logits.size()) {
    for (std::int64_t i = 0; i < rows; ++i) {
      labels.push_back(i % 50 == 7 ? i % cols : i % 50 == 3 ? -2 : -1);
      scores.push_back(0.1f * static_cast<float>(i % 10));
    }
  }
  matrix_view<const float> x() const { return {logits.data(), rows, cols}; }
  matrix_view<float> g() { return {grad.data(), rows, cols}; }
  scored_labels targets() const { return {labels, scores}; }
};

const problems added{
    {"quality_focal_loss_and_grad/labels/f32/384x80", make<head>(),
     VECDET_GATE_CALL(quality_focal_loss_and_grad(d.x(), d.targets(), d.g(), {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_quality_focal_loss(
         d.logits.data(), d.labels.data(), d.scores.data(), d.grad.data(), d.rows, d.cols))},
    {"varifocal_loss_and_grad/labels/f32/384x80", make<head>(),
     VECDET_GATE_CALL(varifocal_loss_and_grad(d.x(), d.targets(), d.g(), {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_varifocal_loss(
         d.logits.data(), d.labels.data(), d.scores.data(), d.grad.data(), d.rows, d.cols))},
    {"bce_loss_and_grad/labels/f32/384x80", make<head>(),
     VECDET_GATE_CALL(bce_loss_and_grad(d.x(), d.targets(), d.g(), {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_bce_loss(
         d.logits.data(), d.labels.data(), d.scores.data(), d.grad.data(), d.rows, d.cols))},
};

}  // namespace
}  // namespace vecdet::gate
