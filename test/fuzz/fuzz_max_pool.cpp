// SPDX-License-Identifier: Apache-2.0
// Max pooling of maps of any sizes, windows, layouts and numbers: the reference's maxima and
// positions, bit by bit, and its gradient; also of bytes that are no positions. Instruction sets
// must agree.
#include "fuzz_input.hpp"
#include "support/max_pool_problem.hpp"

#include <cstdint>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  test::max_pool_shape shape{};
  shape.images = in.integer(0, 2);
  shape.channels = in.one_of<index_t>({1, 3, 16, 17, 33, 0});
  shape.height = in.integer(0, 12);
  shape.width = in.one_of<index_t>({1, 5, 16, 33, 40, 0});
  shape.layout = in.flag() ? feature_layout::nchw : feature_layout::nhwc;
  shape.policy = in.flag() ? threading::parallel : threading::sequential;
  max_pool_params& params = shape.params;
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
  test::max_pool_problem<T, fuzz::guarded> p(shape);
  in.fill(p.input, p.inputs());
  in.fill(p.upstream, p.outputs());
  if (is_any_byte) {
    p.grad_positions = fuzz::guarded<std::uint8_t>(p.upstream.size());
    for (std::uint8_t& byte : p.grad_positions) byte = in.byte();
  }
  const auto expected = p.exact();
  const auto grad = p.exact_grad(expected.positions),
             sizes = p.exact_grad(expected.positions, true);
  fuzz::on_every_isa("max pooling", [&](fuzz::results& results) {
    const auto found = p.run();
    if (!test::same_bits(found.output, expected.output) ||
        !test::same_bits(found.alone, expected.output) || found.positions != expected.positions)
      fuzz::fail("a maximum differs");
    fuzz::expect_within_bound("the gradient of max pooling", p.grad_error(found, grad, sizes));
    results.add(found.output);
    results.add(found.grad);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}
