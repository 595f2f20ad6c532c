// SPDX-License-Identifier: Apache-2.0
// Operands of 3x3 convolutions for benchmarks.
#pragma once

#include "../../test/support/conv_problem.hpp"
#include "../../test/support/grouped_conv_problem.hpp"
#include "scene.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace vecdet::bench {

using test::conv_shape, test::grouped_conv_shape;

/// Inputs as after a ReLU, weights with He's variance, and the results of the calls.
template <class Problem>
struct conv_operands : Problem, Problem::results {
  typename Problem::memory memory;

  explicit conv_operands(const typename Problem::shape& given) : Problem(given) {
    std::uint64_t seed = 0;
    this->make_with([&](auto& values, index_t size) {
      values =
          uniform_numbers<typename std::decay_t<decltype(values)>::value_type>(size, ++seed, 1);
    });
    for (auto& x : this->input)
      x = std::decay_t<decltype(x)>(std::max(static_cast<float>(x), 0.0f));
    const auto weights_of_output =
        static_cast<double>(this->weights.size()) / static_cast<double>(this->outputs);
    for (float& w : this->weights) w *= static_cast<float>(std::sqrt(6 / weights_of_output));
    static_cast<typename Problem::results&>(*this) = this->room();
  }

  void forward(threading on) { Problem::forward(*this, memory, on); }
  void backward_input(threading on) { Problem::backward_input(*this, memory, on); }
  void backward_weight(threading on) { Problem::backward_weight(*this, memory, on); }
};
/// Maps of T with weights of float. The calls include the transformation of the weights, as in
/// training.
template <class T = float>
using conv3x3_operands = conv_operands<test::conv_problem<T>>;
using grouped_conv_operands = conv_operands<test::grouped_conv_problem<>>;

}  // namespace vecdet::bench
