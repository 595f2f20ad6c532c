// SPDX-License-Identifier: Apache-2.0
// oneDNN's 3x3 convolutions with padding 1, for comparison.
#pragma once

#include "../profile/primitives.hpp"
#include "time_calls.hpp"
#include <vecdet/views.hpp>

#include <exception>
#include <string>

#include <benchmark/benchmark.h>

namespace vecdet::bench {

struct onednn_conv3x3_sizes {
  index_t images, inputs, outputs, height, width;
  index_t groups = 1, stride = 1;
};

/// The convolution in the form of oneDNN's log.
inline profile::onednn_problem onednn_conv3x3(const onednn_conv3x3_sizes& s,
                                              const char* propagation, const char* algorithm) {
  const auto text = [](index_t number) { return std::to_string(number); };
  const auto axis = [&](const std::string& n, index_t size) {
    return "i" + n + text(size) + "o" + n + text((size + s.stride - 1) / s.stride) + "k" + n +
           "3s" + n + text(s.stride) + "d" + n + "0p" + n + "1";
  };
  profile::onednn_problem problem;
  problem.primitive = "convolution";
  problem.propagation = propagation;
  problem.auxiliary = std::string("alg:") + algorithm;
  problem.shapes = (s.groups > 1 ? "g" + text(s.groups) : "") + "mb" + text(s.images) + "_ic" +
                   text(s.inputs) + "oc" + text(s.outputs) + "_" + axis("h", s.height) + "_" +
                   axis("w", s.width);
  if (problem.propagation != "backward_data") {
    profile::onednn_tensor bias;
    bias.name = "bia";
    bias.type = "f32";
    bias.layout = "a";
    problem.tensors.push_back(bias);
  }
  return problem;
}

/// Times the primitive with the reorders that PyTorch runs around it.
inline void time_onednn(benchmark::State& state, const profile::onednn_problem& problem,
                        const profile::surroundings& around, int threads) {
  profile::set_primitive_threads(threads);
  try {
    const auto primitive = profile::make_convolution_within(problem, around);
    time_calls(state, [&] { primitive.run(); });
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
  profile::set_primitive_threads(0);
}

}  // namespace vecdet::bench
