// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <cmath>
#include <cstddef>
#include <sstream>
#include <utility>

#include <ATen/ATen.h>

namespace detector {
namespace {

namespace nn = torch::nn;

/// As torchvision begins the pyramid's.
nn::Conv2d make_pyramid_conv(std::int64_t inputs, std::int64_t outputs, std::int64_t size,
                             std::int64_t stride = 1) {
  nn::Conv2d conv(nn::Conv2dOptions(inputs, outputs, size).stride(stride).padding(size / 2));
  nn::init::kaiming_uniform_(conv->weight, 1);
  nn::init::zeros_(conv->bias);
  return conv;
}

/// As torchvision begins the heads'.
nn::Conv2d make_head_conv(std::int64_t inputs, std::int64_t outputs, bool has_bias, double bias) {
  nn::Conv2d conv(nn::Conv2dOptions(inputs, outputs, 3).padding(1).bias(has_bias));
  nn::init::normal_(conv->weight, 0, 0.01);
  if (has_bias) nn::init::constant_(conv->bias, bias);
  return conv;
}

}  // namespace

std::string model_config::text() const {
  std::ostringstream line;
  line << name_of(backbone) << ", " << name_of(norm) << " normalisation, " << channels
       << " channels, " << classes << " classes, anchors from " << anchor_size << " pixels";
  return line.str();
}

pyramid::pyramid(const std::vector<std::int64_t>& inputs, std::int64_t channels) {
  for (std::size_t l = 0; l < inputs.size(); ++l) {
    inner_.push_back(make_pyramid_conv(inputs[l], channels, 1));
    layer_.push_back(make_pyramid_conv(channels, channels, 3));
    register_module("inner_block" + std::to_string(l), inner_[l]);
    register_module("layer_block" + std::to_string(l), layer_[l]);
  }
  p6_ = register_module("p6", make_pyramid_conv(channels, channels, 3, 2));
  p7_ = register_module("p7", make_pyramid_conv(channels, channels, 3, 2));
}

std::vector<at::Tensor> pyramid::forward(const std::vector<at::Tensor>& stages) {
  std::vector<at::Tensor> levels(stages.size());
  at::Tensor above;
  for (std::size_t l = stages.size(); l-- > 0;) {
    at::Tensor x = inner_[l]->forward(stages[l]);
    if (above.defined()) x = x + at::upsample_nearest2d(above, {x.size(2), x.size(3)});
    levels[l] = layer_[l]->forward(x);
    above = x;
  }
  levels.push_back(p6_->forward(levels.back()));
  levels.push_back(p7_->forward(levels.back().relu()));
  return levels;
}

head::head(std::int64_t channels, std::int64_t outputs, norm_kind norm,
           const std::string& last_name, double last_bias) {
  conv_ = nn::Sequential();
  for (int i = 0; i < 4; ++i) {
    const bool is_normalised = norm == norm_kind::group;
    conv_->push_back(make_head_conv(channels, channels, !is_normalised, 0));
    if (is_normalised) conv_->push_back(make_norm(norm, channels));
    conv_->push_back(nn::ReLU(nn::ReLUOptions(true)));
  }
  register_module("conv", conv_);
  last_ = register_module(last_name, make_head_conv(channels, outputs, true, last_bias));
}

at::Tensor head::forward(at::Tensor x) { return last_->forward(conv_->forward(x)); }

retinanet::retinanet(const model_config& config) : config_(config) {
  backbone_ = register_module("body", std::make_shared<backbone>(config.backbone, config.norm));
  backbone_->freeze(config.frozen_stages);
  pyramid_ =
      register_module("fpn", std::make_shared<pyramid>(backbone_->channels(), config.channels));
  classification_ = register_module(
      "classification_head",
      std::make_shared<head>(config.channels, anchors_of_location * config.classes, config.norm,
                             "cls_logits", -std::log((1 - config.prior) / config.prior)));
  regression_ = register_module(
      "regression_head",
      std::make_shared<head>(config.channels, anchors_of_location * 4, config.norm, "bbox_reg", 0));
}

head_outputs retinanet::forward(const at::Tensor& images) {
  head_outputs outputs;
  for (const at::Tensor& level : pyramid_->forward(backbone_->forward(images))) {
    outputs.logits.push_back(run_head(*classification_, level));
    outputs.deltas.push_back(run_head(*regression_, level));
  }
  return outputs;
}

at::Tensor retinanet::run_head(head& of, const at::Tensor& level) {
  // ATen gives a convolution of one image to oneDNN only where its input has more elements.
  constexpr std::int64_t largest_slow = 20480;
  if (!doubles_small_levels || level.size(0) != 1 || level.numel() > largest_slow)
    return of.forward(level);
  return of.forward(at::cat({level, at::zeros_like(level)})).narrow(0, 0, 1);
}

std::vector<vecdet::anchor_shapes> retinanet::anchor_shapes() const {
  std::vector<vecdet::anchor_shapes> levels = vecdet::anchor_shapes::retinanet();
  for (vecdet::anchor_shapes& level : levels)
    for (double& size : level.sizes) size *= config_.anchor_size / 32;
  return levels;
}

void use_channels_last(retinanet& model) {
  for (at::Tensor& weight : model.parameters())
    if (weight.dim() == 4) weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace detector
