// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss and its decoding on 2000 sides, and mined softmax cross entropy of two
// images with 1000 default boxes.
#include "../../plain/softmax.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/softmax_cross_entropy.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

struct rows {
  std::int64_t count, cols;
  std::vector<float> logits, targets, out;
  std::vector<std::int64_t> labels;

  rows(std::int64_t row_count, std::int64_t col_count)
      : count(row_count),
        cols(col_count),
        logits(normal<float>(count * cols, 0.0f, 2.0f, 1)),
        targets(uniform<float>(count, 0.0f, static_cast<float>(cols) - 1.01f, 2)),
        out(logits.size()) {
    for (std::int64_t i = 0; i < count; ++i) labels.push_back(i % 100 == 7 ? 3 : 0);
  }
  matrix_view<const float> x() const { return {logits.data(), count, cols}; }
  matrix_view<float> grad() { return {out.data(), count, cols}; }
  vector_view<float> each() { return {out.data(), count}; }
};

double mined(rows& d) {
  hard_negative_mining mining;
  mining.images = 2;
  return softmax_cross_entropy_loss_and_grad(d.x(), d.labels, mining, d.grad(), {},
                                             own<softmax_cross_entropy_workspace>(), sequential);
}

const problems added{
    {"distribution_focal_loss_and_grad/sides/f32/2000x17", make<rows>(2000, 17),
     VECDET_GATE_CALL(distribution_focal_loss_and_grad(d.x(), d.targets, d.grad(), {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_distribution_focal_loss(
         d.logits.data(), d.targets.data(), d.out.data(), 2000, 17))},
    {"decode_distributions/distances/f32/2000x16", make<rows>(2000, 16),
     VECDET_GATE_CALL(decode_distributions(d.x(), d.each(), sequential)),
     VECDET_GATE_CALL(
         bench::native::plain_decode_distributions(d.logits.data(), d.out.data(), 2000, 16))},
    {"softmax_cross_entropy_loss_and_grad/mined3/f32/2000x21", make<rows>(2000, 21),
     VECDET_GATE_CALL(mined(d)),
     VECDET_GATE_CALL(bench::native::plain_mined_softmax_cross_entropy(
         d.logits.data(), d.labels.data(), d.out.data(), 2, 1000, 21))},
};

}  // namespace
}  // namespace vecdet::gate
