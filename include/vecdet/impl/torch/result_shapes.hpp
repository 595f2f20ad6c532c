// SPDX-License-Identifier: Apache-2.0
// Results for tensors without data, where the table in packaging/torch_operators.py describes them.
#pragma once

#include <vecdet/impl/torch/boxes.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// A result of these sizes and this type, on the device of a tensor.
inline at::Tensor new_result(const at::Tensor& tensor, const std::vector<c10::SymInt>& sizes,
                             at::ScalarType type) {
  return tensor.new_empty_symint(sizes, tensor.options().dtype(type));
}

/// The shape of the first tensor; the same without the last dimension; or the rows of the first
/// tensor x those of the second.
enum class result_shape { like, rows, pairs };

/// The type of the first tensor; that to which both are promoted; that of boxes decoded from the
/// first tensor; float64 for float64, else float32; or float32.
enum class result_type { own, promoted, decoded, wide, float32 };

inline at::ScalarType type_of(result_type type, at::ScalarType a, at::ScalarType b) {
  switch (type) {
    case result_type::promoted:
      return c10::promoteTypes(a, b);
    case result_type::decoded:
      return decoded_type(a, b);
    case result_type::wide:
      return a == at::kDouble ? at::kDouble : at::kFloat;
    case result_type::float32:
      return at::kFloat;
    default:
      return a;
  }
}

/// The second argument if it is a tensor, else the first.
inline const at::Tensor& second_tensor(const at::Tensor& a) { return a; }
template <class Second, class... Others>
const at::Tensor& second_tensor(const at::Tensor& a, const Second& b, const Others&...) {
  if constexpr (std::is_same<Second, at::Tensor>::value)
    return b;
  else
    return a;
}

/// call() has the arguments of `Function`, whose result it describes.
template <auto Function, result_shape Shape, result_type Type>
struct result_of;
template <class... Rest, at::Tensor (*Function)(const at::Tensor&, Rest...), result_shape Shape,
          result_type Type>
struct result_of<Function, Shape, Type> {
  static at::Tensor call(const at::Tensor& a, Rest... rest) {
    const at::Tensor& b = second_tensor(a, rest...);
    const auto given = a.sym_sizes();
    std::vector<c10::SymInt> sizes(given.begin(), given.end());
    if (Shape == result_shape::pairs)
      sizes = {a.sym_size(0), b.sym_size(0)};
    else if (Shape == result_shape::rows && !sizes.empty())
      sizes.pop_back();
    const at::ScalarType type = type_of(Type, a.scalar_type(), b.scalar_type());
    return new_result(a, sizes, type);
  }
};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
