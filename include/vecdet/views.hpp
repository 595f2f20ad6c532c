// SPDX-License-Identifier: Apache-2.0
// Non-owning views of the caller's memory. A view is a pointer with 64-bit sizes: copy it freely,
// keep the memory alive. T is const for inputs; a view of T converts to a view of const T. A
// negative size, one beyond 64-bit addresses, or a null pointer with elements is an error when the
// view is made.
#pragma once

#include <vecdet/detail/check.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace vecdet {

using index_t = std::int64_t;

namespace detail {

/// As many as there can be: whatever counts elements or bytes stays in 64 bits.
template <class T>
constexpr index_t max_elements = std::numeric_limits<index_t>::max() / index_t{sizeof(T)};

template <class Container>
using element_of = std::remove_pointer_t<decltype(std::declval<Container&>().data())>;

/// The four coordinates of boxes, each in an array of its own, from box `first` on: one number to
/// move on by, not four pointers.
template <class T>
struct coordinate_arrays {
  T* of[4];
  index_t first = 0;

  constexpr T* at(int k) const noexcept { return of[k] + first; }
};

/// Bears the data() and size() of a container, but counts in boxes.
struct counts_boxes {};

/// Any class with data() and size() whose elements may be seen through a T*: std::vector,
/// std::array, std::span, or a trainer's own tensor.
template <class Container, class T>
using require_contiguous =
    std::enable_if_t<std::is_convertible<element_of<Container> (*)[], T (*)[]>::value &&
                     std::is_integral<decltype(std::declval<Container&>().size())>::value &&
                     !std::is_base_of<counts_boxes, std::decay_t<Container>>::value>;

}  // namespace detail

/// `size` elements, one after the other.
template <class T>
class vector_view {
 public:
  constexpr vector_view() noexcept = default;

  vector_view(T* data, index_t size) : data_(data), size_(size) {
    detail::check(size >= 0 && size <= detail::max_elements<T>, "vector_view", "size", size,
                  "0 or more, and so many that they have addresses");
    detail::check(data != nullptr || size == 0, "vector_view", "data", "null",
                  "memory of `size` elements");
  }

  template <class Container, class = detail::require_contiguous<Container, T>>
  vector_view(Container&& container)
      : vector_view(container.data(), static_cast<index_t>(container.size())) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr index_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T& operator[](index_t i) const noexcept { return data_[i]; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }

 private:
  T* data_ = nullptr;
  index_t size_ = 0;
};

/// `rows` x `cols` elements; element (i, j) lies at data[i * stride + j]. The stride, counted in
/// elements, is at least `cols`; what lies between the rows is never touched.
template <class T>
class matrix_view {
 public:
  constexpr matrix_view() noexcept = default;

  matrix_view(T* data, index_t rows, index_t cols) : matrix_view(data, rows, cols, cols) {}

  matrix_view(T* data, index_t rows, index_t cols, index_t stride)
      : data_(data), rows_(rows), cols_(cols), stride_(stride) {
    detail::check(rows >= 0, "matrix_view", "rows", rows, "0 or more");
    detail::check(cols >= 0, "matrix_view", "cols", cols, "0 or more");
    detail::check(stride >= cols, "matrix_view", "stride", stride, "the number of columns or more");
    detail::check(rows == 0 || stride <= detail::max_elements<T> / rows, "matrix_view", "rows",
                  rows, "so many that rows x stride elements have addresses");
    detail::check(data != nullptr || rows == 0 || cols == 0, "matrix_view", "data", "null",
                  "memory of rows x stride elements");
  }

  template <class U, class = std::enable_if_t<std::is_convertible<U (*)[], T (*)[]>::value>>
  constexpr matrix_view(const matrix_view<U>& other) noexcept
      : data_(other.data()), rows_(other.rows()), cols_(other.cols()), stride_(other.stride()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr index_t rows() const noexcept { return rows_; }
  constexpr index_t cols() const noexcept { return cols_; }
  constexpr index_t stride() const noexcept { return stride_; }
  constexpr index_t size() const noexcept { return rows_ * cols_; }
  constexpr bool empty() const noexcept { return rows_ == 0 || cols_ == 0; }
  constexpr T* row(index_t i) const noexcept { return data_ + i * stride_; }
  constexpr T& operator()(index_t i, index_t j) const noexcept { return data_[i * stride_ + j]; }

 private:
  T* data_ = nullptr;
  index_t rows_ = 0;
  index_t cols_ = 0;
  index_t stride_ = 0;
};

/// `size` boxes of four numbers each, one box after the other: x1 y1 x2 y2 unless a function says
/// otherwise. Coordinate k of box i is view(i, k).
template <class T>
class boxes_view : detail::counts_boxes {
 public:
  constexpr boxes_view() noexcept = default;

  boxes_view(T* data, index_t size) : data_(data), size_(size) {
    detail::check(size >= 0 && size <= detail::max_elements<T> / 4, "boxes_view", "size", size,
                  "0 or more, and so many that they have addresses");
    detail::check(data != nullptr || size == 0, "boxes_view", "data", "null",
                  "memory of `size` x 4 elements");
  }

  template <class Container, class = detail::require_contiguous<Container, T>>
  boxes_view(Container&& container)
      : boxes_view(container.data(), static_cast<index_t>(container.size() / 4)) {
    detail::check(container.size() % 4 == 0, "boxes_view", "container.size()", container.size(),
                  "a multiple of 4");
  }

  template <class U, class = std::enable_if_t<std::is_convertible<U (*)[], T (*)[]>::value>>
  constexpr boxes_view(const boxes_view<U>& other) noexcept
      : data_(other.data()), size_(other.size()) {}

  constexpr T* data() const noexcept { return data_; }
  /// The number of boxes, not of elements.
  constexpr index_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T* operator[](index_t i) const noexcept { return data_ + 4 * i; }
  constexpr T& operator()(index_t i, index_t k) const noexcept { return data_[4 * i + k]; }

 private:
  T* data_ = nullptr;
  index_t size_ = 0;
};

/// `size` boxes whose coordinates lie in four arrays, as the planes of a network's output do:
/// nothing needs to be transposed.
template <class T>
class boxes_soa_view {
 public:
  constexpr boxes_soa_view() noexcept = default;

  boxes_soa_view(T* x1, T* y1, T* x2, T* y2, index_t size)
      : data_{{x1, y1, x2, y2}, 0}, size_(size) {
    detail::check(size >= 0 && size <= detail::max_elements<T> / 4, "boxes_soa_view", "size", size,
                  "0 or more, and so many that they have addresses");
    constexpr const char* names[] = {"x1", "y1", "x2", "y2"};
    for (int k = 0; k < 4; ++k)
      detail::check(data_.of[k] != nullptr || size == 0, "boxes_soa_view", names[k], "null",
                    "memory of `size` elements");
  }

  template <class U, class = std::enable_if_t<std::is_convertible<U (*)[], T (*)[]>::value>>
  constexpr boxes_soa_view(const boxes_soa_view<U>& other) noexcept
      : data_{{other.data().of[0], other.data().of[1], other.data().of[2], other.data().of[3]}, 0},
        size_(other.size()) {}

  constexpr const detail::coordinate_arrays<T>& data() const noexcept { return data_; }
  constexpr index_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T& operator()(index_t i, index_t k) const noexcept { return data_.of[k][i]; }

 private:
  detail::coordinate_arrays<T> data_{};
  index_t size_ = 0;
};

}  // namespace vecdet
