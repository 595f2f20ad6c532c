// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution of the levels of a pyramid in one call, channels of a wider tensor, empty shapes,
// and every documented error.
#include "support/conv_problem.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include <vecdet/conv3x3.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;
constexpr auto f4x4 = conv3x3_tile::f4x4, f2x2 = conv3x3_tile::f2x2;

constexpr index_t images = 2, inputs = 21, anchors = 4, classes = 8, outputs = anchors * classes;
const std::vector<std::pair<index_t, index_t>> sizes{{13, 17}, {7, 9}, {4, 4},
                                                     {1, 3},   {0, 5}, {2, 1}};

std::vector<float> normal_numbers(index_t count, std::uint64_t seed) {
  random_generator generator(seed);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = static_cast<float>(generator.normal());
  return numbers;
}

/// The levels of a head in one vector. In each image, `gap` channels of NaN follow those of the
/// head.
template <class T>
struct pyramid {
  index_t channels, stride;
  feature_layout layout;
  std::vector<T> values;
  std::vector<index_t> begin;

  pyramid(index_t channel_count, index_t gap, feature_layout level_layout, std::uint64_t seed)
      : channels(channel_count), stride(channel_count + gap), layout(level_layout) {
    random_generator random(seed);
    for (const auto& [height, width] : sizes) {
      begin.push_back(static_cast<index_t>(values.size()));
      for (index_t i = 0; i < images * height * width * stride; ++i)
        values.push_back(to<T>(std::nan("")));
    }
    for (std::size_t l = 0; l < sizes.size(); ++l)
      for_each(l, [&](T& value) { value = to<T>(random.normal()); });
  }

  template <class Visit>
  void for_each(std::size_t l, const Visit& visit) {
    const index_t locations = sizes[l].first * sizes[l].second;
    for (index_t n = 0; n < images; ++n)
      for (index_t c = 0; c < channels; ++c)
        for (index_t i = 0; i < locations; ++i)
          visit(values[static_cast<std::size_t>(
              begin[l] + n * locations * stride +
              (layout == nchw ? c * locations + i : i * stride + c))]);
  }

  template <class U>
  std::vector<head_level<U>> levels() {
    std::vector<head_level<U>> list;
    for (std::size_t l = 0; l < sizes.size(); ++l)
      list.push_back({values.data() + begin[l], sizes[l].first, sizes[l].second});
    return list;
  }
  template <class U>
  head_view<U> head(const std::vector<head_level<U>>& list, index_t at_location) const {
    return {vector_view<const head_level<U>>(list),
            images,
            at_location,
            channels / at_location,
            layout == nchw ? head_layout::nchw : head_layout::nhwc,
            at_location > 1 ? channels / at_location : stride};
  }
  /// A level without gaps, in NCHW.
  std::vector<T> level(std::size_t l) {
    std::vector<T> result;
    for_each(l, [&](T& value) { result.push_back(value); });
    return result;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("3x3 convolution: levels in one call or in several are bit-identical", T, float,
                   bfloat16) {
  for (const feature_layout layout : {nchw, nhwc})
    for (const index_t gap : {0, 5})
      for (const conv3x3_tile tile : {f4x4, f2x2}) {
        pyramid<T> input(inputs, gap, layout, 1), upstream(outputs, gap, layout, 2);
        pyramid<T> output(outputs, gap, layout, 3), grad(inputs, gap, layout, 4);
        const auto x = input.template levels<const T>(), gy = upstream.template levels<const T>();
        const auto mask = output.template levels<const T>();
        const auto y = output.template levels<T>(), gx = grad.template levels<T>();
        const index_t at_location = gap == 0 ? anchors : 1;
        const auto before = output.values;
        conv_problem<T> p({images, inputs, 1, 1, outputs});
        p.tile = tile;
        p.relu = true;
        p.make(5);
        const feature_view<const float> w = p.kernel(p.weights.data());
        conv3x3_params<float> params;
        params.bias = p.bias;
        params.relu = true;
        const auto check_on = [&](threading policy) {
          conv3x3_workspace workspace;
          const conv3x3_weights<float> forward(w, conv3x3_use::forward, tile);
          const conv3x3_weights<float> backward(w, conv3x3_use::input_grad, tile);
          conv3x3(input.head(x, 1), forward, output.head(y, at_location), params, workspace,
                  policy);
          conv3x3_input_grad(upstream.head(gy, at_location), output.head(mask, at_location),
                             backward, grad.head(gx, 1), workspace, policy);
          std::vector<float> gw(p.weights.size()), gb(p.bias.size());
          conv3x3_weight_grad(input.head(x, 1), upstream.head(gy, at_location),
                              output.head(mask, at_location), {p.kernel(gw.data()), gb, tile},
                              workspace, policy);
          std::vector<double> exact_gw(gw.size()), exact_gb(gb.size());
          for (std::size_t l = 0; l < sizes.size(); ++l) {
            INFO("level ", l);
            conv_problem<T> one = p;
            one.height = sizes[l].first;
            one.width = sizes[l].second;
            one.input = input.level(l);
            one.upstream = upstream.level(l);
            const auto expected = one.run();
            CHECK(same_bits(output.level(l), expected.output));
            CHECK(same_bits(grad.level(l), expected.input_grad));
            const auto exact = one.exact(expected.output);
            for (std::size_t i = 0; i < gw.size(); ++i) exact_gw[i] += exact.weight_grad[i];
            for (std::size_t i = 0; i < gb.size(); ++i) exact_gb[i] += exact.bias_grad[i];
          }
          for (std::size_t i = 0; i < gw.size(); ++i)
            CHECK(std::abs(gw[i] - exact_gw[i]) < 25 * (tile == f4x4 ? 2.5e-5 : 4e-6));
          for (std::size_t i = 0; i < gb.size(); ++i) CHECK(std::abs(gb[i] - exact_gb[i]) < 2e-5);
          // Elements between them must not change.
          for (std::size_t i = 0; i < before.size(); ++i)
            if (std::isnan(static_cast<float>(before[i])))
              CHECK(std::isnan(static_cast<float>(output.values[i])));
        };
        for_each_isa([&](isa) {
          for (const int threads : {1, 2, 5}) check_on(threading::on(in_turn, threads));
        });
      }
}

TEST_CASE("3x3 convolution: empty inputs") {
  conv3x3_workspace workspace;
  std::vector<float> a(1000, 1.0f), b(1000, 2.0f), bias{3, 4};
  const feature_view<const float> no_inputs(a.data(), 2, 0, 3, 3, nchw);
  conv3x3_params<float> params;
  params.bias = bias;
  // Without input channels, the output is the bias.
  conv3x3(feature_view<const float>(a.data(), 1, 0, 4, 5, nchw), conv3x3_weights<float>(no_inputs),
          feature_view<float>(b.data(), 1, 2, 4, 5, nchw), params, workspace);
  for (std::size_t i = 0; i < 40; ++i) CHECK(b[i] == (i < 20 ? 3 : 4));
  CHECK(b[40] == 2);
  // Without images or locations, gradients of weights are 0.
  for (const index_t height : {0, 4}) {
    std::vector<float> grad(2 * 3 * 9, 7.0f), bias_grad(2, 7.0f);
    const index_t images_there = height == 0 ? 1 : 0;
    conv3x3_weight_grad(feature_view<const float>(a.data(), images_there, 3, height, 5, nchw),
                        feature_view<const float>(a.data(), images_there, 2, height, 5, nchw), {},
                        {feature_view<float>(grad.data(), 2, 3, 3, 3, nchw), bias_grad}, workspace);
    for (const float g : grad) CHECK(g == 0);
    for (const float g : bias_grad) CHECK(g == 0);
  }
  // Without output channels there is nothing to do, and the gradient of the input is 0.
  const feature_view<const float> no_outputs(a.data(), 0, 3, 3, 3, nchw);
  conv3x3(feature_view<const float>(a.data(), 1, 3, 4, 5, nchw), conv3x3_weights<float>(no_outputs),
          feature_view<float>(b.data(), 1, 0, 4, 5, nchw), {}, workspace);
  conv3x3_input_grad(feature_view<const float>(a.data(), 1, 0, 4, 5, nchw), {},
                     conv3x3_weights<float>(no_outputs, conv3x3_use::input_grad),
                     feature_view<float>(b.data(), 1, 3, 4, 5, nchw), workspace);
  for (std::size_t i = 0; i < 60; ++i) CHECK(b[i] == 0);
}

TEST_CASE("3x3 convolution: conv3x3_is_faster") {
  // For the levels of a head in one call, but not for a small level alone, and never for few
  // channels.
  CHECK(conv3x3_is_faster(256, 256, 13343, true));
  CHECK(conv3x3_is_faster(16, 16, 640, true));
  CHECK_FALSE(conv3x3_is_faster(256, 256, 169, true));
  CHECK(conv3x3_is_faster(256, 256, 169, false));
  CHECK_FALSE(conv3x3_is_faster(256, 256, 49, false));
  CHECK_FALSE(conv3x3_is_faster(3, 64, 10000, true));
  CHECK_FALSE(conv3x3_is_faster(256, 4, 10000, false));
}

TEST_CASE("3x3 convolution: bad arguments throw errors that name them and write nothing") {
  conv3x3_workspace workspace;
  std::vector<float> a(2000, 1.0f), b(2000, 5.0f), w(2000, 1.0f);
  const conv3x3_weights<float> forward(feature_view<const float>(w.data(), 4, 3, 3, 3, nchw));
  const conv3x3_weights<float> backward(feature_view<const float>(w.data(), 4, 3, 3, 3, nchw),
                                        conv3x3_use::input_grad);
  const auto map = [](auto* data, index_t channels, index_t height, index_t width,
                      index_t count = 1) {
    return feature_view<std::remove_pointer_t<decltype(data)>>(data, count, channels, height, width,
                                                               nchw);
  };
  const float* const in = a.data();
  float* const out = b.data();
  const auto fails = [&](const auto& call, const char* message) {
    const std::vector<float> before = b;
    CHECK_THROWS_WITH_AS(call(), message, std::invalid_argument);
    CHECK(same_bits(b, before));
  };
  conv3x3_params<float> params;
  const auto run = [&](const auto& x, const conv3x3_weights<float>& weights, const auto& y) {
    return [&, x, y] { conv3x3(x, weights, y, params, workspace); };
  };
  fails(run(map(in, 3, 5, 6), backward, map(out, 4, 5, 6)),
        "vecdet::conv3x3: weights.use() is conv3x3_use::input_grad, expected conv3x3_use::forward");
  fails(run(map(in, 2, 5, 6), forward, map(out, 4, 5, 6)),
        "vecdet::conv3x3: input's number of channels is 2, expected 3, the number of input "
        "channels of the weights");
  fails(run(map(in, 3, 5, 6), forward, map(out, 3, 5, 6)),
        "vecdet::conv3x3: output's number of channels is 3, expected 4, the number of output "
        "channels of the weights");
  fails(run(map(in, 3, 5, 6), forward, map(out, 4, 6, 5)),
        "vecdet::conv3x3: output is 6 x 5, expected 5 x 6, as in input");
  fails(run(map(in, 3, 5, 6), forward, map(out, 4, 5, 6, 2)),
        "vecdet::conv3x3: output.images() is 2, expected 1, as in input");
  fails(run(map(in, 3, 5, 6), forward, map(a.data() + 89, 4, 5, 6)),
        "vecdet::conv3x3: output is in the memory of input, expected separate memory");
  const std::vector<float> three(3);
  params.bias = three;
  fails(run(map(in, 3, 5, 6), forward, map(out, 4, 5, 6)),
        "vecdet::conv3x3: params.bias.size() is 3, expected 0 or 4, the number of output channels "
        "of the weights");
  params.bias = vector_view<const float>(out + 10, 4);
  fails(run(map(in, 3, 5, 6), forward, map(out, 4, 5, 6)),
        "vecdet::conv3x3: output is in the memory of params.bias, expected separate memory");
  params = {};

  const auto run_grad = [&](const auto& gy, const auto& mask, const conv3x3_weights<float>& weights,
                            const auto& gx) {
    return [&, gy, mask, gx] { conv3x3_input_grad(gy, mask, weights, gx, workspace); };
  };
  const feature_view<const float> no_mask;
  fails(run_grad(map(in, 4, 5, 6), no_mask, forward, map(out, 3, 5, 6)),
        "vecdet::conv3x3_input_grad: weights.use() is conv3x3_use::forward, expected "
        "conv3x3_use::input_grad");
  fails(run_grad(map(in, 3, 5, 6), no_mask, backward, map(out, 3, 5, 6)),
        "vecdet::conv3x3_input_grad: upstream's number of channels is 3, expected 4, the number of "
        "output channels of the weights");
  fails(run_grad(map(in, 4, 5, 6), map(in, 4, 5, 5), backward, map(out, 3, 5, 6)),
        "vecdet::conv3x3_input_grad: relu_output is 5 x 5, expected 5 x 6, as in upstream");
  fails(run_grad(map(in, 4, 5, 6), no_mask, backward, map(out, 4, 5, 6)),
        "vecdet::conv3x3_input_grad: grad's number of channels is 4, expected 3, the number of "
        "input channels of the weights");
  fails(run_grad(map(in, 4, 5, 6), no_mask, backward, map(a.data() + 119, 3, 5, 6)),
        "vecdet::conv3x3_input_grad: grad is in the memory of upstream, expected separate memory");
  fails(
      run_grad(map(in, 4, 5, 6), feature_view<const float>(map(out, 4, 5, 6)), backward,
               map(out, 3, 5, 6)),
      "vecdet::conv3x3_input_grad: grad is in the memory of relu_output, expected separate memory");

  const auto run_weights = [&](const auto& x, const auto& gy, const auto& mask, const auto& gw,
                               vector_view<float> gb) {
    return [&, x, gy, mask, gw, gb] { conv3x3_weight_grad(x, gy, mask, {gw, gb}, workspace); };
  };
  const vector_view<float> no_bias;
  fails(run_weights(map(in, 3, 5, 6), map(in, 4, 5, 6), no_mask, map(out, 3, 3, 2, 4), no_bias),
        "vecdet::conv3x3_weight_grad: grads.weight_grad.width() is 2, expected 3");
  fails(run_weights(map(in, 2, 5, 6), map(in, 4, 5, 6), no_mask, map(out, 3, 3, 3, 4), no_bias),
        "vecdet::conv3x3_weight_grad: input's number of channels is 2, expected 3, "
        "grads.weight_grad.channels()");
  fails(run_weights(map(in, 3, 5, 6), map(in, 5, 5, 6), no_mask, map(out, 3, 3, 3, 4), no_bias),
        "vecdet::conv3x3_weight_grad: upstream's number of channels is 5, expected 4, "
        "grads.weight_grad.images()");
  fails(run_weights(map(in, 3, 5, 6), map(in, 4, 5, 6), map(in, 4, 5, 6, 2), map(out, 3, 3, 3, 4),
                    no_bias),
        "vecdet::conv3x3_weight_grad: relu_output.images() is 2, expected 1, as in input");
  fails(run_weights(map(in, 3, 5, 6), map(in, 4, 5, 6), no_mask, map(out, 3, 3, 3, 4),
                    vector_view<float>(out + 500, 3)),
        "vecdet::conv3x3_weight_grad: grads.bias_grad.size() is 3, expected 0 or 4, "
        "grads.weight_grad.images()");
  fails(run_weights(map(in, 3, 5, 6), map(in, 4, 5, 6), no_mask, map(a.data() + 80, 3, 3, 3, 4),
                    no_bias),
        "vecdet::conv3x3_weight_grad: grads.weight_grad is in the memory of input, expected "
        "separate memory");
  fails(run_weights(map(in, 3, 5, 6), map(in, 4, 5, 6), no_mask, map(out, 3, 3, 3, 4),
                    vector_view<float>(out + 100, 4)),
        "vecdet::conv3x3_weight_grad: grads.weight_grad is in the memory of grads.bias_grad, "
        "expected separate memory");
  fails([&] { conv3x3_weights<float>(feature_view<const float>(w.data(), 4, 3, 5, 3, nchw)); },
        "vecdet::conv3x3_weights: weights.height() is 5, expected 3");

  // Errors name the level.
  const std::vector<head_level<const float>> x{{in, 5, 6}, {in + 90, 3, 3}};
  const std::vector<head_level<float>> wrong{{out, 5, 6}, {out + 200, 3, 4}};
  const std::vector<head_level<float>> shared{{out, 5, 6}, {a.data() + 100, 3, 3}};
  const std::vector<head_level<float>> overlapping{{out, 5, 6}, {out + 119, 3, 3}};
  const std::vector<head_level<float>> one{{out, 5, 6}};
  const auto head = [](const auto& levels, index_t channels, index_t at_location = 1,
                       index_t stride = 0) {
    using level = typename std::decay_t<decltype(levels)>::value_type;
    using number = std::remove_pointer_t<decltype(level::data)>;
    const index_t per_anchor = channels / at_location;
    return head_view<number>(vector_view<const level>(levels), 1, at_location, per_anchor,
                             head_layout::nchw, stride == 0 ? per_anchor : stride);
  };
  fails(run(head(x, 3), forward, head(wrong, 4)),
        "vecdet::conv3x3: output.levels()[1] is 3 x 4, expected 3 x 3, as in input");
  fails(run(head(x, 3), forward, head(shared, 4)),
        "vecdet::conv3x3: output.levels()[1] is in the memory of input.levels()[1], expected "
        "separate memory");
  fails(run(head(x, 3), forward, head(overlapping, 4)),
        "vecdet::conv3x3: output.levels()[1] is in the memory of output.levels()[0], expected "
        "separate memory");
  const std::vector<head_level<const float>> y{{in, 5, 6}, {in + 120, 3, 3}};
  const std::vector<head_level<float>> overlapping_grads{{out, 5, 6}, {out + 89, 3, 3}};
  fails(run_grad(head(y, 4), head_view<const float>(), backward, head(overlapping_grads, 3)),
        "vecdet::conv3x3_input_grad: grad.levels()[1] is in the memory of grad.levels()[0], "
        "expected separate memory");
  fails(run(head(x, 3), forward, head(one, 4)),
        "vecdet::conv3x3: output's number of levels is 1, expected 2, as in input");
  fails(run(head(x, 3), forward, head(wrong, 4, 2, 3)),
        "vecdet::conv3x3: output.channels() is above classes(), expected classes(), because there "
        "are several "
        "anchors");
}

TEST_CASE("3x3 convolution: different channels of one tensor") {
  constexpr index_t channels = 17, wide = 40, height = 5, width = 6;
  const std::vector<float> w = normal_numbers(channels * channels * 9, 1);
  const conv3x3_weights<float> weights(
      feature_view<const float>(w.data(), channels, channels, 3, 3, nchw));
  conv3x3_workspace workspace;
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    const index_t step = layout == head_layout::nhwc ? 1 : height * width;
    std::vector<float> tensor = normal_numbers(images * wide * height * width, 2);
    const std::vector<float> before = tensor;
    const auto slice = [&](auto* data, index_t first) {
      using number = std::remove_pointer_t<decltype(data)>;
      const head_level<number> level{data + first * step, height, width};
      return head_view<number>(level, images, 1, channels, layout, wide);
    };
    const auto run = [&](const float* from, index_t first, float* to, index_t first_out) {
      conv3x3(slice(from, first), weights, slice(to, first_out), {}, workspace);
    };
    std::vector<float> apart = before;
    for (const auto& pair : {std::pair<index_t, index_t>{0, 17}, {23, 0}, {3, 20}, {22, 5}}) {
      tensor = apart = before;
      run(before.data(), pair.first, apart.data(), pair.second);
      run(tensor.data(), pair.first, tensor.data(), pair.second);
      CHECK(tensor == apart);
      CHECK(tensor != before);
    }
    // One channel in common, also across locations.
    tensor = before;
    for (const auto& pair : {std::pair<index_t, index_t>{0, 16}, {16, 0}, {5, 5}, {22, 6}})
      CHECK_THROWS_WITH_AS(run(tensor.data(), pair.first, tensor.data(), pair.second),
                           doctest::Contains("in the memory of input"), std::invalid_argument);
    CHECK(tensor == before);
  }
}

TEST_CASE("3x3 convolution: weights without numbers take no time") {
  float none = 0;
  const index_t many = index_t{1} << 40;
  for (const conv3x3_use use : {conv3x3_use::forward, conv3x3_use::input_grad}) {
    const conv3x3_weights<float> targets(feature_view<const float>(&none, many, 0, 3, 3, nchw),
                                         use);
    CHECK(targets.output_channels() == many);
    const conv3x3_weights<float> sources(feature_view<const float>(&none, 0, many, 3, 3, nchw),
                                         use);
    CHECK(sources.input_channels() == many);
  }
  conv3x3_workspace workspace;
  const feature_view<const float> input(&none, 0, 0, 3, 3, nchw), y(&none, 0, many, 3, 3, nchw);
  conv3x3_weight_grad(input, y, feature_view<const float>(),
                      {feature_view<float>(&none, many, 0, 3, 3, nchw)}, workspace);
}
