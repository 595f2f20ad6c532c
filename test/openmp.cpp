// SPDX-License-Identifier: Apache-2.0
// Calls on OpenMP's threads are bit-identical to those on one thread, from a plain program and from
// inside a parallel region; exceptions of a piece of work reach the caller. This is a separate
// program, because the caller chooses the OpenMP flags.
#include <vecdet/focal_loss.hpp>
#include <vecdet/nms.hpp>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <omp.h>

namespace {

using vecdet::index_t;

constexpr index_t rows = 20000, classes = 20;

struct results {
  double loss;
  std::vector<float> grad;
  std::vector<index_t> kept;

  bool same_bits(const results& other) const {
    return loss == other.loss && kept == other.kept &&
           std::memcmp(grad.data(), other.grad.data(), grad.size() * sizeof(float)) == 0;
  }
};

results compute(vecdet::threading policy) {
  std::vector<float> logits, boxes, scores;
  std::vector<index_t> labels;
  for (index_t i = 0; i < rows * classes; ++i)
    logits.push_back(static_cast<float>(i * 7919 % 1601) / 100 - 8);
  for (index_t i = 0; i < rows; ++i) {
    labels.push_back(i % 50 == 0 ? i % classes : -1);
    const auto x = static_cast<float>(i * 31 % 997), y = static_cast<float>(i * 17 % 499);
    for (const float side : {x, y, x + 30, y + 20}) boxes.push_back(side);
    scores.push_back(static_cast<float>(i * 6151 % 9973) / 9973);
  }
  results r;
  r.grad.resize(logits.size());
  r.loss = vecdet::sigmoid_focal_loss_and_grad(
      vecdet::matrix_view<const float>(logits.data(), rows, classes), labels,
      {r.grad.data(), rows, classes}, {}, policy);
  const vecdet::nms_groups groups{labels};
  r.kept = vecdet::batched_nms(vecdet::boxes_view<const float>(boxes),
                               vecdet::vector_view<const float>(scores), groups, {}, policy);
  return r;
}

bool expect(bool holds, const char* what) {
  if (!holds) std::printf("failed: %s\n", what);
  return holds;
}

}  // namespace

int main() {
  const auto openmp = [](index_t count, const vecdet::task& task) {
#pragma omp parallel for schedule(dynamic)
    for (index_t i = 0; i < count; ++i) task(i);
  };
  const results expected = compute(vecdet::threading::sequential);
  bool passed = expect(omp_get_max_threads() > 1, "OpenMP has threads");
  for (const int threads : {1, 2, 3, 8}) {
    omp_set_num_threads(threads);
    const auto on_openmp = vecdet::threading::on(openmp, threads);
    passed &= expect(compute(on_openmp).same_bits(expected), "a call on OpenMP's threads");
    std::vector<int> same(4);
#pragma omp parallel for
    for (int i = 0; i < 4; ++i) {
      same[static_cast<std::size_t>(i)] = compute(on_openmp).same_bits(expected);
    }
    for (const int one : same) passed &= expect(one != 0, "a call inside a parallel region");
    bool threw = false;
    try {
      vecdet::detail::for_each_chunk(on_openmp, vecdet::detail::chunking(40, 1),
                                     [](index_t c, index_t, index_t) {
                                       if (c == 7) throw std::runtime_error("thrown by a piece");
                                     });
    } catch (const std::runtime_error&) {
      threw = true;
    }
    passed &= expect(threw, "an exception of a piece reaches the caller");
  }
  if (passed) std::puts("OpenMP: the same bits");
  return passed ? 0 : 1;
}
