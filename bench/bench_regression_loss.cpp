// SPDX-License-Identifier: Apache-2.0
// The fused regression losses on RetinaNet's anchors at 800 x 800, labelled by a picture. About one
// in a thousand is foreground, so reading labels and writing zero gradients take most of the time.
#include "plain/regression_loss.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/regression_loss.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t box_count = 120087;

struct head {
  std::vector<float> anchors, deltas, truth, targets, grad;
  std::vector<float> all_targets;  ///< includes those of the background
  std::vector<index_t> matches, labels, foreground;
};

std::shared_ptr<head> make_head() {
  return shared_data([] {
    head data;
    data.anchors = retinanet_anchors();
    data.deltas = head_deltas<float>(box_count);
    data.truth = scene().boxes;
    const assignment assigned = assign(data.anchors, scene(), 91);
    data.matches = assigned.matches;
    data.labels = assigned.labels;
    data.targets = matched_boxes(data.matches, data.truth);
    data.foreground = foreground_indices(data.labels);
    data.all_targets = predicted_boxes(data.anchors);
    data.grad.resize(data.deltas.size());
    return data;
  });
}

constexpr double boxes = static_cast<double>(box_count);
constexpr float beta = 1.0f / 9;

void register_reference() {
  register_implementation(
      "regression_loss_and_grad/smooth_l1/f32/120087", "reference", 1, {boxes, (16 + 8) * boxes},
      [](benchmark::State& state) {
        const auto data = make_head();
        const boxes_view<const float> a(data->anchors), t(data->targets);
        std::vector<double> encoded(data->deltas.size()), grad(data->deltas.size());
        time_calls(state, [&] {
          reference::for_each_box(encoded, [&](index_t i) {
            return data->labels[static_cast<std::size_t>(i)] < 0
                       ? reference::box{0, 0, 0, 0}
                       : reference::encode_box(reference::load_box(t, i),
                                               reference::load_box(a, i));
          });
          benchmark::DoNotOptimize(reference::smooth_l1_loss_foreground(
              matrix_view<const float>(data->deltas.data(), box_count, 4),
              matrix_view<const double>(encoded.data(), box_count, 4), data->labels, 1.0 / 9, 1,
              matrix_view<double>(grad.data(), box_count, 4)));
        });
      });
}

/// The loss with or without its gradient, for the boxes and targets in `given(data)`, next to a
/// plain loop. It reads `bytes`.
template <plain_output O, class Given, class Plain>
void register_call(box_loss loss, const std::string& variant, double bytes, const Given& given,
                   const Plain& plain) {
  regression_loss_params params;
  params.loss = loss;
  constexpr bool with_grad = O == plain_output::grad;
  register_with_plain(
      (with_grad ? "regression_loss_and_grad/" : "regression_loss/") + variant + "/f32/120087",
      {boxes, bytes + (with_grad ? 16 * boxes : 0)}, make_head,
      [=](head& data, threading policy) {
        const std::pair<regression_targets<float>, box_selection> of = given(data);
        const boxes_view<const float> deltas(data.deltas);
        return with_grad
                   ? regression_loss_and_grad(deltas, data.anchors, of.first, of.second, data.grad,
                                              params, policy)
                   : regression_loss(deltas, data.anchors, of.first, of.second, params, policy);
      },
      plain, &head::grad);
}

template <plain_loss L, plain_output O>
void register_output(box_loss loss, const std::string& name) {
  using of = std::pair<regression_targets<float>, box_selection>;
  register_call<O>(
      loss, name, 8 * boxes, [](head& data) { return of(data.targets, data.labels); },
      [](head& data) {
        return VECDET_PLAIN(plain_regression_loss<L, O>)(data.deltas.data(), data.anchors.data(),
                                                         data.targets.data(), data.labels.data(),
                                                         data.grad.data(), box_count, beta);
      });
  register_call<O>(
      loss, name + "_matches", 8 * boxes,
      [](head& data) {
        return of(regression_targets<float>(data.truth, data.matches), data.labels);
      },
      [](head& data) {
        return VECDET_PLAIN(plain_regression_loss_matches<L, O>)(
            data.deltas.data(), data.anchors.data(), data.truth.data(), data.matches.data(),
            data.labels.data(), data.grad.data(), box_count, beta);
      });
  register_call<O>(
      loss, name + "_list", 100 * 56,
      [](head& data) { return of(data.targets, box_selection::list(data.foreground)); },
      [](head& data) {
        return VECDET_PLAIN(plain_regression_loss_list<L, O>)(
            data.deltas.data(), data.anchors.data(), data.targets.data(), data.foreground.data(),
            static_cast<index_t>(data.foreground.size()), data.grad.data(), box_count, beta);
      });
  register_call<O>(
      loss, name + "_all", 48 * boxes,
      [](head& data) { return of(data.all_targets, box_selection::all()); },
      [](head& data) {
        return VECDET_PLAIN(plain_regression_loss_all<L, O>)(
            data.deltas.data(), data.anchors.data(), data.all_targets.data(), data.grad.data(),
            box_count, beta);
      });
}

template <plain_loss L>
void register_loss(box_loss loss, const std::string& name) {
  register_output<L, plain_output::grad>(loss, name);
  register_output<L, plain_output::sum>(loss, name);
}

/// Deltas and gradient in bfloat16, boxes in float.
void register_mixed() {
  struct mixed_head {
    std::shared_ptr<head> boxes;
    std::vector<bfloat16> deltas, grad;
  };
  const auto prepare = [] {
    return shared_data([] {
      mixed_head data;
      data.boxes = make_head();
      data.deltas = head_deltas<bfloat16>(box_count);
      data.grad.resize(data.deltas.size());
      return data;
    });
  };
  register_vecdet("regression_loss_and_grad/float_smooth_l1/bf16/120087", {boxes, (8 + 8) * boxes},
                  prepare, [](mixed_head& data, threading policy) {
                    return regression_loss_and_grad(boxes_view<const bfloat16>(data.deltas),
                                                    data.boxes->anchors, data.boxes->targets,
                                                    data.boxes->labels, data.grad, {}, policy);
                  });
}

const bool registered = [] {
  register_reference();
  register_loss<plain_loss::smooth_l1>(box_loss::smooth_l1, "smooth_l1");
  register_loss<plain_loss::giou>(box_loss::giou, "giou");
  register_loss<plain_loss::diou>(box_loss::diou, "diou");
  register_loss<plain_loss::ciou>(box_loss::ciou, "ciou");
  register_mixed();
  show_in_figures("regression_loss_and_grad/smooth_l1/f32/120087");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
