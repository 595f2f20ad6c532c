// SPDX-License-Identifier: Apache-2.0
// A kernel in a trainer whose other operators run on OpenMP, as libtorch's do. OpenMP's threads
// keep spinning for a while after each region and compete for the processors. Each problem is timed
// right after an OpenMP region of some milliseconds, and alone, on oneTBB's threads and on
// OpenMP's.
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/focal_loss.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <omp.h>

namespace vecdet::bench {
namespace {

struct head {
  std::vector<float> logits, grad;
  std::vector<index_t> labels;
};

constexpr index_t anchors = 120087, classes = 91;

std::shared_ptr<head> make_head() {
  return shared_data([] {
    head data;
    data.labels = assign(retinanet_anchors(), scene(), classes).labels;
    data.logits = head_logits<float>(data.labels, classes);
    data.grad.resize(data.logits.size());
    return data;
  });
}

/// Simulates a convolution: a region in which all threads have work.
void openmp_region(std::vector<float>& numbers) {
  const auto size = static_cast<index_t>(numbers.size());
#pragma omp parallel for
  for (index_t i = 0; i < size; ++i) {
    float& x = numbers[static_cast<std::size_t>(i)];
    for (int k = 0; k < 8; ++k) x = x * 0.999f + 0.001f;
  }
}

const int registered = [] {
  const auto openmp = [](index_t count, const task& task) {
#pragma omp parallel for schedule(dynamic)
    for (index_t i = 0; i < count; ++i) task(i);
  };
  const int threads = omp_get_max_threads();
  if (threads == 1) return 0;
  const work amount{double{anchors} * classes, 8.0 * anchors * classes + 8.0 * anchors};
  for (const bool after_region : {false, true}) {
    for (const bool on_openmp : {false, true}) {
      const std::string name = std::string("sigmoid_focal_loss_and_grad/") +
                               (after_region ? "after_openmp" : "alone") + "/f32/120087x91/" +
                               (on_openmp ? "openmp" : "onetbb") +
                               "/threads:" + std::to_string(threads);
      benchmarks().push_back(
          {name,
           [=](benchmark::State& state) {
             const auto data = make_head();
             const threading policy =
                 on_openmp ? threading::on(openmp, threads) : threading::parallel;
             std::vector<float> numbers(1 << 22, 0.5f);
             const auto call = [&] {
               if (after_region) openmp_region(numbers);
               const auto start = std::chrono::steady_clock::now();
               benchmark::DoNotOptimize(sigmoid_focal_loss_and_grad(
                   matrix_view<const float>(data->logits.data(), anchors, classes), data->labels,
                   matrix_view<float>(data->grad.data(), anchors, classes), {}, policy));
               const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
               return spent.count();
             };
             call();  // as in time_calls
             while (state.KeepRunningBatch(least_calls))
               for (auto i = 0 * least_calls; i < least_calls; ++i) state.SetIterationTime(call());
             count_work(state, amount.elements, amount.bytes, threads);
           },
           true});
    }
  }
  return 0;
}();

}  // namespace
}  // namespace vecdet::bench
