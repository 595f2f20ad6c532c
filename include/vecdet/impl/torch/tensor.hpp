// SPDX-License-Identifier: Apache-2.0
// Conversions between tensors and views: threads, checks, element types, strides.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/torch/aten.hpp>
#include <vecdet/impl/torch/translated.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Runs chunks on ATen's threads. Each thread takes the next chunk when it is done.
struct parallel_loop {
  void operator()(index_t count, const task& task) const {
    std::atomic<index_t> next{0};
    const index_t threads = std::min<index_t>(count, at::get_num_threads());
    at::parallel_for(0, threads, 1, [&](index_t, index_t) {
      for (index_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(i);
    });
  }
};
inline constexpr parallel_loop loop{};

/// ATen's threads, or only the calling thread inside a parallel region of ATen.
inline threading threads() {
  const int count = at::in_parallel_region() ? 1 : at::get_num_threads();
  return count == 1 ? threading::sequential : threading::on(loop, count);
}

inline std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// An enumerator from its number.
template <class Enum>
void check_choice(const char* function, const char* argument, Enum value, Enum last,
                  const char* expected) {
  check(static_cast<std::int64_t>(value) >= 0 && value <= last, function, argument,
        static_cast<std::int64_t>(value), expected);
}

inline void check_dense(const char* function, const char* argument, const at::Tensor& tensor) {
  check(tensor.defined(), function, argument, "undefined", "a tensor");
  check(tensor.device().is_cpu(), function, (std::string(argument) + ".device").c_str(),
        tensor.device(), "the CPU");
  check(tensor.layout() == at::kStrided, function, (std::string(argument) + ".layout").c_str(),
        tensor.layout(), "a dense tensor");
}

inline void check_shape(bool holds, const char* function, const char* argument,
                        const at::Tensor& tensor, const char* expected) {
  if (!holds)
    throw_invalid_argument(function, (std::string(argument) + ".shape").c_str(), shape_of(tensor),
                           expected);
}

/// Throws unless the last dimension of boxes has `numbers` numbers, 4 or, of rotated boxes, 5.
inline void check_boxes(const char* function, const char* argument, const at::Tensor& boxes,
                        std::int64_t numbers = 4) {
  check_dense(function, argument, boxes);
  check_shape(boxes.dim() >= 1 && boxes.size(-1) == numbers, function, argument, boxes,
              numbers == 4 ? "[..., 4]" : "[..., 5]");
}

/// The compute type of a tensor: its own, but float for float16.
inline at::ScalarType computed_type(const char* function, const char* argument,
                                    const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  check(type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf,
        function, (std::string(argument) + ".dtype").c_str(), c10::toString(type),
        "float32, float64, bfloat16 or float16");
  return type == at::kHalf ? at::kFloat : type;
}
inline at::ScalarType computed_type(const char* function, const char* a_name, const at::Tensor& a,
                                    const char* b_name, const at::Tensor& b) {
  return c10::promoteTypes(computed_type(function, a_name, a), computed_type(function, b_name, b));
}

/// Calls use(T()) with the element type.
template <class Use>
auto with_element(at::ScalarType type, const Use& use) {
  switch (type) {
    case at::kDouble:
      return use(double());
    case at::kBFloat16:
      return use(bfloat16());
    default:
      return use(float());
  }
}

/// `tensor` itself, or a copy if it has another type or gaps.
inline at::Tensor copied_unless(bool has_no_gaps, const char* argument, const at::Tensor& tensor,
                                at::ScalarType type,
                                at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  if (has_no_gaps && tensor.scalar_type() == type) return tensor;
  const profile::scope timing([&] {
    profile::problem problem;
    problem.function = "copy_to_contiguous";
    problem.variant = argument;
    problem.type = c10::toString(tensor.scalar_type());
    const std::size_t shown = std::min<std::size_t>(4, tensor.sizes().size());
    std::copy_n(tensor.sizes().end() - shown, shown, problem.shape.begin());
    problem.bytes =
        tensor.numel() * static_cast<std::int64_t>(tensor.element_size() + c10::elementSize(type));
    return problem;
  });
  return at::empty(tensor.sizes(), tensor.options().dtype(type), format).copy_(tensor);
}

inline at::Tensor contiguous(const char* argument, const at::Tensor& tensor, at::ScalarType type,
                             at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  return copied_unless(tensor.is_contiguous(format), argument, tensor, type, format);
}

/// The rows of a tensor in the form that kernels read.
struct rows {
  at::Tensor tensor;
  index_t count, size, stride;

  /// Rows along the last dimension. A tensor of one dimension has rows of one element.
  rows(const char* argument, const at::Tensor& of, at::ScalarType type) {
    size = of.dim() < 2 ? 1 : of.size(-1);
    stride = size;
    bool has_row_stride = of.is_contiguous();
    if (!has_row_stride && of.dim() >= 2 && of.numel() > 0) {
      // From the innermost dimension of rows outwards, each stride must cover the whole dimension
      // inside it.
      has_row_stride = of.stride(-1) == 1 || size == 1;
      index_t next = 0, inner = 1;
      for (int64_t d = of.dim() - 2; d >= 0 && has_row_stride; --d) {
        if (of.size(d) == 1) continue;
        if (next == 0) {
          stride = next = of.stride(d);
          has_row_stride = stride >= size;
        } else {
          has_row_stride = of.stride(d) == next * inner;
        }
        inner *= of.size(d);
      }
    }
    tensor = copied_unless(has_row_stride, argument, of, type);
    if (tensor.is_contiguous()) stride = size;
    count = size == 0 ? 0 : tensor.numel() / size;
  }

  template <class T>
  matrix_view<const T> view() const {
    return {static_cast<const T*>(tensor.data_ptr()), count, size, stride};
  }
};

// Views of contiguous tensors.
template <class T>
matrix_view<T> matrix(const at::Tensor& tensor, index_t rows, index_t cols) {
  return {static_cast<T*>(tensor.data_ptr()), rows, cols};
}
template <class T>
boxes_view<T> boxes(const at::Tensor& tensor) {
  return {static_cast<T*>(tensor.data_ptr()), tensor.numel() / 4};
}
template <class T>
vector_view<T> vector(const at::Tensor& tensor) {
  return {static_cast<T*>(tensor.data_ptr()), tensor.numel()};
}

/// One integer per row or box, for `count` of them.
class labels {
 public:
  labels(const char* function, const char* argument, const at::Tensor& tensor, index_t count,
         const char* expected) {
    check_dense(function, argument, tensor);
    check(is_signed_or_short(tensor.scalar_type()), function,
          (std::string(argument) + ".dtype").c_str(), c10::toString(tensor.scalar_type()),
          "integers, of int64, int32, int16, int8 or uint8");
    check_shape(tensor.numel() == count, function, argument, tensor, expected);
    const bool is_narrow = tensor.scalar_type() == at::kInt;
    tensor_ = contiguous(argument, tensor, is_narrow ? at::kInt : at::kLong);
  }

  labels_view view() const {
    return tensor_.scalar_type() == at::kInt
               ? labels_view(static_cast<const std::int32_t*>(tensor_.data_ptr()), tensor_.numel())
               : labels_view(static_cast<const std::int64_t*>(tensor_.data_ptr()), tensor_.numel());
  }
  /// The labels as 64-bit integers.
  vector_view<const index_t> indices() {
    tensor_ = tensor_.to(at::kLong);
    return vector<const index_t>(tensor_);
  }

 private:
  /// Whether int64 can represent all values of the type, unlike those of uint64.
  static bool is_signed_or_short(at::ScalarType type) {
    return type == at::kLong || type == at::kInt || type == at::kShort || type == at::kChar ||
           type == at::kByte;
  }

  at::Tensor tensor_;
};

/// Optional factors, one per row or box, for `count` of them.
class weights {
 public:
  weights(const char* function, const char* argument, const optional_tensor& tensor) {
    if (!tensor.has_value() || !tensor->defined()) return;
    check_dense(function, argument, *tensor);
    check(!at::isComplexType(tensor->scalar_type()), function,
          (std::string(argument) + ".dtype").c_str(), c10::toString(tensor->scalar_type()),
          "real numbers");
    tensor_ = contiguous(argument, *tensor, at::kFloat);
  }
  vector_view<const float> view() const {
    return tensor_.defined() ? vector<const float>(tensor_) : vector_view<const float>();
  }

 private:
  at::Tensor tensor_;
};

/// The offset of each image's elements among those of all images, and the end of the last.
/// @param things the name of the elements in messages
inline std::vector<index_t> image_offsets_from(const char* function, const char* argument,
                                               at::IntArrayRef counts, index_t total,
                                               const char* things) {
  const std::string number = std::to_string(total) + ", the number of " + things;
  std::vector<index_t> offsets{0};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > total - offsets.back()) {
      throw_invalid_argument(function, element(argument, static_cast<index_t>(i)), counts[i],
                             "0 or more, with a total of " + number);
    }
    offsets.push_back(offsets.back() + counts[i]);
  }
  if (offsets.back() != total)
    throw_invalid_argument(function, std::string("the sum of ") + argument, offsets.back(), number);
  return offsets;
}

/// Sets the weights of a coder, a struct of box_coding.hpp; empty: they stay.
template <class Coder>
void set_weights(const char* function, Coder& coder, at::ArrayRef<double> given) {
  check(given.empty() || given.size() == 4, function, "weights.size()", given.size(),
        "4, or 0 for all 1");
  if (given.empty()) return;
  coder.weight_x = given[0];
  coder.weight_y = given[1];
  coder.weight_w = given[2];
  coder.weight_h = given[3];
}

/// A sum as a tensor; infinite if it overflows the type.
inline at::Tensor scalar(double value, at::ScalarType type) {
  const bool is_double = type == at::kDouble;
  const at::Tensor tensor = at::empty({}, is_double ? at::kDouble : at::kFloat);
  if (is_double)
    *static_cast<double*>(tensor.data_ptr()) = value;
  else
    *static_cast<float*>(tensor.data_ptr()) = static_cast<float>(value);
  return tensor.to(type);
}

// New tensors, created in a way that also works with symbolic sizes.

inline at::Tensor new_like(const at::Tensor& tensor) {
  return at::empty_like(tensor, at::TensorOptions(), at::MemoryFormat::Contiguous);
}
inline at::Tensor new_without_last(const at::Tensor& tensor) {
  const auto sizes = tensor.sym_sizes();
  return tensor.new_empty_symint(sizes.slice(0, sizes.empty() ? 0 : sizes.size() - 1));
}
/// Without the first and the last dimension, if there are two.
inline at::Tensor new_without_ends(const at::Tensor& tensor) {
  const auto sizes = tensor.sym_sizes();
  return tensor.new_empty_symint(sizes.size() < 2 ? sizes.slice(0, 0)
                                                  : sizes.slice(1, sizes.size() - 2));
}
/// A gradient with the memory format of `input`, so that it passes back through a transposition, or
/// to channels last, without a copy. It has no elements if it is not needed.
inline at::Tensor new_gradient_like(const at::Tensor& input, bool is_needed) {
  return is_needed ? at::empty_like(input) : at::empty({0}, input.options());
}
/// A contiguous gradient. It has no elements if it is not needed.
inline at::Tensor new_gradient(const at::Tensor& input, bool is_needed) {
  return is_needed ? new_like(input) : at::empty({0}, input.options());
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
