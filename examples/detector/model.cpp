// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include "convolution.hpp"

#include <cmath>
#include <cstddef>
#include <sstream>
#include <utility>

#include <ATen/ATen.h>

namespace detector {
namespace {

namespace nn = torch::nn;

/// Initialises a layer of the pyramid as in torchvision.
nn::Conv2d make_pyramid_conv(std::int64_t inputs, std::int64_t outputs, std::int64_t size,
                             std::int64_t stride = 1) {
  nn::Conv2d conv(nn::Conv2dOptions(inputs, outputs, size).stride(stride).padding(size / 2));
  nn::init::kaiming_uniform_(conv->weight, 1);
  nn::init::zeros_(conv->bias);
  return conv;
}

/// Initialises a layer of the heads as in torchvision.
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

std::vector<at::Tensor> pyramid::forward(const std::vector<at::Tensor>& stages,
                                         convolution_kind kind) {
  std::vector<at::Tensor> levels(stages.size());
  at::Tensor above;
  for (std::size_t l = stages.size(); l-- > 0;) {
    at::Tensor x = inner_[l]->forward(stages[l]);
    if (above.defined()) x = x + at::upsample_nearest2d(above, {x.size(2), x.size(3)});
    levels[l] = convolve(kind, x, *layer_[l]);
    above = x;
  }
  levels.push_back(p6_->forward(levels.back()));
  levels.push_back(p7_->forward(levels.back().relu()));
  return levels;
}

head::head(std::int64_t channels, std::int64_t outputs, norm_kind norm,
           const std::string& last_name, double last_bias) {
  // A sequence only for the names of its parameters, which are torchvision's.
  nn::Sequential sequence;
  for (int i = 0; i < 4; ++i) {
    const bool is_normalised = norm == norm_kind::group;
    convs_.push_back(make_head_conv(channels, channels, !is_normalised, 0));
    sequence->push_back(convs_.back());
    if (is_normalised) {
      norms_.push_back(make_norm(norm, channels));
      sequence->push_back(norms_.back());
    }
    sequence->push_back(nn::ReLU(nn::ReLUOptions(true)));
  }
  register_module("conv", sequence);
  last_ = register_module(last_name, make_head_conv(channels, outputs, true, last_bias));
}

std::vector<at::Tensor> head::forward(std::vector<at::Tensor> levels, convolution_kind kind) {
  const auto run = [&](const nn::Conv2d& conv, bool relu) {
    levels = convolve(kind, levels, *conv, conv->weight, conv->bias, relu);
  };
  for (std::size_t i = 0; i < convs_.size(); ++i) {
    run(convs_[i], norms_.empty());
    if (norms_.empty()) continue;
    for (at::Tensor& level : levels) level = norms_[i].forward(level).relu_();
  }
  run(last_, false);
  return levels;
}

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
  const std::vector<at::Tensor> levels =
      pyramid_->forward(backbone_->forward(images), convolutions_);
  return {run_head(*classification_, levels), run_head(*regression_, levels)};
}

std::vector<at::Tensor> retinanet::run_head(head& of, const std::vector<at::Tensor>& levels) {
  if (convolutions_ == convolution_kind::vecdet) return of.forward(levels, convolutions_);
  // ATen passes a convolution of one image to oneDNN only if its input has more elements.
  constexpr std::int64_t largest_slow = 20480;
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& level : levels) {
    const bool doubles =
        doubles_small_levels && level.size(0) == 1 && level.numel() <= largest_slow;
    const at::Tensor input = doubles ? at::cat({level, at::zeros_like(level)}) : level;
    const at::Tensor output = of.forward({input}, convolutions_)[0];
    outputs.push_back(doubles ? output.narrow(0, 0, 1) : output);
  }
  return outputs;
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
