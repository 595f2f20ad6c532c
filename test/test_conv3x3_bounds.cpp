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

index_t width_of(conv3x3_tile tile) { return tile == f4x4 ? 4 : 2; }

/// The largest magnitude of each channel in each tile and the `border` around it: images x channels
/// x rows of tiles x columns of tiles.
template <class T>
std::vector<double> tile_sizes(const std::vector<T>& map, const conv_problem<T>& p,
                               index_t channels, index_t border) {
  const index_t t = width_of(p.tile);
  std::vector<double> sizes;
  for (index_t n = 0; n < p.images; ++n)
    for (index_t c = 0; c < channels; ++c)
      for (index_t y = 0; y < p.height; y += t)
        for (index_t x = 0; x < p.width; x += t) {
          double most = 0;
          for (index_t i = std::max(index_t{0}, y - border); i < std::min(p.height, y + t + border);
               ++i)
            for (index_t j = std::max(index_t{0}, x - border);
                 j < std::min(p.width, x + t + border); ++j) {
              const index_t at = ((n * channels + c) * p.height + i) * p.width + j;
              most =
                  std::max(most, std::abs(static_cast<double>(map[static_cast<std::size_t>(at)])));
            }
          sizes.push_back(most);
        }
  return sizes;
}

/// The largest errors, relative to M, of a problem without ReLU. Those of bfloat16 maps are errors
/// beyond the rounding of the exact result.
struct conv_errors {
  double output = 0, input_grad = 0, weight_grad = 0;
};

/// The part of a result that rounding it to T may add or remove.
template <class T>
constexpr double rounding = std::is_same<T, bfloat16>::value ? 0x1p-8 : 0;

template <class T>
conv_errors errors_of(const conv_problem<T>& p, const conv_results<double>& exact) {
  const auto actual = p.run();
  const index_t t = width_of(p.tile), columns = (p.width + t - 1) / t;
  const index_t tiles = (p.height + t - 1) / t * columns;
  const auto number = [](const auto& of, index_t i) {
    return std::abs(static_cast<double>(of[static_cast<std::size_t>(i)]));
  };
  std::vector<double> taps;  // outputs x inputs
  for (index_t pair = 0; pair < p.outputs * p.inputs; ++pair) {
    double most = 0;
    for (index_t tap = 0; tap < 9; ++tap) most = std::max(most, number(p.weights, pair * 9 + tap));
    taps.push_back(most);
  }
  conv_errors errors;
  const auto add = [](double& worst, double error, double size) {
    if (std::isnan(error)) worst = std::numeric_limits<double>::infinity();
    if (error > 0) worst = std::max(worst, error / size);
  };
  const auto off = [](const auto& a, const auto& b, index_t i) {
    const auto at = static_cast<std::size_t>(i);
    return std::abs(static_cast<double>(a[at]) - b[at]);
  };
  /// The largest error of a map, whose targets are sums over `summed` sources.
  const auto of_map = [&](const auto& a, const auto& b, const std::vector<double>& sources,
                          index_t targets, index_t summed, const auto& tap, const auto& shift) {
    double worst = 0;
    for (index_t n = 0; n < p.images; ++n)
      for (index_t k = 0; k < targets; ++k)
        for (index_t tile = 0; tile < tiles; ++tile) {
          double size = shift(k);
          for (index_t c = 0; c < summed; ++c)
            size += tap(k, c) * number(sources, (n * summed + c) * tiles + tile);
          const index_t top = tile / columns * t, left = tile % columns * t;
          for (index_t y = top; y < std::min(p.height, top + t); ++y)
            for (index_t x = left; x < std::min(p.width, left + t); ++x) {
              const index_t i = ((n * targets + k) * p.height + y) * p.width + x;
              add(worst, off(a, b, i) - rounding<T> * number(b, i), size);
            }
        }
    return worst;
  };
  const auto inputs = tile_sizes(p.input, p, p.inputs, 1);
  errors.output = of_map(
      actual.output, exact.output, inputs, p.outputs, p.inputs,
      [&](index_t k, index_t c) { return number(taps, k * p.inputs + c); },
      [&](index_t k) { return p.has_bias ? number(p.bias, k) : 0; });
  errors.input_grad = of_map(
      actual.input_grad, exact.input_grad, tile_sizes(p.upstream, p, p.outputs, 1), p.inputs,
      p.outputs, [&](index_t c, index_t k) { return number(taps, k * p.inputs + c); },
      [](index_t) { return 0.0; });
  const auto gradients = tile_sizes(p.upstream, p, p.outputs, 0);
  for (index_t k = 0; k < p.outputs; ++k)
    for (index_t c = 0; c < p.inputs; ++c) {
      double size = 0;
      for (index_t n = 0; n < p.images; ++n)
        for (index_t tile = 0; tile < tiles; ++tile)
          size += number(gradients, (n * p.outputs + k) * tiles + tile) *
                  number(inputs, (n * p.inputs + c) * tiles + tile);
      for (index_t tap = 0; tap < 9; ++tap)
        add(errors.weight_grad,
            off(actual.weight_grad, exact.weight_grad, (k * p.inputs + c) * 9 + tap), size);
    }
  return errors;
}

template <class T>
void check_bounds(const conv_problem<T>& p, const conv_errors& errors) {
  const index_t t = width_of(p.tile);
  const index_t tiles = p.images * ((p.height + t - 1) / t) * ((p.width + t - 1) / t);
  // The result that is rounded has the error in float already.
  CHECK(errors.output <= (1 + rounding<T>)*conv3x3_error_bound(p.tile, p.inputs));
  CHECK(errors.input_grad <= (1 + rounding<T>)*conv3x3_error_bound(p.tile, p.outputs));
  CHECK(errors.weight_grad <= conv3x3_weight_grad_error_bound(p.tile, tiles));
}

template <class T = float>
conv_problem<T> problem(index_t images, index_t inputs, index_t side, index_t outputs,
                        conv3x3_tile tile) {
  conv_problem<T> p;
  p.images = images;
  p.inputs = inputs;
  p.outputs = outputs;
  p.height = p.width = side;
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
          conv_problem<T> best = problem<T>(1, channels, width_of(tile) + 2, channels, tile);
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
            const conv_errors errors = errors_of(next, next.exact({}));
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
      for_each_isa([&](isa) { check_bounds(p, errors_of(p, exact)); });
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
      const auto exact = p.exact({});
      for_each_isa([&](isa) {
        const conv_errors errors = errors_of(p, exact);
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
