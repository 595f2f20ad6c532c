// SPDX-License-Identifier: Apache-2.0
// Non-owning views of the caller's memory. A view is a pointer with 64-bit sizes: copy it freely,
// keep the memory alive. T is const for inputs; a view of T converts to a view of const T. A
// negative size, one beyond 64-bit addresses, or a null pointer with elements is an error when the
// view is made.
//
// vector_view, boxes_view and labels_view convert from any contiguous container: a class with
// data() and size() whose elements lie one after the other, such as std::vector, std::array,
// std::span, or a tensor of your own. What has strides is refused when compiling, matrix_view first
// of all, as the stride would be lost: give pointer and size where there are no gaps, and see
// split_detections() where there are. feature_view is refused, too, as its shape would be lost.
// Eigen's vectors convert, and its row-major matrices of fixed columns.
//
// A temporary that owns its elements may be an argument of a call. It may not be assigned to a view
// or become a member (see lasting): its elements are gone at the end of the statement.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/contiguous.hpp>
#include <vecdet/value_of.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace vecdet {
inline namespace VECDET_ABI {

using index_t = std::int64_t;

namespace detail {

/// As many as there can be: whatever counts elements or bytes stays in 64 bits.
template <class T>
constexpr index_t max_elements = std::numeric_limits<index_t>::max() / index_t{sizeof(T)};

}  // namespace detail

/// `size` elements, one after the other.
template <class T>
class vector_view : detail::borrows {
 public:
  constexpr vector_view() noexcept = default;

  template <class Pointer, class Size, detail::require_pointer<Pointer, T> = 0,
            detail::require_sizes<Size> = 0>
  vector_view(Pointer data, Size size) : data_(data), size_(static_cast<index_t>(size)) {
    detail::check(size_ >= 0 && size_ <= detail::max_elements<T>, "vector_view", "size", size_,
                  "0 or more, and so many that they have addresses");
    detail::check(data_ != nullptr || size_ == 0, "vector_view", "data", "null",
                  "memory of `size` elements");
  }

  template <class Container, detail::require_contiguous<Container> = 0,
            detail::require_seen_as<detail::element_of<Container>, T> = 0>
  vector_view(Container&& container) : vector_view(container.data(), container.size()) {}
  template <class Container, detail::require_strided<Container> = 0>
  vector_view(Container&& has_strides) = delete;

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  vector_view& operator=(Owner&& ends_with_the_statement) = delete;

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

template <class T, class Size>
vector_view(T*, Size) -> vector_view<T>;

/// `rows` x `cols` elements; element (i, j) lies at data[i * stride + j]. The stride, counted in
/// elements, is at least `cols`; what lies between the rows is never touched.
template <class T>
class matrix_view {
 public:
  constexpr matrix_view() noexcept = default;

  template <class Rows, class Cols, detail::require_sizes<Rows, Cols> = 0>
  matrix_view(T* data, Rows rows, Cols cols) : matrix_view(data, rows, cols, cols) {}

  template <class Rows, class Cols, class Stride, detail::require_sizes<Rows, Cols, Stride> = 0>
  matrix_view(T* data, Rows rows, Cols cols, Stride stride)
      : data_(data),
        rows_(static_cast<index_t>(rows)),
        cols_(static_cast<index_t>(cols)),
        stride_(static_cast<index_t>(stride)) {
    detail::check(rows_ >= 0, "matrix_view", "rows", rows_, "0 or more");
    detail::check(cols_ >= 0, "matrix_view", "cols", cols_, "0 or more");
    detail::check(stride_ >= cols_, "matrix_view", "stride", stride_,
                  "the number of columns or more");
    detail::check(rows_ == 0 || stride_ <= detail::max_elements<T> / rows_, "matrix_view", "rows",
                  rows_, "so many that rows x stride elements have addresses");
    detail::check(data != nullptr || rows_ == 0 || cols_ == 0, "matrix_view", "data", "null",
                  "memory of rows x stride elements");
  }

  template <class U, detail::require_seen_as<U, T> = 0>
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

  template <class Pointer, class Size, detail::require_pointer<Pointer, T> = 0,
            detail::require_sizes<Size> = 0>
  boxes_view(Pointer data, Size size) : data_(data), size_(static_cast<index_t>(size)) {
    detail::check(size_ >= 0 && size_ <= detail::max_elements<T> / 4, "boxes_view", "size", size_,
                  "0 or more, and so many that they have addresses");
    detail::check(data_ != nullptr || size_ == 0, "boxes_view", "data", "null",
                  "memory of `size` x 4 elements");
  }

  template <class Container, detail::require_contiguous<Container> = 0,
            detail::require_seen_as<detail::element_of<Container>, T> = 0>
  boxes_view(Container&& container) : boxes_view(container.data(), container.size() / 4) {
    detail::check(container.size() % 4 == 0, "boxes_view", "container.size()", container.size(),
                  "a multiple of 4");
  }
  template <class Container, detail::require_strided<Container> = 0>
  boxes_view(Container&& has_strides) = delete;

  template <class U, detail::require_seen_as<U, T> = 0>
  constexpr boxes_view(const boxes_view<U>& other) noexcept
      : data_(other.data()), size_(other.size()) {}

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  boxes_view& operator=(Owner&& ends_with_the_statement) = delete;

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

template <class T, class Size>
boxes_view(T*, Size) -> boxes_view<T>;

/// `size` boxes whose coordinates lie in four arrays, as the planes of a network's output do:
/// nothing needs to be transposed.
template <class T>
class boxes_soa_view {
 public:
  constexpr boxes_soa_view() noexcept = default;

  template <class Size, detail::require_sizes<Size> = 0>
  boxes_soa_view(T* x1, T* y1, T* x2, T* y2, Size size)
      : coordinates_{x1, y1, x2, y2}, size_(static_cast<index_t>(size)) {
    detail::check(size_ >= 0 && size_ <= detail::max_elements<T> / 4, "boxes_soa_view", "size",
                  size_, "0 or more, and so many that they have addresses");
    constexpr const char* names[] = {"x1", "y1", "x2", "y2"};
    for (int k = 0; k < 4; ++k)
      detail::check(coordinates_[k] != nullptr || size_ == 0, "boxes_soa_view", names[k], "null",
                    "memory of `size` elements");
  }

  template <class U, detail::require_seen_as<U, T> = 0>
  constexpr boxes_soa_view(const boxes_soa_view<U>& other) noexcept
      : coordinates_{other.coordinates(0), other.coordinates(1), other.coordinates(2),
                     other.coordinates(3)},
        size_(other.size()) {}

  /// Coordinate k of all boxes.
  constexpr T* coordinates(index_t k) const noexcept { return coordinates_[k]; }
  constexpr index_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T& operator()(index_t i, index_t k) const noexcept { return coordinates_[k][i]; }

 private:
  T* coordinates_[4] = {};
  index_t size_ = 0;
};

/// A view that is a member, as those of parameters: it lasts longer than the statement that sets
/// it, and so takes no temporary that owns its elements. Otherwise it is its View.
template <class View>
class lasting : public View {
 public:
  constexpr lasting() noexcept = default;

  template <class Pointer, class Size,
            std::enable_if_t<std::is_constructible<View, Pointer, Size>::value, int> = 0>
  lasting(Pointer data, Size size) : View(data, size) {}

  template <class Viewed, std::enable_if_t<std::is_convertible<Viewed&&, View>::value &&
                                               !detail::is_temporary_owner<Viewed>,
                                           int> = 0>
  lasting(Viewed&& viewed) : View(std::forward<Viewed>(viewed)) {}
  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  lasting(Owner&& ends_with_the_statement) = delete;
};

}  // namespace VECDET_ABI
}  // namespace vecdet
