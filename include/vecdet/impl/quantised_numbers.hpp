// SPDX-License-Identifier: Apache-2.0
// Matrices of floats and quantised matrices, for functions that take both: their types, parts and
// searches.
#pragma once

#include <vecdet/args/quantised_outputs.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/quantised_matrix.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/quantised_outputs/quantised_outputs.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class Matrix>
constexpr bool is_quantised = false;
template <class T>
constexpr bool is_quantised<quantised_matrix<T>> = true;

/// Whether the elements of a matrix_view or a quantised_matrix are floats, bfloat16, or integers
/// with a scale.
template <class Matrix>
constexpr bool has_numbers = is_quantised<Matrix>;
template <class T>
constexpr bool has_numbers<matrix_view<T>> =
    std::is_same<value_of<T>, float>::value || std::is_same<value_of<T>, bfloat16>::value;

template <class T>
value_of<T> number_in_matrix(const matrix_view<T>&);
/// The type of the numbers of a matrix_view, without const.
template <class Matrix>
using number_in = decltype(number_in_matrix(std::declval<const Matrix&>()));

/// The name of the numbers' type in problem names.
template <class T>
constexpr const char* dtype_of(const matrix_view<T>&) {
  return dtype_name<value_of<T>>();
}
template <class T>
constexpr const char* dtype_of(const quantised_matrix<T>&) {
  return std::is_signed<T>::value ? "i8" : "u8";
}

template <class T>
index_t bytes_of(const matrix_view<T>& matrix) {
  return matrix.size() * index_t{sizeof(T)};
}
template <class T>
index_t bytes_of(const quantised_matrix<T>& matrix) {
  return matrix.size();
}

/// `count` rows of a matrix.
template <class T>
matrix_view<T> part_of_rows(const matrix_view<T>& matrix, index_t first, index_t count) {
  return {matrix.row(first), count, matrix.cols(), matrix.stride()};
}
template <class T>
quantised_matrix<T> part_of_rows(const quantised_matrix<T>& matrix, index_t first, index_t count) {
  return {part_of_rows(matrix.stored(), first, count), matrix.scale(), matrix.zero_point()};
}

/// A quantised matrix, as its kernels see it.
template <class T>
class quantised_numbers {
  static constexpr int least = std::numeric_limits<T>::min();

 public:
  explicit quantised_numbers(const quantised_matrix<T>& matrix) : matrix_(matrix) {
    for (int rank = 0; rank < 256; ++rank) numbers_[rank] = matrix.number(rank + least);
  }

  const std::uint8_t* bytes(index_t row) const {
    return reinterpret_cast<const std::uint8_t*>(matrix_.stored().row(row));
  }
  /// Arguments of a search without its memory and its thresholds. They point into this object.
  quantised_search_args search_args() const {
    quantised_search_args args{};
    args.numbers = numbers_;
    args.flip = least < 0 ? 0x80 : 0;
    args.stride = matrix_.stored().stride();
    return args;
  }

 private:
  const quantised_matrix<T>& matrix_;
  float numbers_[256];
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
