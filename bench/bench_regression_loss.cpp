// SPDX-License-Identifier: Apache-2.0
// The fused regression losses on RetinaNet's anchors at 800 x 800, labelled by a picture: about one
// in a thousand is foreground, so that labels and the gradient's zeros are what takes time.
#include "plain_regression_loss.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/regression_loss.hpp>

#include <memory>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

constexpr index_t box_count = 120087;

struct head {
  std::vector<float> anchors, deltas, truth, targets, grad;
  std::vector<index_t> matches, labels;
};

std::shared_ptr<head> make_head() {
  static std::weak_ptr<head> known;
  auto data = known.lock();
  if (data != nullptr) return data;
  data = std::make_shared<head>();
  data->anchors = retinanet_anchors();
  data->deltas = head_deltas<float>(box_count);
  data->truth = scene().boxes;
  const assignment assigned = assign(data->anchors, scene(), 91);
  data->matches = assigned.matches;
  data->labels = assigned.labels;
  data->targets = matched_boxes(data->matches, data->truth);
  data->grad.resize(data->deltas.size());
  known = data;
  return data;
}

void register_loss(box_loss loss, const char* variant, bool by_match) {
  constexpr double boxes = static_cast<double>(box_count);
  const std::string problem = std::string("regression_loss_and_grad/") + variant + "/f32/120087";
  const work amount{boxes, (16 + 8) * boxes};  // zeros and labels
  if (loss == box_loss::smooth_l1 && !by_match) {
    register_implementation(problem, "reference", 1, amount, [](benchmark::State& state) {
      const auto data = make_head();
      const boxes_view<const float> a(data->anchors), t(data->targets);
      std::vector<double> encoded(data->deltas.size()), grad(data->deltas.size());
      for (auto _ : state) {
        reference::for_each_box(encoded, [&](index_t i) {
          return data->labels[static_cast<std::size_t>(i)] < 0
                     ? reference::box{0, 0, 0, 0}
                     : reference::encode_box(reference::load_box(t, i), reference::load_box(a, i));
        });
        benchmark::DoNotOptimize(reference::smooth_l1_loss_foreground(
            matrix_view<const float>(data->deltas.data(), box_count, 4),
            matrix_view<const double>(encoded.data(), box_count, 4), data->labels, 1.0 / 9, 1,
            matrix_view<double>(grad.data(), box_count, 4)));
      }
    });
    register_implementation(problem, "plain", 1, amount, [](benchmark::State& state) {
      const auto data = make_head();
      for (auto _ : state) {
        benchmark::DoNotOptimize(plain_regression_loss(data->deltas.data(), data->anchors.data(),
                                                       data->targets.data(), data->labels.data(),
                                                       data->grad.data(), box_count, 1.0f / 9));
      }
    });
  }
  regression_loss_params params;
  params.loss = loss;
  register_vecdet(problem, amount, make_head, [=](head& data, execution policy) {
    const regression_targets<float> targets =
        by_match ? regression_targets<float>(data.truth, data.matches)
                 : regression_targets<float>(data.targets);
    benchmark::DoNotOptimize(regression_loss_and_grad(boxes_view<const float>(data.deltas),
                                                      data.anchors, targets, data.labels, data.grad,
                                                      params, policy));
  });
}

/// Deltas and gradient in bfloat16, boxes in float.
void register_mixed() {
  constexpr double boxes = static_cast<double>(box_count);
  struct mixed_head {
    std::shared_ptr<head> boxes;
    std::vector<bfloat16> deltas, grad;
  };
  const auto prepare = [] {
    static std::weak_ptr<mixed_head> known;
    auto data = known.lock();
    if (data != nullptr) return data;
    data = std::make_shared<mixed_head>();
    data->boxes = make_head();
    data->deltas = head_deltas<bfloat16>(box_count);
    data->grad.resize(data->deltas.size());
    known = data;
    return data;
  };
  register_vecdet("regression_loss_and_grad/float_smooth_l1/bf16/120087", {boxes, (8 + 8) * boxes},
                  prepare, [](mixed_head& data, execution policy) {
                    benchmark::DoNotOptimize(regression_loss_and_grad<float>(
                        boxes_view<const bfloat16>(data.deltas), data.boxes->anchors,
                        data.boxes->targets, data.boxes->labels, data.grad, {}, policy));
                  });
}

const bool registered = [] {
  register_loss(box_loss::smooth_l1, "smooth_l1", false);
  register_loss(box_loss::smooth_l1, "smooth_l1_matches", true);
  register_loss(box_loss::ciou, "ciou", false);
  register_mixed();
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
