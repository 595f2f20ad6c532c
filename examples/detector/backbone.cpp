// SPDX-License-Identifier: Apache-2.0
#include "backbone.hpp"

#include "convolution.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

namespace detector {
namespace {

namespace nn = torch::nn;

nn::Conv2d make_conv(std::int64_t inputs, std::int64_t outputs, std::int64_t size,
                     std::int64_t stride, std::int64_t groups = 1) {
  nn::Conv2d conv(nn::Conv2dOptions(inputs, outputs, size)
                      .stride(stride)
                      .padding(size / 2)
                      .groups(groups)
                      .bias(false));
  nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  return conv;
}

/// torchvision's name for the n-th part.
std::string numbered(const char* name, std::size_t n) { return name + std::to_string(n + 1); }

/// A convolution followed by its normalisation, and by a ReLU with `relu`. If the normalisation is
/// frozen, the convolution may compute both.
at::Tensor convolve_and_normalise(convolution_params params, const nn::Conv2dImpl& conv,
                                  nn::AnyModule& norm, const at::Tensor& x, bool relu) {
  const auto* const frozen =
      params.folds_normalisation ? norm.ptr()->as<frozen_batch_norm>() : nullptr;
  if (frozen == nullptr) {
    const at::Tensor normalised = norm.forward(convolve(params.kind, x, conv));
    return relu ? normalised.relu_() : normalised;
  }
  const auto [weight, bias] = frozen->folded(conv.weight);
  return convolve(params.kind, {x}, conv, weight, bias, relu)[0];
}

/// Convolutions and normalisations in sequence with a shortcut around them: two of 3x3, or 1x1, 3x3
/// and 1x1.
class residual_block : public nn::Module {
 public:
  /// @param downsample applied to the shortcut; if empty, the shortcut is the input
  residual_block(norm_kind norm, std::vector<nn::Conv2d> convs, nn::Conv2d downsample)
      : convs_(std::move(convs)), downsample_(std::move(downsample)) {
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      register_module(numbered("conv", i), convs_[i]);
      norms_.push_back(make_norm(norm, convs_[i]->options.out_channels()));
      register_module(numbered("bn", i), norms_[i].ptr());
    }
    if (downsample_.is_empty()) return;
    downsample_norm_ = make_norm(norm, downsample_->options.out_channels());
    nn::Sequential both(downsample_);
    both->push_back(downsample_norm_);
    register_module("downsample", both);
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      y = convolve_and_normalise(convolution, *convs_[i], norms_[i], y, i + 1 < convs_.size());
    }
    y += downsample_.is_empty()
             ? x
             : convolve_and_normalise(convolution, *downsample_, downsample_norm_, x, false);
    return y.relu_();
  }

  convolution_params convolution;

 private:
  std::vector<nn::Conv2d> convs_;
  std::vector<nn::AnyModule> norms_;
  nn::Conv2d downsample_;
  nn::AnyModule downsample_norm_;
};

}  // namespace

const char* name_of(backbone_kind kind) {
  switch (kind) {
    case backbone_kind::resnet18:
      return "resnet18";
    case backbone_kind::resnet50:
      return "resnet50";
    default:
      return "resnext50_32x4d";
  }
}

const char* name_of(norm_kind kind) { return kind == norm_kind::frozen ? "frozen" : "group"; }

frozen_batch_norm::frozen_batch_norm(std::int64_t channels)
    : weight_(register_buffer("weight", at::ones(channels))),
      bias_(register_buffer("bias", at::zeros(channels))),
      running_mean_(register_buffer("running_mean", at::zeros(channels))),
      running_var_(register_buffer("running_var", at::ones(channels))) {}

at::Tensor frozen_batch_norm::scale() const { return weight_ * (running_var_ + 1e-5).rsqrt(); }

at::Tensor frozen_batch_norm::shift() const { return bias_ - running_mean_ * scale(); }

at::Tensor frozen_batch_norm::forward(const at::Tensor& x) {
  return x * scale().reshape({1, -1, 1, 1}) + shift().reshape({1, -1, 1, 1});
}

std::pair<at::Tensor, at::Tensor> frozen_batch_norm::folded(const at::Tensor& weights) const {
  return {weights * scale().reshape({-1, 1, 1, 1}), shift()};
}

namespace {

/// Group normalisation (arXiv 1803.08494), computed in float even if the convolutions around it use
/// bfloat16.
class group_norm : public nn::Module {
 public:
  explicit group_norm(std::int64_t channels)
      : groups_(std::min<std::int64_t>(32, channels)),
        weight_(register_parameter("weight", at::ones(channels))),
        bias_(register_parameter("bias", at::zeros(channels))) {}

  at::Tensor forward(const at::Tensor& x) {
    return at::group_norm(x.to(at::kFloat), groups_, weight_, bias_);
  }

 private:
  std::int64_t groups_;
  at::Tensor weight_, bias_;
};

}  // namespace

nn::AnyModule make_norm(norm_kind kind, std::int64_t channels) {
  if (kind == norm_kind::frozen)
    return nn::AnyModule(std::make_shared<frozen_batch_norm>(channels));
  return nn::AnyModule(std::make_shared<group_norm>(channels));
}

backbone::backbone(backbone_kind kind, norm_kind norm) {
  conv1_ = register_module("conv1", make_conv(3, 64, 7, 2));
  bn1_ = make_norm(norm, 64);
  register_module("bn1", bn1_.ptr());
  const bool is_small = kind == backbone_kind::resnet18;
  const std::int64_t blocks_50[] = {3, 4, 6, 3};
  for (std::size_t s = 0; s < 4; ++s) {
    const std::int64_t width = std::int64_t{64} << s;
    stages_.push_back(make_stage(kind, norm, width, is_small ? 2 : blocks_50[s], s == 0 ? 1 : 2));
    register_module(numbered("layer", s), stages_.back());
    if (s > 0) channels_.push_back(inputs_);
  }
}

nn::Sequential backbone::make_stage(backbone_kind kind, norm_kind norm, std::int64_t width,
                                    std::int64_t blocks, std::int64_t stride) {
  nn::Sequential stage;
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::vector<nn::Conv2d> convs;
    std::int64_t outputs = width;
    if (kind == backbone_kind::resnet18) {
      convs = {make_conv(inputs_, width, 3, stride), make_conv(width, width, 3, 1)};
    } else {
      const bool has_groups = kind == backbone_kind::resnext50_32x4d;
      const std::int64_t inner = has_groups ? width * 2 : width;
      outputs = width * 4;
      convs = {make_conv(inputs_, inner, 1, 1),
               make_conv(inner, inner, 3, stride, has_groups ? 32 : 1),
               make_conv(inner, outputs, 1, 1)};
    }
    nn::Conv2d downsample{nullptr};
    if (stride != 1 || inputs_ != outputs) downsample = make_conv(inputs_, outputs, 1, stride);
    stage->push_back(std::make_shared<residual_block>(norm, convs, downsample));
    inputs_ = outputs;
    stride = 1;
  }
  return stage;
}

std::vector<at::Tensor> backbone::forward(at::Tensor x) {
  std::vector<at::Tensor> maps;
  x = convolve_and_normalise(params_, *conv1_, bn1_, x, true);
  x = at::max_pool2d(x, 3, 2, 1);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    x = stages_[s]->forward(x);
    if (s > 0) maps.push_back(x);
  }
  return maps;
}

void backbone::fold_normalisation(bool folds) {
  params_.folds_normalisation = folds;
  share_params();
}

void backbone::convolve_by(convolution_kind kind) {
  params_.kind = kind;
  share_params();
}

void backbone::share_params() {
  for (nn::Sequential& stage : stages_)
    for (nn::AnyModule& block : *stage) block.get<residual_block>().convolution = params_;
}

void backbone::freeze(std::int64_t count) {
  const auto stop = [](nn::Module& part) {
    for (at::Tensor& weight : part.parameters()) weight.set_requires_grad(false);
  };
  if (count > 0) {
    stop(*conv1_);
    stop(*bn1_.ptr());
  }
  for (std::size_t s = 0; s < stages_.size() && static_cast<std::int64_t>(s) + 1 < count; ++s)
    stop(*stages_[s]);
}

}  // namespace detector
