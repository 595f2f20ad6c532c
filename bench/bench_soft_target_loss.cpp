// SPDX-License-Identifier: Apache-2.0
// The losses of scored labels and their gradients on the head of a YOLO at 640 pixels: 8400 points
// with COCO's 80 classes.
#include "plain/soft_target_loss.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/soft_target_loss.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

struct head {
  index_t rows, cols;
  std::vector<index_t> labels;
  std::vector<float> scores, logits, grad;

  matrix_view<const float> x() const { return {logits.data(), rows, cols}; }
  matrix_view<float> g() { return {grad.data(), rows, cols}; }
  scored_labels targets() const { return {labels, scores}; }
};

/// Labels of anchors all over the scene, with scores from 0.3 to 0.9.
std::shared_ptr<head> make_head(index_t rows, index_t cols) {
  static std::shared_ptr<head> made;
  if (made != nullptr && made->rows == rows && made->cols == cols) return made;
  made = std::make_shared<head>();
  made->rows = rows;
  made->cols = cols;
  const auto all = assign(retinanet_anchors(), scene(), cols).labels;
  const std::size_t step = all.size() / static_cast<std::size_t>(rows);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
    made->labels.push_back(all[i * step]);
    made->scores.push_back(0.3f + 0.1f * static_cast<float>(i % 7));
  }
  made->logits = head_logits<float>(made->labels, cols);
  made->grad.resize(made->logits.size());
  return made;
}

template <class Call, class Plain>
void register_loss(const std::string& function, const Call& call, const Plain& plain) {
  const index_t rows = 8400, cols = 80;
  const double elements = static_cast<double>(rows * cols);
  const work amount{elements, 8 * elements + 12.0 * static_cast<double>(rows)};
  register_with_plain(
      function + "/labels/f32/" + std::to_string(rows) + "x" + std::to_string(cols), amount,
      [=] { return make_head(rows, cols); }, call,
      [=](head& data) {
        return plain(data.logits.data(), data.labels.data(), data.scores.data(), data.grad.data(),
                     data.rows, data.cols);
      },
      &head::grad);
}

const bool registered = [] {
  register_loss(
      "quality_focal_loss_and_grad",
      [](head& data, threading policy) {
        return quality_focal_loss_and_grad(data.x(), data.targets(), data.g(), {}, policy);
      },
      [](auto... a) { return VECDET_PLAIN(plain_quality_focal_loss)(a...); });
  register_loss(
      "varifocal_loss_and_grad",
      [](head& data, threading policy) {
        return varifocal_loss_and_grad(data.x(), data.targets(), data.g(), {}, policy);
      },
      [](auto... a) { return VECDET_PLAIN(plain_varifocal_loss)(a...); });
  register_loss(
      "bce_loss_and_grad",
      [](head& data, threading policy) {
        return bce_loss_and_grad(data.x(), data.targets(), data.g(), {}, policy);
      },
      [](auto... a) { return VECDET_PLAIN(plain_bce_loss)(a...); });
  show_in_figures("(quality_focal|varifocal|bce)_loss_and_grad/labels/f32/8400x80");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
