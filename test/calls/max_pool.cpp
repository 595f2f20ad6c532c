// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/max_pool.hpp>

namespace vecdet::test {
namespace {

/// Shapes are images x channels x height x width x stride. Windows are square, with half of their
/// side as padding.
template <class T>
struct max_pool_calls {
  index_t images, channels, height, width, window;
  max_pool_params params;
  grid_size size;
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

  max_pool_calls(operands& make, const problem& p)
      : images(p.shape[0]),
        channels(p.shape[1]),
        height(p.shape[2]),
        width(p.shape[3]),
        window(window_of(p)),
        params(max_pool_params::square(window, p.shape[4], window / 2)),
        size(max_pool_size({height, width}, params)),
        input(make.numbers<T>(images * channels * height * width, -1, 1)),
        upstream(make.numbers<T>(images * channels * size.height * size.width, -1, 1)),
        out(make.room<T>(static_cast<index_t>(upstream.size()))),
        grad(make.room<T>(static_cast<index_t>(input.size()))),
        positions(make.room<std::uint8_t>(static_cast<index_t>(upstream.size()))),
        out_positions(make.room<std::uint8_t>(static_cast<index_t>(upstream.size()))) {
    for (std::size_t i = 0; i < positions.size(); ++i)
      positions.data()[i] = static_cast<std::uint8_t>(i % 11);
  }

  template <class Numbers>
  feature_view<Numbers> in(Numbers* of, feature_layout layout) const {
    return {of, images, channels, height, width, layout};
  }
  template <class Numbers>
  feature_view<Numbers> windows(Numbers* of, feature_layout layout) const {
    return {of, images, channels, size.height, size.width, layout};
  }

  void list(call_list& c) {
    add(c, text_of("window", window), feature_layout::nchw);
    add(c, text_of("nhwc_window", window), feature_layout::nhwc);
  }

  void add(call_list& c, const std::string& variant, feature_layout layout) {
    c.add("max_pool/" + variant, reads(input).writes(out), [=](threading policy) {
      max_pool(in<const T>(input.data(), layout), windows(out.data(), layout), params, workspace,
               policy);
    });
    c.add("max_pool/" + variant + "/positions", reads(input).writes(out, out_positions),
          [=](threading policy) {
            max_pool(in<const T>(input.data(), layout), windows(out.data(), layout),
                     windows(out_positions.data(), layout), params, workspace, policy);
          });
    c.add("max_pool_grad/" + variant, reads(upstream, positions).writes(grad),
          [=](threading policy) {
            max_pool_grad(windows<const T>(upstream.data(), layout),
                          windows<const std::uint8_t>(positions.data(), layout),
                          in(grad.data(), layout), params, workspace, policy);
          });
  }
};

const registered_family registered = calls_of<max_pool_calls, float, bfloat16, double>("max_pool");

}  // namespace
}  // namespace vecdet::test
