// SPDX-License-Identifier: Apache-2.0
// Grouped 3x3 convolution of maps of any sizes, groups, strides, layouts and numbers, with its
// gradients, directly and by minimal filtering. On finite numbers, the error of every result must
// be within the documented bound. On others, instruction sets must agree.
#include "fuzz_input.hpp"
#include "support/grouped_conv_problem.hpp"

#include <cmath>
#include <utility>

using namespace vecdet;

namespace {

struct kind {
  index_t groups, inputs, outputs;  ///< channels of a group
};

}  // namespace

void fuzz::target(input& in) {
  const kind of = in.one_of<kind>({{1, 1, 1},
                                   {1, 17, 3},
                                   {1, 5, 35},
                                   {1, 33, 35},
                                   {3, 4, 4},
                                   {5, 8, 8},
                                   {2, 16, 32},
                                   {3, 32, 16},
                                   {1, 0, 2},
                                   {1, 2, 0}});
  const index_t images = in.integer(0, 2), height = in.integer(0, 9);
  const index_t width = in.one_of<index_t>({1, 4, 5, 13, 33, 50, 0, 300});
  test::grouped_conv_problem<guarded> p({images, of.groups * of.inputs, height, width,
                                         of.groups * of.outputs, of.groups, in.integer(1, 2)});
  for (feature_layout* layout : {&p.input_layout, &p.output_layout, &p.weight_layout})
    *layout = in.flag() ? feature_layout::nchw : feature_layout::nhwc;
  const bool is_finite = in.flag();
  p.has_bias = in.flag();
  p.policy = in.flag() ? threading::parallel : threading::sequential;
  p.make_with([&](guarded<float>& values, index_t count) {
    in.fill(values, count);
    for (float& x : values)
      if (is_finite && !(std::abs(x) < 1e9f)) x = 1;
  });
  const auto exact = p.exact(), sizes = p.sizes();
  fuzz::on_every_isa("the grouped convolution", [&](fuzz::results& results) {
    const auto found = p.run();
    for (const auto* numbers :
         {&found.output, &found.input_grad, &found.weight_grad, &found.bias_grad})
      results.add(*numbers);
    const test::grouped_conv_errors errors = p.errors(found, exact, sizes);
    for (const auto& [name, error] : {std::pair{"an output", errors.output},
                                      {"the input's gradient", errors.input_grad},
                                      {"the weights' gradient", errors.weight_grad},
                                      {"the bias's gradient", errors.bias_grad}})
      fuzz::expect_within_bound(name, error);
  });
}
