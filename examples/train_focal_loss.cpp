// SPDX-License-Identifier: Apache-2.0
// A classification head trained with the focal loss. There are 20,000 anchors with 32 features
// each; one in a hundred belongs to one of 20 classes. Prints a falling loss, then where the time
// went.
#include <vecdet/profile.hpp>
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <random>
#include <vector>

namespace {

constexpr std::size_t anchors = 20000, features = 32, classes = 20;
constexpr int steps = 30;

/// logits = inputs * weights + bias, row by row.
void forward(const std::vector<float>& inputs, const std::vector<float>& weights,
             const std::vector<float>& bias, std::vector<float>& logits) {
  VECDET_PROFILE_SCOPE("head forward");
  for (std::size_t i = 0; i < anchors; ++i) {
    float* row = &logits[i * classes];
    std::copy(bias.begin(), bias.end(), row);
    for (std::size_t f = 0; f < features; ++f) {
      const float input = inputs[i * features + f];
      for (std::size_t c = 0; c < classes; ++c) row[c] += input * weights[f * classes + c];
    }
  }
}

/// One step of gradient descent.
void backward(const std::vector<float>& inputs, const std::vector<float>& grad, float rate,
              std::vector<float>& weights, std::vector<float>& bias) {
  VECDET_PROFILE_SCOPE("head backward");
  for (std::size_t i = 0; i < anchors; ++i) {
    const float* row = &grad[i * classes];
    for (std::size_t c = 0; c < classes; ++c) bias[c] -= rate * row[c];
    for (std::size_t f = 0; f < features; ++f) {
      const float step = rate * inputs[i * features + f];
      for (std::size_t c = 0; c < classes; ++c) weights[f * classes + c] -= step * row[c];
    }
  }
}

}  // namespace

int main() {
  // The anchors of a class cluster around a point of that class in feature space.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> centres(classes * features);
  for (float& x : centres) x = normal(random);
  std::vector<std::int64_t> labels(anchors, -1);
  std::vector<float> inputs(anchors * features);
  for (std::size_t i = 0; i < anchors; ++i) {
    if (i % 100 == 0) labels[i] = static_cast<std::int64_t>(i / 100 % classes);
    for (std::size_t f = 0; f < features; ++f) {
      const float centre =
          labels[i] < 0 ? 0 : centres[static_cast<std::size_t>(labels[i]) * features + f];
      inputs[i * features + f] = centre + 0.5f * normal(random);
    }
  }

  std::vector<float> weights(features * classes, 0.0f);
  std::vector<float> bias(classes, std::log(0.01f / 0.99f));  // RetinaNet's prior
  std::vector<float> logits(anchors * classes), grad(logits.size());

  vecdet::profile::enable();
  const vecdet::matrix_view<const float> x(logits.data(), anchors, classes);
  vecdet::focal_loss_params params;
  params.scale =
      1.0 / static_cast<double>(std::max<vecdet::index_t>(1, vecdet::count_foreground(labels)));

  std::cout << "focal loss on " << vecdet::isa_name(vecdet::active_isa()) << "\n";
  double first = 0, loss = 0;
  for (int step = 0; step < steps; ++step) {
    VECDET_PROFILE_SCOPE("step");
    forward(inputs, weights, bias, logits);
    loss = vecdet::sigmoid_focal_loss_and_grad(x, labels, {grad.data(), anchors, classes}, params);
    backward(inputs, grad, 0.5f, weights, bias);
    if (step == 0) first = loss;
    if (step % 5 == 0 || step == steps - 1) std::cout << "step " << step << ": " << loss << "\n";
  }
  std::cout << "\n";
  vecdet::profile::print(std::cout);
  return loss < 0.5 * first ? 0 : 1;  // it must have learnt
}
