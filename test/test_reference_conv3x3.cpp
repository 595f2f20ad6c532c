// SPDX-License-Identifier: Apache-2.0
// The reference of the 3x3 convolution, and the functions on every instruction set, against
// PyTorch's results in double; and an example computed by hand.
#include "support/data.hpp"
#include "support/isa.hpp"
#include <vecdet/conv3x3.hpp>
#include <vecdet/reference/conv3x3.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

TEST_CASE("3x3 convolution: PyTorch's results") {
  if (!has_data("golden_network/conv_y_0.npy", "3x3 convolution: PyTorch's results")) return;
  constexpr auto nchw = feature_layout::nchw;
  for (int shape = 0; shape < 6; ++shape) {
    const std::string number = std::to_string(shape);
    INFO("shape ", number);
    const auto x = golden_network<float>("conv_x_" + number);
    const auto w = golden_network<float>("conv_w_" + number);
    const auto b = golden_network<float>("conv_b_" + number);
    const auto gy = golden_network<float>("conv_gy_" + number);
    const auto y = golden_network<double>("conv_y_" + number);
    const auto gx = golden_network<double>("conv_gx_" + number);
    const auto gw = golden_network<double>("conv_gw_" + number);
    const auto gb = golden_network<double>("conv_gb_" + number);
    const auto view = [&](auto* data, const auto& like) {
      const auto size = [&](std::size_t i) { return static_cast<index_t>(like.shape[i]); };
      return feature_view<std::remove_pointer_t<decltype(data)>>(data, size(0), size(1), size(2),
                                                                 size(3), nchw);
    };
    const auto input = view(x.values.data(), x), weights = view(w.values.data(), w);
    const auto upstream = view(gy.values.data(), gy);

    std::vector<double> out(y.values.size()), in_grad(gx.values.size()), w_grad(gw.values.size()),
        b_grad(gb.values.size());
    reference::conv3x3(input, weights, vector_view<const float>(b.values), false,
                       view(out.data(), y));
    reference::conv3x3_input_grad(upstream, {}, weights, view(in_grad.data(), gx));
    reference::conv3x3_weight_grad(input, upstream, {}, view(w_grad.data(), gw),
                                   vector_view<double>(b_grad));
    CHECK(worst_of_mean(out, y.values) < 1e-13);
    CHECK(worst_of_mean(in_grad, gx.values) < 1e-13);
    CHECK(worst_of_mean(w_grad, gw.values) < 1e-13);
    CHECK(worst_of_mean(b_grad, gb.values) < 1e-13);

    for_each_isa([&](isa) {
      for (const conv3x3_tile tile : {conv3x3_tile::f4x4, conv3x3_tile::f2x2}) {
        const double tolerance = tile == conv3x3_tile::f4x4 ? 2e-5 : 4e-6;
        conv3x3_workspace workspace;
        conv3x3_params<float> params;
        params.bias = b.values;
        std::vector<float> out_f(out.size()), in_f(in_grad.size()), w_f(w_grad.size()),
            b_f(b_grad.size());
        conv3x3(input, conv3x3_weights<float>(weights, conv3x3_use::forward, tile),
                view(out_f.data(), y), params, workspace);
        conv3x3_input_grad(upstream, {},
                           conv3x3_weights<float>(weights, conv3x3_use::input_grad, tile),
                           view(in_f.data(), gx), workspace);
        conv3x3_weight_grad(input, upstream, {}, {view(w_f.data(), gw), b_f, tile}, workspace);
        CHECK(worst_of_mean(out_f, y.values) < tolerance);
        CHECK(worst_of_mean(in_f, gx.values) < tolerance);
        CHECK(worst_of_mean(w_f, gw.values) < tolerance);
        CHECK(worst_of_mean(b_f, gb.values) < 1e-6);
      }
    });
  }
}

TEST_CASE("reference 3x3 convolution: computed by hand") {
  // A map of 2 x 2 and weights 1 ... 9: at (0, 0), the four numbers are multiplied by weights 5, 6,
  // 8, 9.
  const std::vector<double> map{1, 10, 100, 1000}, weights{1, 2, 3, 4, 5, 6, 7, 8, 9}, bias{0.5};
  const feature_view<const double> x(map.data(), 1, 1, 2, 2, feature_layout::nchw);
  const feature_view<const double> w(weights.data(), 1, 1, 3, 3, feature_layout::nchw);
  std::vector<double> out(4);
  const feature_view<double> y(out.data(), 1, 1, 2, 2, feature_layout::nchw);
  reference::conv3x3(x, w, vector_view<const double>(bias), false, y);
  CHECK(out == std::vector<double>{9865.5, 8754.5, 6532.5, 5421.5});
  // ReLU of negative outputs, and its mask.
  const std::vector<double> negative{-1, -10, -100, -1000};
  reference::conv3x3(feature_view<const double>(negative.data(), 1, 1, 2, 2, feature_layout::nchw),
                     w, vector_view<const double>(bias), true, y);
  CHECK(out == std::vector<double>{0, 0, 0, 0});
  const std::vector<double> upstream{1, 1, 1, 1}, relu{0, 0, 1, 0};
  const feature_view<const double> gy(upstream.data(), 1, 1, 2, 2, feature_layout::nchw);
  const feature_view<const double> mask(relu.data(), 1, 1, 2, 2, feature_layout::nchw);
  reference::conv3x3_input_grad(gy, mask, w, y);
  CHECK(out == std::vector<double>{2, 3, 5, 6});
  std::vector<double> grad(9), bias_grad(1);
  reference::conv3x3_weight_grad(
      x, gy, mask, feature_view<double>(grad.data(), 1, 1, 3, 3, feature_layout::nchw),
      vector_view<double>(bias_grad));
  CHECK(grad == std::vector<double>{0, 1, 10, 0, 100, 1000, 0, 0, 0});
  CHECK(bias_grad == std::vector<double>{1});
}
