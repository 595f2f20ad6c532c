// SPDX-License-Identifier: Apache-2.0
// Batch normalisation with SiLU and its gradients, as in the stages of a YOLO for four images of
// 640 x 640. Elements are inputs.
//
// Bound for 4x128x80x80 in bfloat16: 13 MB are read and 6.6 MB written; in the gradient, 26 MB are
// read and 6.6 MB written.
#include "../test/support/batch_norm_problem.hpp"
#include "plain/batch_norm.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"

#include <string>
#include <type_traits>

namespace vecdet::bench {
namespace {

using test::batch_norm_shape;

template <class T>
struct norm_operands : test::batch_norm_problem<T>, test::batch_norm_results<T> {
  using problem = test::batch_norm_problem<T>;
  using typename problem::real;
  batch_norm_workspace workspace;

  explicit norm_operands(const batch_norm_shape& shape) : problem(shape) {
    this->epsilon = 1e-3;
    this->input = uniform_numbers<T>(shape.size(), 1, 1.5);
    this->upstream = uniform_numbers<T>(shape.size(), 2, 1);
    this->weight = uniform_numbers<real>(shape.channels, 3, 0.5);
    for (real& x : this->weight) x += 1;
    this->bias = uniform_numbers<real>(shape.channels, 4, 1);
    static_cast<test::batch_norm_results<T>&>(*this) = this->room();
    forward(threading::parallel);
  }
  void forward(threading on) { problem::forward(*this, workspace, on); }
  void backward(threading on) { problem::backward(*this, workspace, on); }
};

template <class T>
void add(const batch_norm_shape& shape) {
  using operands = norm_operands<T>;
  const bool channels_last = shape.layout == feature_layout::nhwc;
  const auto amount = [&](double accesses) {
    return work{static_cast<double>(shape.size()),
                accesses * static_cast<double>(shape.size()) * sizeof(T)};
  };
  const std::string rest = std::string("/") + dtype_name<T>() + (channels_last ? "/nhwc/" : "/") +
                           joined({shape.images, shape.channels, shape.height, shape.width});
  const auto prepare = [=] { return current_data<operands>(rest, shape); };
  const auto forward = [](operands& d, threading policy) { d.forward(policy); };
  const auto backward = [](operands& d, threading policy) { d.backward(policy); };
  if constexpr (std::is_same<T, float>::value) {
    const index_t locations = shape.height * shape.width;
    register_with_plain(
        "batch_norm_silu" + rest, amount(3), prepare, forward,
        [=](operands& d) {
          VECDET_PLAIN(plain_batch_norm_silu)
          (d.input.data(), d.weight.data(), d.bias.data(), shape.images, shape.channels, locations,
           channels_last, 1e-3f, d.output.data());
        },
        &operands::output);
    register_with_plain(
        "batch_norm_silu_grad" + rest, amount(5), prepare, backward,
        [=](operands& d) {
          VECDET_PLAIN(plain_batch_norm_silu_grad)
          (d.upstream.data(), d.input.data(), d.weight.data(), d.bias.data(), shape.images,
           shape.channels, locations, channels_last, d.statistics.data(), 1e-3f, d.grad.data());
        },
        &operands::grad);
  } else {
    register_vecdet("batch_norm_silu" + rest, amount(3), prepare, forward);
    register_vecdet("batch_norm_silu_grad" + rest, amount(5), prepare, backward);
  }
}

const bool registered = [] {
  constexpr auto silu = batch_norm_activation::silu;
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc})
    for (const batch_norm_shape& shape : {batch_norm_shape{4, 128, 80, 80, silu, layout},
                                          batch_norm_shape{4, 512, 20, 20, silu, layout}}) {
      add<float>(shape);
      add<bfloat16>(shape);
    }
  show_in_figures("batch_norm_silu(_grad)?/f32/(nhwc/)?4x128x80x80");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
