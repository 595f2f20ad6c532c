// SPDX-License-Identifier: Apache-2.0
// Smooth L1 and its gradient on RetinaNet's deltas at 800 x 800: of all boxes, and of the
// foreground of a picture, about a hundred.
#include "plain/functions.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/smooth_l1.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

template <class T>
struct deltas {
  std::vector<T> predictions, targets, grad;
  std::vector<index_t> labels, foreground;

  index_t boxes() const { return static_cast<index_t>(labels.size()); }
};

template <class T>
std::shared_ptr<deltas<T>> make_deltas() {
  static std::weak_ptr<deltas<T>> known;
  auto data = known.lock();
  if (data != nullptr) return data;
  data = std::make_shared<deltas<T>>();
  data->labels = assign(retinanet_anchors(), scene(), 91).labels;
  data->foreground = foreground_indices(data->labels);
  data->predictions = head_deltas<T>(data->boxes(), 3);
  data->targets = head_deltas<T>(data->boxes(), 4);
  data->grad.resize(data->predictions.size());
  known = data;
  return data;
}

constexpr index_t boxes = 120087;
constexpr double size = 4.0 * boxes;

/// What has no plain loop: the reference and bfloat16.
void register_others() {
  register_implementation("smooth_l1_loss_and_grad/all/f32/120087x4", "reference", 1,
                          {size, 12 * size}, [](benchmark::State& state) {
                            const auto data = make_deltas<float>();
                            std::vector<double> grad(data->grad.size());
                            const matrix_view<const float> x(data->predictions.data(), boxes, 4);
                            const matrix_view<const float> t(data->targets.data(), boxes, 4);
                            for (auto _ : state) {
                              benchmark::DoNotOptimize(reference::smooth_l1_loss(
                                  x, t, 1.0 / 9, 1, matrix_view<double>(grad.data(), boxes, 4)));
                            }
                          });
  register_vecdet("smooth_l1_loss_and_grad/all/bf16/120087x4", {size, 6 * size},
                  make_deltas<bfloat16>, [](deltas<bfloat16>& data, execution policy) {
                    return smooth_l1_loss_and_grad(boxes_view<const bfloat16>(data.predictions),
                                                   data.targets, box_selection::all(), data.grad,
                                                   {}, policy);
                  });
}

/// Each function on the boxes that `selection` gives, which reads `bytes`, beside a plain loop.
template <plain_output O, class Selection, class Plain>
void register_output(const char* variant, double bytes, const Selection& selection,
                     const Plain& plain) {
  const char* function = O == plain_output::sum    ? "smooth_l1_loss/"
                         : O == plain_output::loss ? "smooth_l1_loss_unreduced/"
                                                   : "smooth_l1_loss_and_grad/";
  const double written = O == plain_output::sum ? 0 : 4 * size;
  register_with_plain(
      std::string(function) + variant + "/f32/120087x4", {size, bytes + written},
      make_deltas<float>,
      [=](deltas<float>& data, execution policy) -> double {
        const boxes_view<const float> predictions(data.predictions);
        const box_selection selected = selection(data);
        if constexpr (O == plain_output::sum) {
          return smooth_l1_loss(predictions, data.targets, selected, {}, policy);
        } else if constexpr (O == plain_output::loss) {
          smooth_l1_loss_unreduced(predictions, data.targets, selected, data.grad, {}, policy);
          return 0;
        } else {
          return smooth_l1_loss_and_grad(predictions, data.targets, selected, data.grad, {},
                                         policy);
        }
      },
      plain, &deltas<float>::grad);
}

template <plain_output O>
void register_selections() {
  register_output<O>(
      "all", 8 * size, [](const deltas<float>&) { return box_selection::all(); },
      [](deltas<float>& data) {
        return VECDET_PLAIN(plain_smooth_l1<O>)(data.predictions.data(), data.targets.data(),
                                                data.grad.data(), 4 * data.boxes(), 1.0f / 9);
      });
  register_output<O>(
      "labels", 2 * size, [](const deltas<float>& data) { return box_selection(data.labels); },
      [](deltas<float>& data) {
        return VECDET_PLAIN(plain_smooth_l1_labels<O>)(data.predictions.data(), data.targets.data(),
                                                       data.labels.data(), data.grad.data(),
                                                       data.boxes(), 1.0f / 9);
      });
  register_output<O>(
      "list", 100 * 40,
      [](const deltas<float>& data) { return box_selection::list(data.foreground); },
      [](deltas<float>& data) {
        return VECDET_PLAIN(plain_smooth_l1_list<O>)(
            data.predictions.data(), data.targets.data(), data.foreground.data(),
            static_cast<index_t>(data.foreground.size()), data.grad.data(), data.boxes(), 1.0f / 9);
      });
}

const bool registered = [] {
  register_others();
  register_selections<plain_output::grad>();
  register_selections<plain_output::sum>();
  register_selections<plain_output::loss>();
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
