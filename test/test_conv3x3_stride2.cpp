// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution with stride 2 by minimal filtering, and its gradients, against the reference
// within the documented error bounds: channels, sizes around tiles, layouts, instruction sets,
// threads; attacks on the bounds; NaN and infinity; the rule that chooses it.
#include "support/grouped_problem.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;

grouped_problem problem_of(index_t images, index_t inputs, index_t outputs, index_t height,
                           index_t width, std::uint64_t seed) {
  grouped_problem p{images, height, width, 1, inputs, outputs, 2};
  p.make(seed);
  return p;
}

bool is_filtered(const grouped_problem& p) {
  return detail::is_filtered_stride2(p.params(), p.inputs(), p.outputs(),
                                     p.images * p.output_height() * p.output_width());
}

index_t tiles_along(index_t outputs) { return (outputs + 3) / 4; }

/// The largest magnitude of each channel among the locations that each tile reads: `step` apart,
/// `reach` of them from `before` locations before its own on. Images x channels x tiles.
std::vector<double> tile_sizes(const std::vector<float>& map, const grouped_problem& p,
                               const feature_view<const float>& like, index_t step, index_t reach,
                               index_t before) {
  std::vector<double> sizes;
  for (index_t plane = 0; plane < like.images() * like.channels(); ++plane)
    for (index_t r = 0; r < tiles_along(p.output_height()); ++r)
      for (index_t c = 0; c < tiles_along(p.output_width()); ++c) {
        double most = 0;
        const index_t top = r * step - before, left = c * step - before;
        for (index_t y = std::max(index_t{0}, top); y < std::min(like.height(), top + reach); ++y)
          for (index_t x = std::max(index_t{0}, left); x < std::min(like.width(), left + reach);
               ++x) {
            const index_t at = (plane * like.height() + y) * like.width() + x;
            most = std::max(most, std::abs(static_cast<double>(map[static_cast<std::size_t>(at)])));
          }
        sizes.push_back(most);
      }
  return sizes;
}

/// The largest errors, relative to the documented M.
struct filtering_errors {
  double output = 0, input_grad = 0, weight_grad = 0, bias_grad = 0;
};

filtering_errors errors_of(const grouped_problem& p, const conv_results<float>& actual) {
  const auto exact = p.exact();
  const auto x = p.in(p.input.data(), nchw), gy = p.out(p.upstream.data(), nchw);
  const index_t inputs = p.inputs(), outputs = p.outputs();
  const index_t columns = tiles_along(p.output_width());
  const index_t tiles = tiles_along(p.output_height()) * columns;
  const auto at = [](const auto& values, index_t i) {
    return static_cast<double>(values[static_cast<std::size_t>(i)]);
  };
  std::vector<double> taps;
  for (index_t pair = 0; pair < outputs * inputs; ++pair) {
    double most = 0;
    for (index_t tap = 0; tap < 9; ++tap)
      most = std::max(most, std::abs(at(p.weights, pair * 9 + tap)));
    taps.push_back(most);
  }
  const auto add = [&](double& worst, const auto& a, const auto& b, index_t i, double size) {
    const double error = std::abs(at(a, i) - at(b, i));
    if (!(error <= worst * size)) worst = size > 0 ? error / size : error == 0 ? worst : 1e9;
  };
  const auto of_map = [&](double& worst, const auto& a, const auto& b,
                          const feature_view<const float>& like, index_t tile,
                          const auto& size_of) {
    for (index_t i = 0; i < like.size(); ++i) {
      const index_t column = i % like.width() / tile, row = i / like.width() % like.height() / tile;
      const index_t plane = i / like.width() / like.height();
      add(worst, a, b, i,
          size_of(plane / like.channels(), plane % like.channels(), row * columns + column));
    }
  };
  const auto read = tile_sizes(p.input, p, x, 8, 9, 1);
  const auto arriving = tile_sizes(p.upstream, p, gy, 4, 5, 0);
  const auto own = tile_sizes(p.upstream, p, gy, 4, 4, 0);
  std::vector<double> output_sizes, input_sizes;
  for (index_t n = 0; n < p.images; ++n) {
    for (index_t k = 0; k < outputs; ++k)
      for (index_t t = 0; t < tiles; ++t) {
        double size = p.has_bias ? std::abs(at(p.bias, k)) : 0;
        for (index_t c = 0; c < inputs; ++c)
          size += at(taps, k * inputs + c) * at(read, (n * inputs + c) * tiles + t);
        output_sizes.push_back(size);
      }
    for (index_t c = 0; c < inputs; ++c)
      for (index_t t = 0; t < tiles; ++t) {
        double size = 0;
        for (index_t k = 0; k < outputs; ++k)
          size += at(taps, k * inputs + c) * at(arriving, (n * outputs + k) * tiles + t);
        input_sizes.push_back(size);
      }
  }
  filtering_errors e;
  of_map(e.output, actual.output, exact.output, gy, 4, [&](index_t n, index_t k, index_t t) {
    return at(output_sizes, (n * outputs + k) * tiles + t);
  });
  of_map(e.input_grad, actual.input_grad, exact.input_grad, x, 8,
         [&](index_t n, index_t c, index_t t) {
           return at(input_sizes, (n * inputs + c) * tiles + t);
         });
  for (index_t k = 0; k < outputs; ++k) {
    double all = 0;
    for (index_t n = 0; n < p.images; ++n)
      for (index_t i = 0; i < p.output_height() * p.output_width(); ++i)
        all +=
            std::abs(at(p.upstream, (n * outputs + k) * p.output_height() * p.output_width() + i));
    if (p.has_bias) add(e.bias_grad, actual.bias_grad, exact.bias_grad, k, all);
    for (index_t c = 0; c < inputs; ++c) {
      double size = 0;
      for (index_t n = 0; n < p.images; ++n)
        for (index_t t = 0; t < tiles; ++t)
          size += at(own, (n * outputs + k) * tiles + t) * at(read, (n * inputs + c) * tiles + t);
      for (index_t tap = 0; tap < 9; ++tap)
        add(e.weight_grad, actual.weight_grad, exact.weight_grad, (k * inputs + c) * 9 + tap, size);
    }
  }
  return e;
}

void check_bounds(const grouped_problem& p, const filtering_errors& e) {
  const index_t tiles = p.images * tiles_along(p.output_height()) * tiles_along(p.output_width());
  const auto bound = [](double factor, index_t terms, int more) {
    return factor * static_cast<double>(terms + more) * 0x1p-23;
  };
  CHECK(e.output <= bound(804, p.inputs(), 4));
  CHECK(e.input_grad <= bound(202, p.outputs(), 12));
  CHECK(e.weight_grad <= bound(1165, tiles, 5));
  CHECK(e.bias_grad <= 0x1p-23);
}

/// Every instruction set against the exact results, and AVX-512 bit by bit against AVX2.
void check_problem(const grouped_problem& p) {
  INFO(p.name());
  REQUIRE(is_filtered(p));
  conv_results<float> wide;
  bool has_wide = false;
  for_each_isa([&](isa set) {
    const auto actual = p.run();
    check_bounds(p, errors_of(p, actual));
    if (set == isa::baseline) return;
    if (has_wide) CHECK(same_bits(actual, wide));
    wide = actual;
    has_wide = true;
  });
}

}  // namespace

TEST_CASE("3x3 convolution with stride 2: channels") {
  std::uint64_t seed = 0;
  for (const auto& [inputs, outputs] : std::vector<std::pair<index_t, index_t>>{
           {16, 16}, {17, 33}, {31, 16}, {64, 70}, {16, 300}, {300, 16}, {530, 17}}) {
    grouped_problem p = problem_of(1, inputs, outputs, 51, 55, ++seed);
    p.input_layout = seed % 2 == 0 ? nhwc : nchw;
    p.output_layout = seed % 4 < 2 ? nhwc : nchw;
    p.weight_layout = seed % 3 == 0 ? nhwc : nchw;
    check_problem(p);
  }
}

TEST_CASE("3x3 convolution with stride 2: heights and widths around tiles") {
  std::uint64_t seed = 100;
  for (index_t width = 1; width <= 34; width += under_sanitizer ? 11 : 1) {
    const index_t height = 1 + 7 * width % 18, columns = (width + 1) / 2, rows = (height + 1) / 2;
    grouped_problem p =
        problem_of((400 + rows * columns - 1) / (rows * columns), 16, 18, height, width, ++seed);
    p.has_bias = width % 3 != 0;
    p.make(seed);
    p.input_layout = p.output_layout = width % 2 == 0 ? nhwc : nchw;
    check_problem(p);
  }
  for (const auto& [height, width] :
       std::vector<std::pair<index_t, index_t>>{{1, 1300}, {1300, 2}, {7, 400}})
    check_problem(problem_of(1, 16, 16, height, width, ++seed));
}

TEST_CASE("3x3 convolution with stride 2: all layouts give the same bits") {
  grouped_problem p = problem_of(2, 19, 35, 41, 43, 7);
  REQUIRE(is_filtered(p));
  for_each_isa([&](isa) {
    p.input_layout = p.output_layout = p.weight_layout = nchw;
    const auto expected = p.run();
    for (const feature_layout input : {nchw, nhwc})
      for (const feature_layout output : {nchw, nhwc})
        for (const feature_layout weights : {nchw, nhwc}) {
          p.input_layout = input;
          p.output_layout = output;
          p.weight_layout = weights;
          CHECK(same_bits(p.run(), expected));
        }
  });
}

TEST_CASE("3x3 convolution with stride 2: the same bits on any number of threads") {
  for (const auto& [inputs, outputs, side] : std::vector<std::array<index_t, 3>>{
           {16, 16, 51}, {40, 70, 97}, {300, 64, 52}, {20, 290, 60}}) {
    grouped_problem p = problem_of(1, inputs, outputs, side, side + 3, 8);
    REQUIRE(is_filtered(p));
    const auto expected = p.run();
    p.policy = threading::parallel;
    for (const int threads : {1, 2, 3, 7}) {
      tbb::task_arena arena(threads);
      arena.execute([&] { CHECK(same_bits(p.run(), expected)); });
    }
    const auto backwards = [](index_t count, const task& work) {
      for (index_t i = count; i-- > 0;) work(i);
    };
    for (const int threads : {5, 28, 128}) {
      p.policy = threading::on(backwards, threads);
      CHECK(same_bits(p.run(), expected));
    }
  }
}

TEST_CASE("3x3 convolution with stride 2: attacks do not break the error bounds") {
  // Hill climbing on the signs and sizes of the first tile's numbers, for each result on its own.
  // Other numbers are zeros, so that sums are short and errors are large relative to M.
  struct attacked {
    const char* name;
    double filtering_errors::*error;
    double least;
  };
  for (const attacked& result : {attacked{"output", &filtering_errors::output, 30},
                                 attacked{"input gradient", &filtering_errors::input_grad, 20},
                                 attacked{"weight gradient", &filtering_errors::weight_grad, 40}}) {
    CAPTURE(result.name);
    random_generator random(11);
    grouped_problem p = problem_of(1, 16, 16, 40, 40, 9);
    REQUIRE(is_filtered(p));
    const auto keep = [](std::vector<float>& values, index_t side, index_t last) {
      for (index_t i = 0; i < static_cast<index_t>(values.size()); ++i)
        if (i >= side * side || i % side > last || i / side > last)
          values[static_cast<std::size_t>(i)] = 0;
    };
    keep(p.input, 40, 7);
    keep(p.upstream, 20, result.error == &filtering_errors::weight_grad ? 3 : 4);
    keep(p.weights, 3, 2);
    std::fill(p.bias.begin(), p.bias.end(), 0.0f);
    double worst = errors_of(p, p.run()).*result.error;
    const auto change = [&](std::vector<float>& values) {
      std::vector<float*> used;
      for (float& v : values)
        if (v != 0) used.push_back(&v);
      float& v = *used[static_cast<std::size_t>(random.below(static_cast<index_t>(used.size())))];
      const float size = 1 - static_cast<float>(random.below(64)) * 0x1p-24f;
      v = random.chance(0.5) ? size : -size;
    };
    for (int step = 0; step < (under_sanitizer ? 10 : 150); ++step) {
      grouped_problem q = p;
      for (int n = 0; n < (step == 0 ? 400 : 1 + static_cast<int>(random.below(3))); ++n) {
        if (result.error != &filtering_errors::input_grad) change(q.input);
        if (result.error != &filtering_errors::output) change(q.upstream);
        if (result.error != &filtering_errors::weight_grad) change(q.weights);
      }
      const double error = errors_of(q, q.run()).*result.error;
      if (step > 0 && !(error > worst)) continue;
      worst = error;
      p = q;
    }
    check_bounds(p, errors_of(p, p.run()));
    if (!under_sanitizer) CHECK(worst >= result.least * 0x1p-23);
  }
}

TEST_CASE("3x3 convolution with stride 2: NaN and infinity stay in the documented results") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const index_t at : {0, 7, 8, 15, 23, 52}) {
    grouped_problem p = problem_of(1, 17, 20, 53, 54, 9);
    REQUIRE(is_filtered(p));
    p.input_layout = at % 2 == 0 ? nhwc : nchw;
    const index_t at_y = at, at_x = 53 - at, input = 3, output = 18;
    const float special = at % 3 == 0 ? nan : infinity;
    for_each_isa([&](isa) {
      const auto before = p.run();
      /// Results that must() names are not finite; those that may() does not name stay.
      const auto check = [](const std::vector<float>& was, const std::vector<float>& is,
                            const feature_view<const float>& like, const auto& must,
                            const auto& may) {
        index_t wrong = 0;
        for (index_t i = 0; i < like.size(); ++i) {
          const index_t x = i % like.width(), y = i / like.width() % like.height();
          const index_t c = i / like.width() / like.height() % like.channels();
          const index_t n = i / like.width() / like.height() / like.channels();
          const auto k = static_cast<std::size_t>(i);
          if (must(n, c, y, x) && std::isfinite(is[k])) ++wrong;
          if (!may(n, c, y, x) && !same_bits(&was[k], &is[k], 1)) ++wrong;
        }
        CHECK(wrong == 0);
      };
      const auto reads = [](index_t of, index_t source) { return std::abs(2 * of - source) <= 1; };
      const auto tile_reads = [](index_t of, index_t source) {
        const index_t first = of / 4 * 8 - 1;
        return source >= first && source < first + 9;
      };
      grouped_problem q = p;
      q.input[static_cast<std::size_t>((input * p.height + at_y) * p.width + at_x)] = special;
      auto after = q.run();
      check(
          before.output, after.output, p.out(p.upstream.data(), nchw),
          [&](index_t, index_t, index_t y, index_t x) { return reads(y, at_y) && reads(x, at_x); },
          [&](index_t, index_t, index_t y, index_t x) {
            return tile_reads(y, at_y) && tile_reads(x, at_x);
          });
      CHECK(same_bits(after.input_grad, before.input_grad));
      const auto has_tap = [](index_t tap, index_t source) { return (source + tap) % 2 == 1; };
      check(
          before.weight_grad, after.weight_grad, p.kernel(p.weights.data(), nchw),
          [&](index_t, index_t c, index_t i, index_t j) {
            const auto has_output = [](index_t tap, index_t source, index_t outputs) {
              const index_t of = source + 1 - tap;
              return of >= 0 && of % 2 == 0 && of / 2 < outputs;
            };
            return c == input && has_output(i, at_y, p.output_height()) &&
                   has_output(j, at_x, p.output_width());
          },
          [&](index_t, index_t c, index_t i, index_t j) {
            return c == input && has_tap(i, at_y) && has_tap(j, at_x);
          });
      CHECK(same_bits(after.bias_grad, before.bias_grad));
      q = p;
      const index_t y = at_y / 2, x = at_x / 2;
      q.upstream[static_cast<std::size_t>((output * p.output_height() + y) * p.output_width() +
                                          x)] = special;
      after = q.run();
      check(
          before.input_grad, after.input_grad, p.in(p.input.data(), nchw),
          [&](index_t, index_t, index_t row, index_t column) {
            return reads(y, row) && reads(x, column);
          },
          [&](index_t, index_t, index_t row, index_t column) {
            const auto tile = [](index_t source, index_t of) {
              const index_t first = source / 8 * 4;
              return of >= first && of < first + 5;
            };
            return tile(row, y) && tile(column, x);
          });
      const auto of_channel = [&](index_t k, index_t, index_t, index_t) { return k == output; };
      check(before.weight_grad, after.weight_grad, p.kernel(p.weights.data(), nchw), of_channel,
            of_channel);
      const auto of_bias = [&](index_t, index_t k, index_t, index_t) { return k == output; };
      check(before.bias_grad, after.bias_grad,
            {before.bias_grad.data(), 1, p.outputs(), 1, 1, nchw}, of_bias, of_bias);
      for (const index_t tap : {0, 4, 5, 8}) {
        q = p;
        q.weights[static_cast<std::size_t>((output * p.group_inputs + input) * 9 + tap)] = special;
        after = q.run();
        check(before.output, after.output, p.out(p.upstream.data(), nchw), of_bias, of_bias);
        const auto has = [&](index_t, index_t c, index_t row, index_t column) {
          return c == input && has_tap(tap / 3, row) && has_tap(tap % 3, column);
        };
        check(before.input_grad, after.input_grad, p.in(p.input.data(), nchw), has, has);
      }
    });
  }
}

TEST_CASE("3x3 convolution with stride 2: the rule that chooses minimal filtering") {
  const auto chooses = [](index_t groups, index_t stride, index_t inputs, index_t outputs,
                          index_t locations) {
    grouped_conv3x3_params params;
    params.groups = groups;
    params.stride = stride;
    return detail::is_filtered_stride2(params, inputs, outputs, locations);
  };
  CHECK(chooses(1, 2, 16, 16, 400));
  CHECK_FALSE(chooses(2, 2, 16, 16, 400));
  CHECK_FALSE(chooses(1, 1, 16, 16, 400));
  CHECK_FALSE(chooses(1, 2, 15, 16, 400));
  CHECK_FALSE(chooses(1, 2, 16, 15, 400));
  CHECK_FALSE(chooses(1, 2, 16, 16, 399));
  // Numbers whose transform overflows tell the two ways apart.
  const float huge = 2e38f;
  for (const index_t images : {3, 4}) {
    grouped_problem p = problem_of(images, 16, 16, 31, 15, 10);
    std::fill(p.input.begin(), p.input.end(), 0.0f);
    std::fill(p.weights.begin(), p.weights.end(), 0.0f);
    p.input[2 * 15 + 1] = p.input[2 * 15 + 5] = huge;
    for_each_isa([&](isa) {
      bool overflows = false;
      for (const float y : p.run().output) overflows |= !std::isfinite(y);
      CHECK(overflows == (images == 4));
      CHECK(overflows == is_filtered(p));
    });
  }
}

TEST_CASE("3x3 convolution with stride 2: the workspace is as small as documented") {
  const auto loop = [](index_t count, const task& work) {
    for (index_t i = 0; i < count; ++i) work(i);
  };
  const std::size_t mib = std::size_t{1024} * 1024;
  for (const auto& [inputs, outputs, side] : std::vector<std::array<index_t, 3>>{
           {16, 16, 52}, {64, 128, 160}, {256, 512, 56}, {300, 300, 80}})
    for (const int threads : {1, 3}) {
      grouped_problem p = problem_of(1, inputs, outputs, side, side, 1);
      REQUIRE(is_filtered(p));
      const auto up32 = [](index_t n) { return static_cast<std::size_t>((n + 31) / 32 * 32); };
      const std::size_t weights = 4 * 36 *
                                      std::max(up32(outputs) * static_cast<std::size_t>(inputs),
                                               up32(inputs) * static_cast<std::size_t>(outputs)) +
                                  mib / 64;
      const threading policy = threading::on(loop, threads);
      grouped_conv3x3_workspace forward, backward, weight_grad;
      const auto bytes = [](grouped_conv3x3_workspace& workspace) {
        const auto& buffers = detail::workspace_access::buffers(workspace);
        return 64 *
               (buffers.weights.capacity() + buffers.sums.capacity() + buffers.scratch.capacity() +
                buffers.filtering.scratch.capacity() + buffers.filtering.shared.capacity());
      };
      const auto x = p.in<const float>(p.input.data(), nchw);
      const auto gy = p.out<const float>(p.upstream.data(), nchw);
      const auto w = p.kernel<const float>(p.weights.data(), nchw);
      std::vector<float> y(p.upstream.size()), gx(p.input.size()), gw(p.weights.size());
      grouped_conv3x3(x, w, {}, p.out(y.data(), nchw), p.params(), forward, policy);
      grouped_conv3x3_input_grad(gy, w, p.in(gx.data(), nchw), p.params(), backward, policy);
      grouped_conv3x3_weight_grad(x, gy, p.kernel(gw.data(), nchw), {}, p.params(), weight_grad,
                                  policy);
      const std::size_t scratch = static_cast<std::size_t>(threads) * mib * 17;
      CHECK(bytes(forward) <= weights + scratch);
      CHECK(bytes(backward) <= weights + scratch);
      CHECK(bytes(weight_grad) <= 28 * mib);
    }
}
