// SPDX-License-Identifier: Apache-2.0
// The error bounds of 3x3 convolution: they follow from the transforms' norms, and attacks do not
// break them. The gradient of the bias is exact where double is.
#include "support/conv_bounds.hpp"
#include "support/conv_problem.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto f4x4 = conv3x3_tile::f4x4, f2x2 = conv3x3_tile::f2x2;

/// Of a problem without ReLU.
template <class T>
conv_errors errors_of(const conv_problem<T>& p, const conv_results<double>& exact,
                      const conv_results<double>& sizes) {
  return conv3x3_errors(p.run(), exact, sizes);
}

template <class T>
void check_bounds(const conv_problem<T>& p, const conv_errors& errors) {
  const conv_errors bounds = conv3x3_bounds<T>(p, p.tiles());
  CHECK(errors.output <= bounds.output);
  CHECK(errors.input_grad <= bounds.input_grad);
  CHECK(errors.weight_grad <= bounds.weight_grad);
  CHECK(errors.bias_grad <= bounds.bias_grad);
}

template <class T = float>
conv_problem<T> problem(index_t images, index_t inputs, index_t side, index_t outputs,
                        conv3x3_tile tile) {
  conv_problem<T> p({images, inputs, side, side, outputs});
  p.tile = tile;
  return p;
}

/// Replaces a few numbers by others within [-1, 1].
template <class T>
void mutate(std::vector<T>& values, random_generator& random) {
  for (double count = std::exp2(random.uniform(0, 3)); count >= 1; --count) {
    T& value = values[static_cast<std::size_t>(random.uniform(0, 0.999999) *
                                               static_cast<double>(values.size()))];
    const double kind = random.uniform(0, 3), sign = random.uniform(-1, 1) < 0 ? -1 : 1;
    if (kind < 1)
      value = to<T>(sign);
    else if (kind < 2)
      value = to<T>(sign * (1 - std::exp2(random.uniform(-24, 0))));
    else
      value =
          to<T>(std::min(1.0, std::max(-1.0, static_cast<double>(value) *
                                                 (1 + sign * std::exp2(random.uniform(-23, -1))))));
  }
}

/// Changes signs and last digits as long as an error grows. Each result is attacked in turn.
/// `least` are the errors in 2^-23 M that every attack reaches with f4x4 and f2x2.
template <class T>
void attack(double least_f4x4, double least_f2x2) {
  double conv_errors::*const results[] = {&conv_errors::output, &conv_errors::input_grad,
                                          &conv_errors::weight_grad};
  for (const conv3x3_tile tile : {f4x4, f2x2})
    for (const index_t channels : {1, 2, 4})
      for (const auto result : results)
        for_each_isa([&](isa) {
          conv_problem<T> best = problem<T>(1, channels, (tile == f4x4 ? 6 : 4), channels, tile);
          best.has_bias = false;
          INFO(best.name());
          random_generator random(static_cast<std::uint64_t>(channels));
          best.make(1);
          const auto to_signs = [](auto& values) {
            for (auto& v : values) v = to<std::decay_t<decltype(v)>>(v < 0 ? -1 : 1);
          };
          to_signs(best.input);
          to_signs(best.weights);
          to_signs(best.upstream);
          double most = 0;
          for (int step = 0; step < (under_sanitizer ? 10 : 1000); ++step) {
            conv_problem<T> next = best;
            if (result != &conv_errors::input_grad) mutate(next.input, random);
            if (result != &conv_errors::output) mutate(next.upstream, random);
            if (result != &conv_errors::weight_grad) mutate(next.weights, random);
            const conv_errors errors = errors_of(next, next.exact({}), next.sizes({}));
            check_bounds(next, errors);
            if (errors.*result < most) continue;
            most = errors.*result;
            best = next;
          }
          if (!under_sanitizer) CHECK(most >= (tile == f4x4 ? least_f4x4 : least_f2x2) * 0x1p-23);
        });
}

}  // namespace

TEST_CASE("3x3 convolution: the error bounds hold under hill climbing") {
  attack<float>(30, 2);  // more than random signs
}

TEST_CASE("3x3 convolution of bfloat16: the error bounds hold under hill climbing") {
  attack<bfloat16>(12, 1);
}

TEST_CASE("3x3 convolution: the error bounds hold on adversarial data") {
  // Signs that make the transforms' sums as large as possible, very different magnitudes, and sums
  // that cancel.
  const index_t side = 9;
  for (int kind = 0; kind < 12; ++kind) {
    conv_problem<float> p =
        problem(1, kind < 6 ? 33 : 300, side, kind < 6 ? 17 : 3, conv3x3_tile::f4x4);
    p.make(static_cast<std::uint64_t>(10 + kind));
    random_generator random(static_cast<std::uint64_t>(kind));
    const auto adverse = [&](std::vector<float>& values, index_t period) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float sign = values[i] < 0 ? -1.0f : 1.0f;
        const bool odd = (static_cast<index_t>(i) / period + static_cast<index_t>(i)) % 2 != 0;
        switch (kind % 6) {
          case 0:
            values[i] = sign;
            break;
          case 1:
            values[i] = odd ? 1.0f : -1.0f;
            break;
          case 2:
            values[i] = 1;
            break;
          case 3:
            values[i] = sign * static_cast<float>(std::exp2(random.uniform(-20, 20)));
            break;
          case 4:
            values[i] = 1000 + values[i];
            break;
          default:
            values[i] = odd ? 1e6f : -1e6f + values[i];
            break;
        }
      }
    };
    adverse(p.input, side);
    adverse(p.weights, 3);
    adverse(p.upstream, side);
    const auto exact = p.exact({});
    for (const conv3x3_tile tile : {f4x4, f2x2}) {
      p.tile = tile;
      INFO(p.name(), ", data of kind ", kind);
      const auto sizes = p.sizes({});
      for_each_isa([&](isa) { check_bounds(p, errors_of(p, exact, sizes)); });
    }
  }
}

TEST_CASE("3x3 convolution: the error bounds hold on maps smaller than a tile") {
  // A tap that meets only the padding has a gradient of 0. Its error is relative to the products of
  // the other taps, although none of them is added to it.
  for (const index_t side : {1, 2, 3})
    for (const conv3x3_tile tile : {f4x4, f2x2}) {
      conv_problem<float> p = problem(1, 48, side, 48, tile);
      p.make(static_cast<std::uint64_t>(side));
      const auto exact = p.exact({}), sizes = p.sizes({});
      for_each_isa([&](isa) {
        const conv_errors errors = errors_of(p, exact, sizes);
        check_bounds(p, errors);
        // Far below the bound, as usual.
        CHECK(errors.weight_grad <= 32 * 0x1p-23);
      });
    }
}

TEST_CASE("3x3 convolution: the gradient of the bias is summed in double") {
  // Within a tile, in neighbouring tiles, and in different images.
  for (const index_t distance : {1, 4, 9, 81})
    for (const conv3x3_tile tile : {f4x4, f2x2}) {
      conv_problem<float> p = problem(3, 3, 9, 33, tile);
      p.make(1);
      std::fill(p.upstream.begin(), p.upstream.end(), 0.0f);
      const index_t area = 81, last = 32;
      const float summands[] = {1e8f, 1, -1e8f};
      for (index_t i = 0; i < 3; ++i) {
        const index_t at = i * distance, n = at / area;
        p.upstream[static_cast<std::size_t>((n * p.outputs + last) * area + at % area)] =
            summands[i];
      }
      for_each_isa([&](isa) {
        const auto found = p.run().bias_grad;
        CHECK(found[static_cast<std::size_t>(last)] == 1);
        CHECK(found[0] == 0);
      });
    }
}
