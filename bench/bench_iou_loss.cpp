// SPDX-License-Identifier: Apache-2.0
// GIoU and CIoU losses with gradients of as many boxes as RetinaNet has anchors at 800 x 800.
#include "plain_iou_loss.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/iou_loss.hpp>
#include <vecdet/reference/iou_loss.hpp>

#include <memory>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

constexpr index_t box_count = 120087;

struct predictions {
  std::vector<float> predicted, targets, grad;
};

std::shared_ptr<predictions> make_predictions() {
  static std::weak_ptr<predictions> known;
  auto data = known.lock();
  if (data != nullptr) return data;
  data = std::make_shared<predictions>();
  data->targets = retinanet_anchors();
  data->predicted = predicted_boxes(data->targets);
  data->grad.resize(data->targets.size());
  known = data;
  return data;
}

template <class Loss>
void register_loss(const std::string& name, reference::iou_kind kind, const Loss& loss) {
  const std::string problem = name + "/boxes/f32/120087";
  constexpr double boxes = static_cast<double>(box_count);
  const work amount{boxes, 48 * boxes};
  register_implementation(problem, "reference", 1, amount, [kind](benchmark::State& state) {
    const auto data = make_predictions();
    const boxes_view<const float> p(data->predicted), t(data->targets);
    std::vector<double> grad(data->grad.size());
    for (auto _ : state) {
      double sum = 0;
      reference::for_each_box(grad, [&](index_t i) {
        const auto exact =
            reference::iou_loss(kind, reference::load_box(p, i), reference::load_box(t, i));
        sum += exact.loss;
        return exact.grad;
      });
      benchmark::DoNotOptimize(sum);
    }
  });
  const auto plain = kind == reference::iou_kind::giou ? plain_giou_loss : plain_ciou_loss;
  register_implementation(problem, "plain", 1, amount, [plain](benchmark::State& state) {
    const auto data = make_predictions();
    for (auto _ : state) {
      benchmark::DoNotOptimize(
          plain(data->predicted.data(), data->targets.data(), data->grad.data(), box_count));
    }
  });
  register_vecdet(problem, amount, make_predictions, loss);
}

const bool registered = [] {
  register_loss(
      "giou_loss_and_grad", reference::iou_kind::giou, [](predictions& data, execution policy) {
        benchmark::DoNotOptimize(giou_loss_and_grad(boxes_view<const float>(data.predicted),
                                                    data.targets, data.grad, {}, policy));
      });
  register_loss(
      "ciou_loss_and_grad", reference::iou_kind::ciou, [](predictions& data, execution policy) {
        benchmark::DoNotOptimize(ciou_loss_and_grad(boxes_view<const float>(data.predicted),
                                                    data.targets, data.grad, {}, policy));
      });
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
