// SPDX-License-Identifier: Apache-2.0
// Trains a single-layer detection head with vecdet's losses on PyTorch tensors. A C++ trainer
// changes only the two lines with vecdet::ops.
#include <vecdet/torch.hpp>

#include <cstdio>

#include <ATen/ATen.h>

int main() {
  at::manual_seed(0);
  constexpr int anchors = 2000, channels = 64, classes = 20, foreground = 40;
  const at::Tensor features = at::randn({anchors, channels});
  const at::Tensor corners = at::rand({anchors, 2}) * 500;
  const at::Tensor boxes = at::cat({corners, corners + 50}, 1);
  const at::Tensor truth = boxes.slice(0, 0, foreground) + 5;  // the boxes of the first anchors
  // A matcher's result: a ground-truth index, or -1 for background.
  const at::Tensor matches =
      at::cat({at::arange(foreground), at::full({anchors - foreground}, -1, at::kLong)});
  const at::Tensor labels = at::where(matches >= 0, matches.remainder(classes), matches);
  features.select(1, 0).fill_(1);  // a bias
  for (int i = 0; i < foreground; ++i) features[i][1 + i % classes].fill_(8);
  at::Tensor classify = (at::randn({channels, classes}) * 0.01).requires_grad_();
  at::Tensor regress = (at::randn({channels, 4}) * 0.01).requires_grad_();

  for (int step = 0; step < 50; ++step) {
    const at::Tensor loss =
        vecdet::ops::sigmoid_focal_loss(features.mm(classify), labels, 0.25, 2, at::Reduction::Sum,
                                        1.0 / foreground) +
        vecdet::ops::regression_loss(features.mm(regress), boxes, truth, matches) / foreground;
    loss.backward();
    for (at::Tensor* weights : {&classify, &regress}) {
      const at::NoGradGuard no_grad;
      weights->sub_(weights->grad() * 0.05);
      weights->mutable_grad().reset();
    }
    if (step % 10 == 9) std::printf("step %2d  loss %.4f\n", step + 1, loss.item<double>());
  }
}
