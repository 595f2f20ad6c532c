// SPDX-License-Identifier: Apache-2.0
// The smallest user of vecdet::torch: a focal loss and its gradient against the formula in torch's
// own operators, matching, and an error.
#include <vecdet/torch.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>

#include <ATen/ATen.h>

namespace ops = vecdet::ops;

int main() {
  at::manual_seed(0);
  const at::Tensor logits = at::randn({1000, 20}).requires_grad_();
  const at::Tensor same = logits.detach().requires_grad_();
  const at::Tensor corner = at::rand({1000, 2}) * 90;
  const at::Tensor anchors = at::cat({corner, corner + 10}, 1);
  const at::Tensor labels =
      std::get<1>(ops::match_anchors(anchors, anchors.slice(0, 0, 3) + 1, at::arange(3) + 5));

  const at::Tensor loss = ops::sigmoid_focal_loss(logits, labels, 0.25, 2, at::Reduction::Sum);
  const at::Tensor targets = (labels.unsqueeze(1) == at::arange(20)).to(at::kFloat);
  const at::Tensor p = same.sigmoid(), p_t = p * targets + (1 - p) * (1 - targets);
  const at::Tensor each = -(p_t.log()) * (1 - p_t).square() * (targets * -0.5 + 0.75);
  const at::Tensor expected = (each * (labels != -2).unsqueeze(1).to(at::kFloat)).sum();
  loss.backward();
  expected.backward();
  bool right =
      at::allclose(loss, expected, 1e-4) && at::allclose(logits.grad(), same.grad(), 1e-3, 1e-5);
  try {
    ops::sigmoid_focal_loss(logits, labels, 0.25, -1);
    right = false;
  } catch (const c10::Error& error) {
    right = right && std::string(error.what()).find("params.gamma is -1") != std::string::npos;
  }
  std::printf("%g, expected %g\n", loss.item<double>(), expected.item<double>());
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
