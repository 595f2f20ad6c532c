// SPDX-License-Identifier: Apache-2.0
// Smooth L1 and its gradient on RetinaNet's deltas at 800 x 800: of all boxes, and of the
// foreground of a picture.
#include "plain_smooth_l1.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/smooth_l1.hpp>

#include <memory>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

template <class T>
struct deltas {
  std::vector<T> predictions, targets, grad;
  std::vector<index_t> labels;

  index_t boxes() const { return static_cast<index_t>(labels.size()); }
};

template <class T>
std::shared_ptr<deltas<T>> make_deltas() {
  static std::weak_ptr<deltas<T>> known;
  auto data = known.lock();
  if (data != nullptr) return data;
  data = std::make_shared<deltas<T>>();
  data->labels = assign(retinanet_anchors(), scene(), 91).labels;
  data->predictions = head_deltas<T>(data->boxes(), 3);
  data->targets = head_deltas<T>(data->boxes(), 4);
  data->grad.resize(data->predictions.size());
  known = data;
  return data;
}

template <class T>
void register_all() {
  constexpr index_t boxes = 120087;
  constexpr double size = 4.0 * boxes;
  const std::string problem =
      std::string("smooth_l1_loss_and_grad/all/") + dtype_name<T>() + "/120087x4";
  const work amount{size, 3 * size * sizeof(T)};
  if constexpr (std::is_same<T, float>::value) {
    register_implementation(problem, "reference", 1, amount, [](benchmark::State& state) {
      const auto data = make_deltas<float>();
      std::vector<double> grad(data->grad.size());
      const matrix_view<const float> x(data->predictions.data(), boxes, 4);
      const matrix_view<const float> t(data->targets.data(), boxes, 4);
      for (auto _ : state) {
        benchmark::DoNotOptimize(reference::smooth_l1_loss(
            x, t, 1.0 / 9, 1, matrix_view<double>(grad.data(), boxes, 4)));
      }
    });
    register_implementation(problem, "plain", 1, amount, [](benchmark::State& state) {
      const auto data = make_deltas<float>();
      for (auto _ : state) {
        benchmark::DoNotOptimize(plain_smooth_l1(data->predictions.data(), data->targets.data(),
                                                 data->grad.data(), 4 * boxes, 1.0f / 9));
      }
    });
  }
  register_vecdet(problem, amount, make_deltas<T>, [](deltas<T>& data, execution policy) {
    benchmark::DoNotOptimize(smooth_l1_loss_and_grad(boxes_view<const T>(data.predictions),
                                                     data.targets, box_selection::all(), data.grad,
                                                     {}, policy));
  });
}

void register_foreground() {
  constexpr double boxes = 120087;
  register_vecdet("smooth_l1_loss_and_grad/labels/f32/120087x4", {4 * boxes, 24 * boxes},
                  make_deltas<float>, [](deltas<float>& data, execution policy) {
                    benchmark::DoNotOptimize(
                        smooth_l1_loss_and_grad(boxes_view<const float>(data.predictions),
                                                data.targets, data.labels, data.grad, {}, policy));
                  });
}

const bool registered = [] {
  register_all<float>();
  register_all<bfloat16>();
  register_foreground();
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
