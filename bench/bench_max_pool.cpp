// SPDX-License-Identifier: Apache-2.0
// Max pooling and its gradient: the first pooling of a ResNet at 800 x 800, and that of a YOLO. The
// shape is followed by window x stride. The padding is half of the window. Elements are inputs.
//
// Bound for 1x64x400x400_3x2 in float: 41 MB are read, 10 MB of maxima and 2.6 MB of positions
// written; in the gradient, 13 MB are read and 41 MB written.
#include "plain/max_pool.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/max_pool.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace vecdet::bench {
namespace {

struct pool_shape {
  index_t images, channels, height, width, window, stride;

  max_pool_params params() const { return max_pool_params::square(window, stride, window / 2); }
  grid_size size() const { return max_pool_size({height, width}, params()); }
  index_t inputs() const { return images * channels * height * width; }
  index_t outputs() const { return images * channels * size().height * size().width; }
  std::string name() const {
    std::string text;
    for (const index_t side : {images, channels, height, width})
      text += (text.empty() ? "" : "x") + std::to_string(side);
    return text + "_" + std::to_string(window) + "x" + std::to_string(stride);
  }
};

/// Inputs as after a ReLU: half of them are 0.
template <class T>
struct pool_operands {
  pool_shape shape;
  feature_layout layout;
  std::vector<T> input, upstream, output, grad;
  std::vector<std::uint8_t> positions;
  max_pool_workspace workspace;

  pool_operands(const pool_shape& of, feature_layout how)
      : shape(of),
        layout(how),
        input(static_cast<std::size_t>(of.inputs())),
        upstream(static_cast<std::size_t>(of.outputs())),
        output(upstream.size()),
        grad(input.size()),
        positions(upstream.size()) {
    random_generator random(1);
    for (T& x : input) x = T(std::max(static_cast<float>(random.uniform(-1, 1)), 0.0f));
    for (T& x : upstream) x = T(static_cast<float>(random.uniform(-1, 1)));
    forward(threading::parallel);
  }
  template <class U>
  feature_view<U> in(U* data) const {
    return {data, shape.images, shape.channels, shape.height, shape.width, layout};
  }
  template <class U>
  feature_view<U> out(U* data) const {
    return {data, shape.images, shape.channels, shape.size().height, shape.size().width, layout};
  }
  void forward(threading policy) {
    max_pool(in<const T>(input.data()), out(output.data()), out(positions.data()), shape.params(),
             workspace, policy);
  }
  void backward(threading policy) {
    max_pool_grad(out<const T>(upstream.data()), out<const std::uint8_t>(positions.data()),
                  in(grad.data()), shape.params(), workspace, policy);
  }
};

/// The operands of the current problem; the previous ones of the type are freed.
template <class T>
std::shared_ptr<pool_operands<T>> make_operands(const pool_shape& shape, feature_layout layout) {
  static std::shared_ptr<pool_operands<T>> current;
  if (current != nullptr && current->shape.name() == shape.name() && current->layout == layout)
    return current;
  current.reset();
  current = std::make_shared<pool_operands<T>>(shape, layout);
  return current;
}

template <class T>
void add(const pool_shape& shape, feature_layout layout) {
  using operands = pool_operands<T>;
  const bool channels_last = layout == feature_layout::nhwc;
  const work amount{static_cast<double>(shape.inputs()),
                    static_cast<double>(shape.inputs() + shape.outputs()) * sizeof(T) +
                        static_cast<double>(shape.outputs())};
  const std::string rest =
      std::string(channels_last ? "/nhwc/" : "/") + dtype_name<T>() + "/" + shape.name();
  const auto prepare = [=] { return make_operands<T>(shape, layout); };
  const auto forward = [](operands& d, threading policy) { d.forward(policy); };
  const auto backward = [](operands& d, threading policy) { d.backward(policy); };
  if constexpr (std::is_same<T, float>::value) {
    const index_t side = shape.window;
    register_with_plain(
        "max_pool" + rest, amount, prepare, forward,
        [=](operands& d) {
          VECDET_PLAIN(plain_max_pool)
          (d.input.data(), shape.images, shape.channels, shape.height, shape.width, channels_last,
           side, shape.stride, d.output.data(), d.positions.data());
        },
        &operands::output);
    register_with_plain(
        "max_pool_grad" + rest, amount, prepare, backward,
        [=](operands& d) {
          VECDET_PLAIN(plain_max_pool_grad)
          (d.upstream.data(), d.positions.data(), shape.images, shape.channels, shape.height,
           shape.width, channels_last, side, shape.stride, d.grad.data());
        },
        &operands::grad);
  } else {
    register_vecdet("max_pool" + rest, amount, prepare, forward);
    register_vecdet("max_pool_grad" + rest, amount, prepare, backward);
  }
}

const bool registered = [] {
  for (const pool_shape& shape :
       {pool_shape{1, 64, 400, 400, 3, 2}, pool_shape{4, 256, 20, 20, 5, 1}})
    for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
      add<float>(shape, layout);
      add<bfloat16>(shape, layout);
    }
  show_in_figures("max_pool(_grad)?/(nhwc/)?f32/1x64x400x400_3x2");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
