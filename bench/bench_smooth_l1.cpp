// SPDX-License-Identifier: Apache-2.0
// Smooth L1 and its gradient on RetinaNet's deltas at 800 x 800: for all boxes, and for the
// foreground of a picture, about a hundred.
#include "plain/smooth_l1.hpp"
#include "support/implementations.hpp"
#include "support/operands.hpp"
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/smooth_l1.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t boxes = 120087;
constexpr double size = 4.0 * boxes;

template <class T>
std::shared_ptr<smooth_l1_operands<T>> make_deltas() {
  return shared_data(
      [] { return smooth_l1_operands<T>(assign(retinanet_anchors(), scene(), 91).labels); });
}

/// Variants without a plain loop: the reference and bfloat16.
void register_others() {
  register_implementation("smooth_l1_loss_and_grad/all/f32/120087x4", "reference", 1,
                          {size, 12 * size}, [](benchmark::State& state) {
                            const auto data = make_deltas<float>();
                            std::vector<double> grad(data->out.size());
                            const matrix_view<const float> x(data->predictions.data(), boxes, 4);
                            const matrix_view<const float> t(data->targets.data(), boxes, 4);
                            time_calls(state, [&] {
                              benchmark::DoNotOptimize(reference::smooth_l1_loss(
                                  x, t, 1.0 / 9, 1, matrix_view<double>(grad.data(), boxes, 4)));
                            });
                          });
  register_vecdet("smooth_l1_loss_and_grad/all/bf16/120087x4", {size, 6 * size},
                  make_deltas<bfloat16>, [](smooth_l1_operands<bfloat16>& data, threading policy) {
                    return smooth_l1_loss_and_grad(boxes_view<const bfloat16>(data.predictions),
                                                   data.targets, box_selection::all(), data.out, {},
                                                   policy);
                  });
}

/// Each function on the boxes in `selection`, reading `bytes`, next to a plain loop.
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
      [=](smooth_l1_operands<float>& data, threading policy) -> double {
        const boxes_view<const float> predictions(data.predictions);
        const box_selection selected = selection(data);
        if constexpr (O == plain_output::sum) {
          return smooth_l1_loss(predictions, data.targets, selected, {}, policy);
        } else if constexpr (O == plain_output::loss) {
          smooth_l1_loss_unreduced(predictions, data.targets, selected, data.out, {}, policy);
          return 0;
        } else {
          return smooth_l1_loss_and_grad(predictions, data.targets, selected, data.out, {}, policy);
        }
      },
      plain, &smooth_l1_operands<float>::out);
}

template <plain_output O>
void register_selections() {
  register_output<O>(
      "all", 8 * size, [](const smooth_l1_operands<float>&) { return box_selection::all(); },
      [](smooth_l1_operands<float>& data) {
        return VECDET_PLAIN(plain_smooth_l1<O>)(data.predictions.data(), data.targets.data(),
                                                data.out.data(), 4 * boxes, 1.0f / 9);
      });
  register_output<O>(
      "labels", 2 * size,
      [](const smooth_l1_operands<float>& data) { return box_selection(data.labels); },
      [](smooth_l1_operands<float>& data) {
        return VECDET_PLAIN(plain_smooth_l1_labels<O>)(data.predictions.data(), data.targets.data(),
                                                       data.labels.data(), data.out.data(), boxes,
                                                       1.0f / 9);
      });
  register_output<O>(
      "list", 100 * 40,
      [](const smooth_l1_operands<float>& data) { return box_selection::list(data.foreground); },
      [](smooth_l1_operands<float>& data) {
        return VECDET_PLAIN(plain_smooth_l1_list<O>)(
            data.predictions.data(), data.targets.data(), data.foreground.data(),
            static_cast<index_t>(data.foreground.size()), data.out.data(), boxes, 1.0f / 9);
      });
}

const bool registered = [] {
  register_others();
  register_selections<plain_output::grad>();
  register_selections<plain_output::sum>();
  register_selections<plain_output::loss>();
  show_in_figures("smooth_l1_loss_and_grad/(all|labels)/f32/120087x4");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
