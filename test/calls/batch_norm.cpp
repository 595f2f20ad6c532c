// SPDX-License-Identifier: Apache-2.0
#include "../support/batch_norm_problem.hpp"
#include "catalogue.hpp"

namespace vecdet::test {
namespace {

/// Shapes are images x channels x height x width.
template <class T>
struct batch_norm_calls {
  using real = compute_type<T>;
  batch_norm_shape sizes;
  placed<T> input, upstream, out, grad;
  placed<real> weight, bias, weight_grad, bias_grad;
  placed<double> statistics, out_statistics;
  batch_norm_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{1, 2, 2, length + 1}, {2, length, 4, 3}};
  }
  static shape sized(index_t rows) { return {2, 20, rows / 100 + 4, 50}; }
  static bool takes(const problem& p) { return p.shape[0] * p.shape[2] * p.shape[3] >= 2; }

  batch_norm_calls(operands& make, const problem& p)
      : sizes{p.shape[0], p.shape[1], p.shape[2], p.shape[3]},
        input(make.numbers<T>(sizes.size(), -1, 1)),
        upstream(make.numbers<T>(sizes.size(), -1, 1)),
        out(make.room<T>(sizes.size())),
        grad(make.room<T>(sizes.size())),
        weight(make.numbers<real>(sizes.channels, 0.5, 2)),
        bias(make.numbers<real>(sizes.channels, -1, 1)),
        weight_grad(make.room<real>(sizes.channels)),
        bias_grad(make.room<real>(sizes.channels)),
        statistics(make.numbers<double>(2 * sizes.channels, 0.1, 1)),
        out_statistics(make.room<double>(2 * sizes.channels)) {}

  void list(call_list& c) {
    for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
      add(c, layout, "none", batch_norm_activation::none);
      add(c, layout, "relu", batch_norm_activation::relu);
      add(c, layout, "silu", batch_norm_activation::silu);
    }
  }

  void add(call_list& c, feature_layout layout, const std::string& name,
           batch_norm_activation activation) {
    const std::string variant = (layout == feature_layout::nhwc ? "nhwc_" : "") + name;
    batch_norm_shape s = sizes;
    s.layout = layout;
    s.activation = activation;
    c.add("batch_norm/" + variant, reads(input, weight, bias).writes(out, out_statistics),
          [this, s](threading policy) {
            batch_norm(s.map<const T>(input.data()), weight.in(), bias.in(), s.map(out.data()),
                       out_statistics.out(), s.params(), workspace, policy);
          });
    c.add("batch_norm_inference/" + variant, reads(input, weight, bias, statistics).writes(out),
          [this, s](threading policy) {
            batch_norm_inference(s.map<const T>(input.data()), weight.in(), bias.in(),
                                 statistics.in(), s.map(out.data()), s.params(), workspace, policy);
          });
    c.add("batch_norm_grad/" + variant,
          reads(upstream, input, weight, bias, statistics).writes(grad, weight_grad, bias_grad),
          [this, s](threading policy) {
            batch_norm_grad(s.map<const T>(upstream.data()), s.map<const T>(input.data()),
                            weight.in(), bias.in(), statistics.in(), s.map(grad.data()),
                            weight_grad.out(), bias_grad.out(), s.params(), workspace, policy);
          });
  }
};

const registered_family registered =
    calls_of<batch_norm_calls, float, bfloat16, double>("batch_norm");

}  // namespace
}  // namespace vecdet::test
