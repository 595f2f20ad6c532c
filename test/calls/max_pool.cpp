// SPDX-License-Identifier: Apache-2.0
#include "../support/max_pool_problem.hpp"
#include "catalogue.hpp"

namespace vecdet::test {
namespace {

/// Shapes are images x channels x height x width x stride. Windows are square, with half of their
/// side as padding.
template <class T>
struct max_pool_calls {
  max_pool_shape sizes;
  placed<T> input, upstream, out, grad;
  placed<std::uint8_t> positions, out_positions;
  max_pool_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{1, 2, 5, length, 2}, {2, length, 4, 3, 1}};
  }
  static shape sized(index_t rows) { return {2, 20, rows / 100 + 4, 50, 2}; }
  static bool takes(const problem& p) { return window_of(p) >= 1 && window_of(p) <= 16; }
  static index_t window_of(const problem& p) {
    return number_after<index_t>("nhwc_window", p.variant,
                                 number_after<index_t>("window", p.variant, 3));
  }

  static max_pool_shape shape_of(const problem& p) {
    return {p.shape[0], p.shape[1], p.shape[2], p.shape[3],
            max_pool_params::square(window_of(p), p.shape[4], window_of(p) / 2)};
  }

  max_pool_calls(operands& make, const problem& p)
      : sizes(shape_of(p)),
        input(make.numbers<T>(sizes.inputs(), -1, 1)),
        upstream(make.numbers<T>(sizes.outputs(), -1, 1)),
        out(make.room<T>(sizes.outputs())),
        grad(make.room<T>(sizes.inputs())),
        positions(make.room<std::uint8_t>(sizes.outputs())),
        out_positions(make.room<std::uint8_t>(sizes.outputs())) {
    for (std::size_t i = 0; i < positions.size(); ++i)
      positions.data()[i] = static_cast<std::uint8_t>(i % 11);
  }

  void list(call_list& c) {
    add(c, "window", feature_layout::nchw);
    add(c, "nhwc_window", feature_layout::nhwc);
  }

  void add(call_list& c, const std::string& prefix, feature_layout layout) {
    max_pool_shape s = sizes;
    s.layout = layout;
    const std::string variant = text_of(prefix, s.params.window_height);
    c.add("max_pool/" + variant, reads(input).writes(out), [this, s](threading policy) {
      max_pool(s.in<const T>(input.data()), s.out(out.data()), s.params, workspace, policy);
    });
    c.add("max_pool/" + variant + "/positions", reads(input).writes(out, out_positions),
          [this, s](threading policy) {
            max_pool(s.in<const T>(input.data()), s.out(out.data()), s.out(out_positions.data()),
                     s.params, workspace, policy);
          });
    c.add("max_pool_grad/" + variant, reads(upstream, positions).writes(grad),
          [this, s](threading policy) {
            max_pool_grad(s.out<const T>(upstream.data()),
                          s.out<const std::uint8_t>(positions.data()), s.in(grad.data()), s.params,
                          workspace, policy);
          });
  }
};

const registered_family registered = calls_of<max_pool_calls, float, bfloat16, double>("max_pool");

}  // namespace
}  // namespace vecdet::test
