// SPDX-License-Identifier: Apache-2.0
// The optimiser and its learning-rate schedule.
#pragma once

#include "options.hpp"

#include <memory>
#include <utility>
#include <vector>

#include <torch/nn.h>
#include <torch/optim.h>

namespace detector {

/// With two parameter groups: weights that decay, and all others.
inline std::unique_ptr<torch::optim::Optimizer> make_optimiser(torch::nn::Module& model,
                                                               const optimisation& params) {
  std::vector<at::Tensor> weights, others;
  for (at::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) (parameter.dim() > 1 ? weights : others).push_back(parameter);
  const auto make = [&](auto options, auto optimiser_of) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (auto* group : {&weights, &others}) {
      auto own = std::make_unique<decltype(options)>(options);
      own->weight_decay(group == &weights ? params.weight_decay : 0);
      groups.emplace_back(*group, std::move(own));
    }
    return optimiser_of(std::move(groups), options);
  };
  if (params.optimiser == optimiser_kind::sgd)
    return make(torch::optim::SGDOptions(params.rate).momentum(params.momentum),
                [](auto groups, const auto& options) -> std::unique_ptr<torch::optim::Optimizer> {
                  return std::make_unique<torch::optim::SGD>(std::move(groups), options);
                });
  return make(torch::optim::AdamWOptions(params.rate),
              [](auto groups, const auto& options) -> std::unique_ptr<torch::optim::Optimizer> {
                return std::make_unique<torch::optim::AdamW>(std::move(groups), options);
              });
}

inline void set_rate(torch::optim::Optimizer& optimiser, double rate) {
  for (torch::optim::OptimizerParamGroup& group : optimiser.param_groups())
    group.options().set_lr(rate);
}

}  // namespace detector
