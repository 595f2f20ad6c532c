// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/conv3x3.hpp>

namespace vecdet {
namespace test {
namespace {

/// From `sources` channels to `targets`: forward, or backward from the upstream gradient.
template <class T>
struct conv3x3_calls {
  index_t images, sources, targets, height, width;
  placed<T> source, target, weights, bias, out, weight_grad, bias_grad;
  conv3x3_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{2, 3, 3 * length, 5}, {1, length, 12, 4}};
  }
  static shape sized(index_t rows) { return {2, 16, rows / 60 * 12 + 12, 20}; }

  conv3x3_calls(operands& make, const problem& p)
      : images(p.shape[0]),
        sources(p.shape[1]),
        targets(p.shape[3]),
        height(height_of(p.shape[2])),
        width(p.shape[2] / height),
        source(make.numbers<T>(images * sources * p.shape[2], -1, 1)),
        target(make.numbers<T>(images * targets * p.shape[2], -1, 1)),
        weights(make.numbers<T>(9 * sources * targets, -1, 1)),
        bias(make.numbers<T>(targets, -1, 1)),
        out(make.room<T>(images * targets * p.shape[2])),
        weight_grad(make.room<T>(9 * sources * targets)),
        bias_grad(make.room<T>(targets)) {}

  /// The largest divisor that makes an image no higher than wide.
  static index_t height_of(index_t locations) {
    auto height = static_cast<index_t>(std::sqrt(static_cast<double>(locations)));
    while (locations % height != 0) --height;
    return height;
  }

  template <class Numbers>
  feature_view<Numbers> view(Numbers* of, index_t channels, feature_layout layout) const {
    return {of, images, channels, height, width, layout};
  }

  void list(call_list& c) {
    add(c, "", feature_layout::nchw, conv3x3_tile::f4x4);
    add(c, "f2x2", feature_layout::nchw, conv3x3_tile::f2x2);
    add(c, "nhwc", feature_layout::nhwc, conv3x3_tile::f4x4);
    add(c, "nhwc_f2x2", feature_layout::nhwc, conv3x3_tile::f2x2);
  }

  void add(call_list& c, const std::string& variant, feature_layout layout, conv3x3_tile tile) {
    const auto nchw = feature_layout::nchw;
    // Both are transformed once for many calls.
    const auto forward = std::make_shared<conv3x3_weights<T>>(
        feature_view<const T>(weights.data(), targets, sources, 3, 3, nchw), conv3x3_use::forward,
        tile, execution::sequential);
    const auto backward = std::make_shared<conv3x3_weights<T>>(
        feature_view<const T>(weights.data(), sources, targets, 3, 3, nchw),
        conv3x3_use::input_grad, tile, execution::sequential);
    c.add("conv3x3/" + variant, reads(source, bias).writes(out), [=](execution policy) {
      conv3x3_params<T> params;
      params.bias = bias;
      params.relu = true;
      conv3x3(view<const T>(source.data(), sources, layout), *forward,
              view(out.data(), targets, layout), params, workspace, policy);
    });
    c.add("conv3x3_input_grad/" + variant, reads(source).writes(out), [=](execution policy) {
      conv3x3_input_grad(view<const T>(source.data(), sources, layout), {}, *backward,
                         view(out.data(), targets, layout), workspace, policy);
    });
    c.add("conv3x3_weight_grad/" + variant, reads(source, target).writes(weight_grad, bias_grad),
          [=](execution policy) {
            conv3x3_weight_grad(view<const T>(source.data(), sources, layout),
                                view<const T>(target.data(), targets, layout), {},
                                feature_view<T>(weight_grad.data(), targets, sources, 3, 3, nchw),
                                bias_grad, tile, workspace, policy);
          });
  }
};

const registered_family registered = calls_of<conv3x3_calls, float, double>("conv3x3");

}  // namespace
}  // namespace test
}  // namespace vecdet
