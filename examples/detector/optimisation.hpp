// SPDX-License-Identifier: Apache-2.0
// The optimiser and its learning-rate schedule.
#pragma once

#include "options.hpp"

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
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

/// The optimiser's tensors for each weight that it trains: AdamW's two moments, or SGD's momentum.
inline std::int64_t state_tensors(const optimisation& params) {
  if (params.optimiser == optimiser_kind::adamw) return 2;
  return params.momentum > 0 ? 1 : 0;
}

/// What an optimiser keeps for a weight. The key is the weight's address, which older versions
/// of libtorch write to a string.
template <class States>
torch::optim::OptimizerParamState& state_of(States& states, const at::Tensor& weight) {
  if constexpr (std::is_same<typename States::key_type, std::string>::value) {
    std::ostringstream key;
    key << weight.unsafeGetTensorImpl();
    return *states.at(key.str());
  } else {
    return *states.at(weight.unsafeGetTensorImpl());
  }
}

/// The weights that the optimiser trains, and its own tensors for them after the first step, always
/// in the same order.
inline std::vector<at::Tensor> trained_state(torch::optim::Optimizer& optimiser,
                                             const optimisation& params) {
  std::vector<at::Tensor> tensors;
  for (const torch::optim::OptimizerParamGroup& group : optimiser.param_groups())
    for (const at::Tensor& weight : group.params()) {
      tensors.push_back(weight);
      if (state_tensors(params) == 0) continue;
      torch::optim::OptimizerParamState& state = state_of(optimiser.state(), weight);
      if (params.optimiser == optimiser_kind::sgd) {
        tensors.push_back(static_cast<torch::optim::SGDParamState&>(state).momentum_buffer());
      } else {
        auto& moments = static_cast<torch::optim::AdamWParamState&>(state);
        tensors.push_back(moments.exp_avg());
        tensors.push_back(moments.exp_avg_sq());
      }
    }
  return tensors;
}

}  // namespace detector
