// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests on PyTorch's tensors.
#pragma once

#include <vecdet/profile/control.hpp>
#include <vecdet/profile/snapshot.hpp>
#include <vecdet/torch.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/autograd/autograd.h>

namespace torch_test {

namespace ops = vecdet::ops;
using at::Tensor;

inline constexpr std::int64_t none = at::Reduction::None, mean = at::Reduction::Mean,
                              sum = at::Reduction::Sum;
inline constexpr std::int64_t reductions[] = {none, mean, sum};
inline constexpr at::ScalarType types[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

inline double tolerance(at::ScalarType type) {
  return type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 2e-2;
}

/// Equal within the tolerance of the type of `a`, relative to the largest element of `b`.
inline bool near(const Tensor& a, const Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  if (a.numel() == 0) return true;
  const Tensor exact = b.detach().to(at::kDouble);
  const double error = (a.detach().to(at::kDouble) - exact).abs().max().item<double>();
  return error <= tolerance(a.scalar_type()) * std::max(1.0, exact.abs().max().item<double>());
}

inline Tensor reduced(const Tensor& losses, std::int64_t reduction) {
  return reduction == none ? losses : reduction == mean ? losses.mean() : losses.sum();
}

/// The gradient of the weighted sum of `loss` with respect to `input`.
inline Tensor gradient(const Tensor& loss, const Tensor& input, const Tensor& weight) {
  return torch::autograd::grad({(loss * weight).sum()}, {input})[0];
}

/// Loss and gradient of two functions of the same input, the second in double.
inline void compare(const std::function<Tensor(const Tensor&)>& ours,
                    const std::function<Tensor(const Tensor&)>& formula, const Tensor& values) {
  const Tensor input = values.detach().requires_grad_();
  const Tensor exact_input = values.detach().to(at::kDouble).requires_grad_();
  const Tensor loss = ours(input), exact = formula(exact_input);
  CHECK((loss.scalar_type() == values.scalar_type()));
  CHECK(loss.requires_grad());
  CHECK(near(loss, exact));
  const Tensor weight = at::rand_like(exact) + 0.5;
  CHECK(near(gradient(loss, input, weight.to(values.scalar_type())),
             gradient(exact, exact_input, weight.to(values.scalar_type()).to(at::kDouble))));
  // Without a gradient, the same loss.
  CHECK(at::equal(ours(values.detach()), loss.detach()));
  const at::NoGradGuard no_grad;
  CHECK(!ours(input).requires_grad());
}

/// One row per label: 1 in its column.
inline Tensor hot_rows(const Tensor& labels, std::int64_t classes) {
  const Tensor columns = at::arange(classes).expand({labels.size(0), classes});
  return (columns == labels.unsqueeze(-1)).to(at::kDouble);
}

/// n boxes of about a tenth of a square of side 100.
inline Tensor some_boxes(std::int64_t n) {
  const Tensor corner = at::rand({n, 2}) * 80, size = at::rand({n, 2}) * 20 + 1;
  return at::cat({corner, corner + size}, 1);
}

/// The message of the exception that a call throws: vecdet's own text.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// The levels of two images with three anchors at each location, in one of the layouts.
struct head {
  std::vector<Tensor> levels;

  head(std::int64_t columns, bool channels_last, at::ScalarType type = at::kFloat) {
    const std::int64_t sizes[][2] = {{6, 5}, {3, 2}, {1, 1}};
    for (const auto& size : sizes) {
      const Tensor level = at::randn({2, 3 * columns, size[0], size[1]}).to(type);
      levels.push_back(level.contiguous(channels_last ? at::MemoryFormat::ChannelsLast
                                                      : at::MemoryFormat::Contiguous));
    }
  }

  /// The same levels as new leaves of the graph.
  std::vector<Tensor> tracked() const {
    std::vector<Tensor> leaves;
    for (const Tensor& level : levels) leaves.push_back(level.detach().requires_grad_());
    return leaves;
  }
};

/// Images x anchors x columns, as in torchvision's heads.
inline Tensor rows_of(const std::vector<Tensor>& levels, std::int64_t columns) {
  std::vector<Tensor> rows;
  for (const Tensor& level : levels) {
    rows.push_back(level.reshape({level.size(0), -1, columns, level.size(2), level.size(3)})
                       .permute({0, 3, 4, 1, 2})
                       .reshape({level.size(0), -1, columns}));
  }
  return at::cat(rows, 1);
}

/// How many tensors a call copies because of their strides or types.
inline int copies(const std::function<void()>& call) {
  namespace profile = vecdet::profile;
  profile::reset();
  profile::enable();
  call();
  profile::disable();
  int count = 0;
  for (const auto& entry : profile::snapshot().entries)
    if (entry.function == "copy_to_contiguous") count += static_cast<int>(entry.count);
  return count;
}

/// Autocast to bfloat16 during its lifetime.
struct autocast {
  autocast() { set(true); }
  ~autocast() {
    at::autocast::clear_cache();
    set(false);
  }
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  static void set(bool enabled) {
#if TORCH_VERSION_MAJOR >= 2
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
#else
    at::autocast::set_cpu_enabled(enabled);
#endif
  }
};

/// The same tensor without data.
inline Tensor without_data(const Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}
inline void check_same_shape(const Tensor& meta, const Tensor& data) {
  CHECK(meta.device().is_meta());
  CHECK(meta.sizes() == data.sizes());
  CHECK(meta.strides() == data.strides());
  CHECK((meta.scalar_type() == data.scalar_type()));
}

}  // namespace torch_test
