// SPDX-License-Identifier: Apache-2.0
// RetinaNet: Lin, Goyal, Girshick, He, Dollar, "Focal Loss for Dense Object Detection", arXiv
// 1708.02002, with torchvision's details and parameter names.
#pragma once

#include "backbone.hpp"
#include "options.hpp"
#include <vecdet/anchor_cache.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn.h>

namespace detector {

/// The heads' outputs for each level of the pyramid, in the layout that convolutions produce:
/// logits are images x (anchors x classes) x height x width, and deltas have 4 in place of classes.
struct head_outputs {
  std::vector<at::Tensor> logits, deltas;
};

/// The pyramid of levels 3 to 7: arXiv 1612.03144, and two levels above it.
class pyramid : public torch::nn::Module {
 public:
  pyramid(const std::vector<std::int64_t>& inputs, std::int64_t channels);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& stages, convolution_kind kind);

 private:
  std::vector<torch::nn::Conv2d> inner_, layer_;
  torch::nn::Conv2d p6_{nullptr}, p7_{nullptr};
};

/// Four convolutions, each with a normalisation, if any, and a ReLU, and a last one; all shared by
/// the levels.
class head : public torch::nn::Module {
 public:
  head(std::int64_t channels, std::int64_t outputs, norm_kind norm, const std::string& last_name,
       double last_bias);
  std::vector<at::Tensor> forward(std::vector<at::Tensor> levels, convolution_kind kind);

 private:
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::AnyModule> norms_;  ///< one for each of convs_, or none
  torch::nn::Conv2d last_{nullptr};
};

class retinanet : public torch::nn::Module {
 public:
  static constexpr std::int64_t anchors_of_location = 9;

  /// Weights are drawn from torch's generator: call at::manual_seed() before.
  explicit retinanet(const model_config& config);

  /// `images` are normalised, images x 3 x height x width.
  head_outputs forward(const at::Tensor& images);

  const model_config& config() const noexcept { return config_; }
  /// The anchor shapes of each level: sizes from 32 up and ratios as in RetinaNet, scaled by
  /// anchor_size.
  std::vector<vecdet::anchor_shapes> anchor_shapes() const;

  /// See backbone.
  void fold_normalisation(bool folds) { backbone_->fold_normalisation(folds); }

  /// Sets the library that computes the convolutions.
  void convolve_by(convolution_kind kind) {
    convolutions_ = kind;
    backbone_->convolve_by(kind);
  }

  /// With convolution_kind::torch and batches of one picture, adds a second picture of zeros on
  /// levels with few locations, so that their convolutions do not use ATen's plain loops.
  bool doubles_small_levels = true;

 private:
  std::vector<at::Tensor> run_head(head& of, const std::vector<at::Tensor>& levels);

  const model_config config_;
  convolution_kind convolutions_ = convolution_kind::vecdet;
  std::shared_ptr<backbone> backbone_;
  std::shared_ptr<pyramid> pyramid_;
  std::shared_ptr<head> classification_, regression_;
};

/// Converts the weights to channels last; convolutions then use this layout.
void use_channels_last(retinanet& model);

}  // namespace detector
