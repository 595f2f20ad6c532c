// SPDX-License-Identifier: Apache-2.0
// Max pooling and its gradient: the first pooling of a ResNet at 800 x 800, and that of a YOLO. The
// shape is followed by window x stride. The padding is half of the window. Elements are inputs.
//
// Bound for 1x64x400x400_3x2 in float: 41 MB are read, 10 MB of maxima and 2.6 MB of positions
// written; in the gradient, 13 MB are read and 41 MB written.
#include "../test/support/max_pool_problem.hpp"
#include "plain/max_pool.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

namespace vecdet::bench {
namespace {

using test::max_pool_shape;

/// Inputs as after a ReLU: half of them are 0.
template <class T>
struct pool_operands : test::max_pool_problem<T>, test::max_pool_results<T> {
  using problem = test::max_pool_problem<T>;
  max_pool_workspace workspace;

  explicit pool_operands(const max_pool_shape& shape) : problem(shape) {
    this->input = uniform_numbers<T>(shape.inputs(), 1, 1);
    this->upstream = uniform_numbers<T>(shape.outputs(), 2, 1);
    for (T& x : this->input) x = T(std::max(static_cast<float>(x), 0.0f));
    static_cast<test::max_pool_results<T>&>(*this) = this->room();
    forward(threading::parallel);
  }
  void forward(threading on) { problem::forward(*this, workspace, on); }
  void backward(threading on) { problem::backward(*this, workspace, on); }
};

template <class T>
void add(const max_pool_shape& shape) {
  using operands = pool_operands<T>;
  const bool channels_last = shape.layout == feature_layout::nhwc;
  const work amount{static_cast<double>(shape.inputs()),
                    static_cast<double>(shape.inputs() + shape.outputs()) * sizeof(T) +
                        static_cast<double>(shape.outputs())};
  const std::string rest = std::string(channels_last ? "/nhwc/" : "/") + dtype_name<T>() + "/" +
                           joined({shape.images, shape.channels, shape.height, shape.width}) + "_" +
                           joined({shape.params.window_height, shape.params.stride_height});
  const auto prepare = [=] { return current_data<operands>(rest, shape); };
  const auto forward = [](operands& d, threading policy) { d.forward(policy); };
  const auto backward = [](operands& d, threading policy) { d.backward(policy); };
  if constexpr (std::is_same<T, float>::value) {
    const index_t side = shape.params.window_height, stride = shape.params.stride_height;
    register_with_plain(
        "max_pool" + rest, amount, prepare, forward,
        [=](operands& d) {
          VECDET_PLAIN(plain_max_pool)
          (d.input.data(), shape.images, shape.channels, shape.height, shape.width, channels_last,
           side, stride, d.output.data(), d.positions.data());
        },
        &operands::output);
    register_with_plain(
        "max_pool_grad" + rest, amount, prepare, backward,
        [=](operands& d) {
          VECDET_PLAIN(plain_max_pool_grad)
          (d.upstream.data(), d.positions.data(), shape.images, shape.channels, shape.height,
           shape.width, channels_last, side, stride, d.grad.data());
        },
        &operands::grad);
  } else {
    register_vecdet("max_pool" + rest, amount, prepare, forward);
    register_vecdet("max_pool_grad" + rest, amount, prepare, backward);
  }
}

const bool registered = [] {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc})
    for (const max_pool_shape& shape :
         {max_pool_shape{1, 64, 400, 400, max_pool_params::square(3, 2, 1), layout},
          max_pool_shape{4, 256, 20, 20, max_pool_params::square(5, 1, 2), layout}}) {
      add<float>(shape);
      add<bfloat16>(shape);
    }
  show_in_figures("max_pool(_grad)?/(nhwc/)?f32/1x64x400x400_3x2");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
