// SPDX-License-Identifier: Apache-2.0
// Max pooling of maps of any sizes, windows, layouts and numbers: the reference's maxima and
// positions, bit by bit, and its gradient; also of bytes that are no positions. Instruction sets
// must agree.
#include "fuzz_input.hpp"
#include <vecdet/reference/max_pool.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  const index_t images = in.integer(0, 2);
  const index_t channels = in.one_of<index_t>({1, 3, 16, 17, 33, 0});
  const index_t height = in.integer(0, 12), width = in.one_of<index_t>({1, 5, 16, 33, 40, 0});
  const feature_layout layout = in.flag() ? feature_layout::nchw : feature_layout::nhwc;
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  max_pool_params params;
  params.window_height = in.integer(1, 5);
  params.window_width = in.integer(1, 5);
  params.stride_height = in.integer(1, 6);
  params.stride_width = in.integer(1, 6);
  params.dilation_height = in.integer(1, 3);
  params.dilation_width = in.integer(1, 3);
  params.padding_height =
      in.integer(0, ((params.window_height - 1) * params.dilation_height + 1) / 2);
  params.padding_width = in.integer(0, ((params.window_width - 1) * params.dilation_width + 1) / 2);
  params.ceil_mode = in.flag();
  const bool is_any_byte = in.flag();
  const grid_size size = max_pool_size({height, width}, params);
  const index_t inputs = images * channels * height * width;
  const index_t outputs = images * channels * size.height * size.width;
  const auto from = in.numbers<T>(inputs), upstream = in.numbers<T>(outputs);
  const fuzz::tensor<T> output(outputs), alone(outputs), grad(inputs);
  const fuzz::tensor<std::uint8_t> positions(outputs), bytes(outputs);
  std::vector<T> maxima(static_cast<std::size_t>(outputs));
  std::vector<std::uint8_t> winners(maxima.size());
  std::vector<double> exact(static_cast<std::size_t>(inputs)), sizes(exact.size());
  const auto map = [&](auto* data) {
    return feature_view<std::remove_pointer_t<decltype(data)>>(data, images, channels, height,
                                                               width, layout);
  };
  const auto windows = [&](auto* data) {
    return feature_view<std::remove_pointer_t<decltype(data)>>(data, images, channels, size.height,
                                                               size.width, layout);
  };
  const feature_view<const T> input_view = map(from.data()),
                              upstream_view = windows(upstream.data());
  reference::max_pool(input_view, windows(maxima.data()), windows(winners.data()), params);
  for (std::size_t i = 0; i < winners.size(); ++i) bytes[i] = is_any_byte ? in.byte() : winners[i];
  const feature_view<const std::uint8_t> byte_view = windows(bytes.data());
  reference::max_pool_grad(upstream_view, byte_view, map(exact.data()), params);
  std::vector<double> magnitudes;
  for (const T& x : upstream) magnitudes.push_back(std::abs(static_cast<double>(x)));
  const feature_view<const double> magnitude_view = windows(magnitudes.data());
  reference::max_pool_grad(magnitude_view, byte_view, map(sizes.data()), params);
  const double within = std::is_same<T, double>::value  ? 1e-14
                        : std::is_same<T, float>::value ? 1e-5
                                                        : 0x1p-7;
  max_pool_workspace workspace;
  fuzz::on_every_isa("max pooling", [&](fuzz::results& results) {
    max_pool(input_view, windows(output.data()), windows(positions.data()), params, workspace,
             policy);
    max_pool(input_view, windows(alone.data()), params, workspace, policy);
    max_pool_grad(upstream_view, byte_view, map(grad.data()), params, workspace, policy);
    for (std::size_t i = 0; i < maxima.size(); ++i) {
      if (std::memcmp(&output[i], &maxima[i], sizeof(T)) != 0 ||
          std::memcmp(&alone[i], &maxima[i], sizeof(T)) != 0 || positions[i] != winners[i])
        fuzz::fail("a maximum differs");
    }
    for (std::size_t i = 0; i < exact.size(); ++i)
      if (sizes[i] < 1e30)
        fuzz::expect_near([] { return "the gradient of max pooling"; },
                          static_cast<double>(grad[i]), exact[i], 0, within * sizes[i] + 1e-36);
    results.add(output);
    results.add(grad);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}
