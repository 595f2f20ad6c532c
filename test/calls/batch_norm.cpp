// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/batch_norm.hpp>

namespace vecdet::test {
namespace {

/// Shapes are images x channels x height x width.
template <class T>
struct batch_norm_calls {
  using real = compute_type<T>;
  index_t images, channels, height, width;
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
      : images(p.shape[0]),
        channels(p.shape[1]),
        height(p.shape[2]),
        width(p.shape[3]),
        input(make.numbers<T>(images * channels * height * width, -1, 1)),
        upstream(make.numbers<T>(images * channels * height * width, -1, 1)),
        out(make.room<T>(static_cast<index_t>(input.size()))),
        grad(make.room<T>(static_cast<index_t>(input.size()))),
        weight(make.numbers<real>(channels, 0.5, 2)),
        bias(make.numbers<real>(channels, -1, 1)),
        weight_grad(make.room<real>(channels)),
        bias_grad(make.room<real>(channels)),
        statistics(make.numbers<double>(2 * channels, 0.1, 1)),
        out_statistics(make.room<double>(2 * channels)) {}

  template <class Numbers>
  feature_view<Numbers> map(Numbers* of, feature_layout layout) const {
    return {of, images, channels, height, width, layout};
  }

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
    batch_norm_params params;
    params.activation = activation;
    c.add("batch_norm/" + variant, reads(input, weight, bias).writes(out, out_statistics),
          [=](threading policy) {
            batch_norm(map<const T>(input.data(), layout), weight.in(), bias.in(),
                       map(out.data(), layout), out_statistics.out(), params, workspace, policy);
          });
    c.add("batch_norm_inference/" + variant, reads(input, weight, bias, statistics).writes(out),
          [=](threading policy) {
            batch_norm_inference(map<const T>(input.data(), layout), weight.in(), bias.in(),
                                 statistics.in(), map(out.data(), layout), params, workspace,
                                 policy);
          });
    c.add("batch_norm_grad/" + variant,
          reads(upstream, input, weight, bias, statistics).writes(grad, weight_grad, bias_grad),
          [=](threading policy) {
            batch_norm_grad(map<const T>(upstream.data(), layout),
                            map<const T>(input.data(), layout), weight.in(), bias.in(),
                            statistics.in(), map(grad.data(), layout), weight_grad.out(),
                            bias_grad.out(), params, workspace, policy);
          });
  }
};

const registered_family registered =
    calls_of<batch_norm_calls, float, bfloat16, double>("batch_norm");

}  // namespace
}  // namespace vecdet::test
