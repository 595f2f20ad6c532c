// SPDX-License-Identifier: Apache-2.0
// RetinaNet: Lin, Goyal, Girshick, He, Dollar, "Focal Loss for Dense Object Detection", arXiv
// 1708.02002, with the details and the names of parameters of torchvision's.
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

/// What the heads give, of each level of the pyramid, as their convolutions leave it:
/// images x (anchors x classes) x height x width, and with 4 numbers of a box in place of classes.
struct head_outputs {
  std::vector<at::Tensor> logits, deltas;
};

/// The pyramid of levels 3 to 7: arXiv 1612.03144, and two levels above it.
class pyramid : public torch::nn::Module {
 public:
  pyramid(const std::vector<std::int64_t>& inputs, std::int64_t channels);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& stages);

 private:
  std::vector<torch::nn::Conv2d> inner_, layer_;
  torch::nn::Conv2d p6_{nullptr}, p7_{nullptr};
};

/// Four convolutions and a last one, the same for all levels.
class head : public torch::nn::Module {
 public:
  head(std::int64_t channels, std::int64_t outputs, norm_kind norm, const std::string& last_name,
       double last_bias);
  at::Tensor forward(at::Tensor x);

 private:
  torch::nn::Sequential conv_{nullptr};
  torch::nn::Conv2d last_{nullptr};
};

class retinanet : public torch::nn::Module {
 public:
  static constexpr std::int64_t anchors_of_location = 9;

  /// With weights as torch's generator gives them: at::manual_seed() before.
  explicit retinanet(const model_config& config);

  /// `images` are normalised, images x 3 x height x width.
  head_outputs forward(const at::Tensor& images);

  const model_config& config() const noexcept { return config_; }
  /// Of each level, from 32 on: sizes and ratios as RetinaNet has them, scaled by anchor_size.
  std::vector<vecdet::anchor_shapes> anchor_shapes() const;

  /// See backbone.
  void fold_normalisation(bool folds) { backbone_->fold_normalisation(folds); }

  /// Keeps the convolutions of levels of few locations, for batches of one picture, off ATen's
  /// plain loops, by a second picture of zeros beside it.
  bool doubles_small_levels = true;

 private:
  at::Tensor run_head(head& of, const at::Tensor& level);

  const model_config config_;
  std::shared_ptr<backbone> backbone_;
  std::shared_ptr<pyramid> pyramid_;
  std::shared_ptr<head> classification_, regression_;
};

/// Convolutions compute on channels last where their weights lie so.
void use_channels_last(retinanet& model);

}  // namespace detector
