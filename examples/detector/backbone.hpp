// SPDX-License-Identifier: Apache-2.0
// ResNet (He, Zhang, Ren, Sun, arXiv 1512.03385) and ResNeXt (Xie et al., arXiv 1611.05431) without
// the classifier, with torchvision's details and parameter names.
#pragma once

#include "options.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn.h>

namespace detector {

/// Batch normalisation whose statistics are constants, like torchvision's FrozenBatchNorm2d.
class frozen_batch_norm : public torch::nn::Module {
 public:
  explicit frozen_batch_norm(std::int64_t channels);
  at::Tensor forward(const at::Tensor& x);
  /// The weights and bias of a convolution that is equivalent to one with these weights and no
  /// bias, followed by forward().
  std::pair<at::Tensor, at::Tensor> folded(const at::Tensor& weights) const;

 private:
  at::Tensor scale() const;
  at::Tensor shift() const;

  at::Tensor weight_, bias_, running_mean_, running_var_;
};

/// How convolutions are computed.
struct convolution_params {
  convolution_kind kind = convolution_kind::vecdet;
  bool folds_normalisation = true;  ///< whether they compute a frozen normalisation behind them
};

/// A normalisation in a sequence.
torch::nn::AnyModule make_norm(norm_kind kind, std::int64_t channels);

class backbone : public torch::nn::Module {
 public:
  backbone(backbone_kind kind, norm_kind norm);

  /// The maps of strides 8, 16 and 32.
  std::vector<at::Tensor> forward(at::Tensor x);
  /// The number of channels of these maps.
  const std::vector<std::int64_t>& channels() const noexcept { return channels_; }
  /// Whether the preceding convolution also computes frozen normalisation (the default), or a
  /// separate pass over its output does.
  void fold_normalisation(bool folds);
  void convolve_by(convolution_kind kind);
  /// Computes no gradient for the stem and the stages after it: `count` of the five in all.
  void freeze(std::int64_t count);

 private:
  torch::nn::Sequential make_stage(backbone_kind kind, norm_kind norm, std::int64_t width,
                                   std::int64_t blocks, std::int64_t stride);
  void share_params();

  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::AnyModule bn1_;
  std::vector<torch::nn::Sequential> stages_;
  std::vector<std::int64_t> channels_;
  std::int64_t inputs_ = 64;  ///< of the next stage
  convolution_params params_;
};

}  // namespace detector
