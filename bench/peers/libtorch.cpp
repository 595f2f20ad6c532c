// SPDX-License-Identifier: Apache-2.0
#include "libtorch.hpp"

#include <tuple>

#include <torch/torch.h>

namespace vecdet::bench {
namespace {

/// A tensor on memory that PyTorch only reads.
torch::Tensor view(const float* data, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(data), shape);
}

}  // namespace

double libtorch_focal_loss(const float* logits, const std::int64_t* labels, std::int64_t rows,
                           std::int64_t cols) {
  at::set_num_threads(1);
  const torch::Tensor x = view(logits, {rows, cols}).detach().requires_grad_();
  const torch::Tensor label = torch::from_blob(const_cast<std::int64_t*>(labels), {rows, 1},
                                               torch::TensorOptions(torch::kInt64));
  // One extra column for the background, which is cut off.
  const torch::Tensor targets = torch::zeros({rows, cols + 1})
                                    .scatter_(1, torch::where(label < 0, cols, label), 1.0)
                                    .narrow(1, 0, cols);
  const torch::Tensor p = torch::sigmoid(x);
  const torch::Tensor cross_entropy =
      torch::binary_cross_entropy_with_logits(x, targets, {}, {}, at::Reduction::None);
  const torch::Tensor miss = 1 - (p * targets + (1 - p) * (1 - targets));
  const torch::Tensor alpha = 0.25 * targets + 0.75 * (1 - targets);
  const torch::Tensor loss = (alpha * cross_entropy * miss.pow(2)).sum();
  loss.backward();
  return loss.item<double>();
}

std::vector<std::int64_t> libtorch_nms(const float* boxes, const float* scores, std::int64_t count,
                                       double iou_threshold) {
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  const torch::Tensor order = std::get<1>(view(scores, {count}).sort(true, 0, true));
  const std::vector<torch::Tensor> c = view(boxes, {count, 4}).index_select(0, order).unbind(1);
  const torch::Tensor area = (c[2] - c[0]) * (c[3] - c[1]);
  const auto extent = [&](int low, int high) {
    return (torch::minimum(c[high].unsqueeze(1), c[high]) -
            torch::maximum(c[low].unsqueeze(1), c[low]))
        .clamp_min(0);
  };
  const torch::Tensor intersection = extent(0, 2) * extent(1, 3);
  const torch::Tensor overlaps =
      (intersection / (area.unsqueeze(1) + area - intersection)).gt(iou_threshold);
  const bool* const suppresses = overlaps.data_ptr<bool>();
  std::vector<bool> gone(static_cast<std::size_t>(count));
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < count; ++i) {
    if (gone[static_cast<std::size_t>(i)]) continue;
    kept.push_back(order[i].item<std::int64_t>());
    for (std::int64_t j = i + 1; j < count; ++j) {
      if (suppresses[i * count + j]) gone[static_cast<std::size_t>(j)] = true;
    }
  }
  return kept;
}

}  // namespace vecdet::bench
