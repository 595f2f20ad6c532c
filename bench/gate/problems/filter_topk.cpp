// SPDX-License-Identifier: Apache-2.0
// The best 1000 of a head's logits above a threshold.
#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/filter_topk.hpp>

#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

/// Some 1 in 80 is above a score of 0.05.
template <class T>
struct head {
  std::int64_t rows, cols;
  std::vector<T> logits;

  head(std::int64_t head_rows, std::int64_t head_cols)
      : rows(head_rows), cols(head_cols), logits(normal<T>(rows * cols, -5.2f, 1.0f)) {}
  matrix_view<const T> x() const { return {logits.data(), rows, cols}; }
};

const problems added{
    {"filter_topk/threshold0.05/f32/1024x91", make<head<float>>(1024, 91),
     VECDET_GATE_CALL(filter_topk(d.x(), 0.05, 1000, own<filter_topk_workspace>(), sequential))},
    {"filter_topk/threshold0.05/bf16/1024x91", make<head<bfloat16>>(1024, 91),
     VECDET_GATE_CALL(filter_topk(d.x(), 0.05, 1000, own<filter_topk_workspace>(), sequential))},
};

}  // namespace
}  // namespace vecdet::gate
