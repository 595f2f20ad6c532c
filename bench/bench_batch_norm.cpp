// SPDX-License-Identifier: Apache-2.0
// Batch normalisation with SiLU and its gradients, as in the stages of a YOLO for four images of
// 640 x 640. Elements are inputs.
//
// Bound for 4x128x80x80 in bfloat16: 13 MB are read and 6.6 MB written; in the gradient, 26 MB are
// read and 6.6 MB written.
#include "plain/batch_norm.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/batch_norm.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace vecdet::bench {
namespace {

struct norm_shape {
  index_t images, channels, height, width;

  index_t size() const { return images * channels * height * width; }
  std::string name() const {
    std::string text;
    for (const index_t side : {images, channels, height, width})
      text += (text.empty() ? "" : "x") + std::to_string(side);
    return text;
  }
};

template <class T>
struct norm_operands {
  using real = compute_type<T>;
  norm_shape shape;
  feature_layout layout;
  std::vector<T> input, upstream, output, grad;
  std::vector<real> weight, bias, weight_grad, bias_grad;
  std::vector<double> statistics;
  batch_norm_params params;
  batch_norm_workspace workspace;

  norm_operands(const norm_shape& of, feature_layout how)
      : shape(of),
        layout(how),
        input(static_cast<std::size_t>(of.size())),
        upstream(input.size()),
        output(input.size()),
        grad(input.size()),
        weight(static_cast<std::size_t>(of.channels)),
        bias(weight.size()),
        weight_grad(weight.size()),
        bias_grad(weight.size()),
        statistics(2 * weight.size()) {
    params.epsilon = 1e-3;
    params.activation = batch_norm_activation::silu;
    random_generator random(1);
    for (T& x : input) x = T(static_cast<real>(random.uniform(-1, 2)));
    for (T& x : upstream) x = T(static_cast<real>(random.uniform(-1, 1)));
    for (real& x : weight) x = static_cast<real>(random.uniform(0.5, 1.5));
    for (real& x : bias) x = static_cast<real>(random.uniform(-1, 1));
    forward(threading::parallel);
  }
  template <class U>
  feature_view<U> map(U* data) const {
    return {data, shape.images, shape.channels, shape.height, shape.width, layout};
  }
  void forward(threading policy) {
    batch_norm(map<const T>(input.data()), vector_view<const real>(weight),
               vector_view<const real>(bias), map(output.data()), statistics, params, workspace,
               policy);
  }
  void backward(threading policy) {
    batch_norm_grad(map<const T>(upstream.data()), map<const T>(input.data()),
                    vector_view<const real>(weight), vector_view<const real>(bias), statistics,
                    map(grad.data()), weight_grad, bias_grad, params, workspace, policy);
  }
};

/// The operands of the current problem; the previous ones of the type are freed.
template <class T>
std::shared_ptr<norm_operands<T>> make_operands(const norm_shape& shape, feature_layout layout) {
  static std::shared_ptr<norm_operands<T>> current;
  if (current != nullptr && current->shape.name() == shape.name() && current->layout == layout)
    return current;
  current.reset();
  current = std::make_shared<norm_operands<T>>(shape, layout);
  return current;
}

template <class T>
void add(const norm_shape& shape, feature_layout layout) {
  using operands = norm_operands<T>;
  const bool channels_last = layout == feature_layout::nhwc;
  const auto amount = [&](double accesses) {
    return work{static_cast<double>(shape.size()),
                accesses * static_cast<double>(shape.size()) * sizeof(T)};
  };
  const std::string rest =
      std::string("/") + dtype_name<T>() + (channels_last ? "/nhwc/" : "/") + shape.name();
  const auto prepare = [=] { return make_operands<T>(shape, layout); };
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
  for (const norm_shape& shape : {norm_shape{4, 128, 80, 80}, norm_shape{4, 512, 20, 20}})
    for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
      add<float>(shape, layout);
      add<bfloat16>(shape, layout);
    }
  show_in_figures("batch_norm_silu(_grad)?/f32/(nhwc/)?4x128x80x80");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
