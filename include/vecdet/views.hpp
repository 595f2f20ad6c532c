// SPDX-License-Identifier: Apache-2.0
// Non-owning views of the caller's memory. A view is a pointer with 64-bit sizes. It is cheap to
// copy. The caller must keep the memory alive. T is const for inputs; a view of T converts to a
// view of const T. The constructors throw if a size is negative or beyond 64-bit addresses, or if
// the pointer is null although there are elements.
//
// Any contiguous container converts to vector_view, boxes_view and labels_view. Such a container is
// a class with data(), size() and consecutive elements, such as std::vector, std::array, std::span
// or your own tensor. Containers of std::array<T, 4> and of your own structs (box_layout.hpp)
// convert to boxes_view, too. Containers with strides, including matrix_view, are rejected at
// compile time, because the stride would be lost. If there are no gaps, pass pointer and size;
// otherwise see split_detections(). feature_view is rejected, too, because its shape would be lost.
// Eigen's vectors convert, and so do its row-major matrices with a fixed number of columns.
//
// A temporary that owns its elements may be an argument of a call. It may not be assigned to a view
// or to a member (see lasting), because its elements are destroyed at the end of the statement. If
// a named view is initialised with such a temporary, Clang warns (-Wdangling), GCC does not.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/contiguous.hpp>
#include <vecdet/value_of.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace vecdet {
inline namespace VECDET_ABI {

using index_t = std::int64_t;
struct bfloat16;

namespace detail {

/// The greatest number of elements whose size in bytes fits into 64 bits.
template <class T>
constexpr index_t max_elements = std::numeric_limits<index_t>::max() / index_t{sizeof(T)};

/// The number of boxes in a container of numbers or of boxes. Error messages name the argument, or,
/// if `line` is given, the place in the caller's source where the container became a view.
template <class Container>
index_t count_boxes(const Container& container, const char* function, const char* argument,
                    int line = 0) {
  const index_t size = static_cast<index_t>(container.size());
  if constexpr (coordinates_in<element_of<const Container>>::count == 4) return size;
  if (size % 4 != 0) {
    throw_invalid_argument(
        function,
        line == 0 ? std::string(argument) + ".size()"
                  : std::string("the container's size at ") + argument + ":" + std::to_string(line),
        size, "a multiple of 4, the numbers of a box");
  }
  return size / 4;
}

/// The coordinates of a container of numbers or of boxes.
template <class Container>
coordinate_in<Container>* coordinates_of(Container& container) {
  if constexpr (coordinates_in<element_of<Container>>::count == 1)
    return container.data();
  else
    return reinterpret_cast<coordinate_in<Container>*>(container.data());
}

}  // namespace detail

/// `size` consecutive elements.
template <class T>
class vector_view : detail::borrows {
 public:
  constexpr vector_view() noexcept = default;

  template <class Pointer, class Size, detail::require_pointers<T, Pointer> = 0,
            detail::require_sizes<Size> = 0>
  vector_view(Pointer data, Size size) : data_(data), size_(static_cast<index_t>(size)) {
    detail::check(size_ >= 0 && size_ <= detail::max_elements<T>, "vector_view", "size", size_,
                  "0 or more, and at most what memory can address");
    detail::check(data_ != nullptr || size_ == 0, "vector_view", "data", "null",
                  "memory of `size` elements");
  }
  template <class U, class Size, detail::require_other_pointers<U, T> = 0,
            detail::require_sizes<Size> = 0>
  vector_view(U* has_another_element_type, Size size) = delete;

  template <class Container, detail::require_contiguous<Container> = 0,
            detail::require_seen_as<detail::element_of<Container>, T> = 0,
            detail::require_lasting<Container> = 0>
  vector_view(Container&& container) : vector_view(container.data(), container.size()) {}
  template <class Container, detail::require_contiguous<Container> = 0,
            detail::require_seen_as<detail::element_of<Container>, T> = 0,
            detail::require_temporary_owner<Container> = 0>
  vector_view(Container&& container VECDET_LIFETIMEBOUND)
      : vector_view(container.data(), container.size()) {}
  template <class Container, detail::require_strided<Container> = 0>
  vector_view(Container&& has_strides) = delete;
  template <class Container, detail::require_other_numbers<Container, T> = 0>
  vector_view(Container&& has_another_element_type) = delete;

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
template <class Container, detail::require_contiguous<Container> = 0>
vector_view(Container&&) -> vector_view<detail::element_of<Container>>;

/// `rows` x `cols` elements; element (i, j) is data[i * stride + j]. The stride, in elements, is at
/// least `cols`. Memory between the rows is never accessed.
template <class T>
class matrix_view {
 public:
  constexpr matrix_view() noexcept = default;

  template <class Pointer, class Rows, class Cols, detail::require_pointers<T, Pointer> = 0,
            detail::require_sizes<Rows, Cols> = 0>
  matrix_view(Pointer data, Rows rows, Cols cols) : matrix_view(data, rows, cols, cols) {}

  template <class Pointer, class Rows, class Cols, class Stride,
            detail::require_pointers<T, Pointer> = 0, detail::require_sizes<Rows, Cols, Stride> = 0>
  matrix_view(Pointer data, Rows rows, Cols cols, Stride stride)
      : data_(data),
        rows_(static_cast<index_t>(rows)),
        cols_(static_cast<index_t>(cols)),
        stride_(static_cast<index_t>(stride)) {
    detail::check(rows_ >= 0, "matrix_view", "rows", rows_, "0 or more");
    detail::check(cols_ >= 0, "matrix_view", "cols", cols_, "0 or more");
    detail::check(stride_ >= cols_, "matrix_view", "stride", stride_,
                  "the number of columns or more");
    detail::check(rows_ == 0 || stride_ <= detail::max_elements<T> / rows_, "matrix_view", "rows",
                  rows_, "at most as many as memory can address with this stride");
    detail::check(data != nullptr || rows_ == 0 || cols_ == 0, "matrix_view", "data", "null",
                  "memory of rows x stride elements");
  }
  template <class U, class... Sizes, detail::require_other_pointers<U, T> = 0,
            detail::require_sizes<Sizes...> = 0>
  matrix_view(U* has_another_element_type, Sizes... sizes) = delete;

  template <class U, detail::require_seen_as<U, T> = 0>
  constexpr matrix_view(const matrix_view<U>& other) noexcept
      : data_(other.data()), rows_(other.rows()), cols_(other.cols()), stride_(other.stride()) {}
  template <class U, detail::require_other_pointers<U, T> = 0>
  matrix_view(const matrix_view<U>& has_another_element_type) = delete;

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

template <class T, class Rows, class Cols>
matrix_view(T*, Rows, Cols) -> matrix_view<T>;
template <class T, class Rows, class Cols, class Stride>
matrix_view(T*, Rows, Cols, Stride) -> matrix_view<T>;

/// `size` consecutive boxes of four numbers each: x1 y1 x2 y2, unless a function documents another
/// format. Coordinate k of box i is view(i, k).
template <class T>
class boxes_view : detail::counts_boxes {
 public:
  constexpr boxes_view() noexcept = default;

  template <class Pointer, class Size, detail::require_pointers<T, Pointer> = 0,
            detail::require_sizes<Size> = 0>
  boxes_view(Pointer data, Size size) : data_(data), size_(static_cast<index_t>(size)) {
    detail::check(size_ >= 0 && size_ <= detail::max_elements<T> / 4, "boxes_view", "size", size_,
                  "0 or more, and at most what memory can address");
    detail::check(data_ != nullptr || size_ == 0, "boxes_view", "data", "null",
                  "memory of `size` x 4 elements");
  }
  template <class U, class Size, detail::require_other_pointers<U, T> = 0,
            detail::require_sizes<Size> = 0>
  boxes_view(U* has_another_element_type, Size size) = delete;

  template <class Container, detail::require_boxes_of<Container, T> = 0,
            detail::require_lasting<Container> = 0>
  boxes_view(Container&& container, const char* file = __builtin_FILE(),
             int line = __builtin_LINE())
      : boxes_view(detail::coordinates_of(container),
                   detail::count_boxes(container, "boxes_view", file, line)) {}
  template <class Container, detail::require_boxes_of<Container, T> = 0,
            detail::require_temporary_owner<Container> = 0>
  boxes_view(Container&& container VECDET_LIFETIMEBOUND, const char* file = __builtin_FILE(),
             int line = __builtin_LINE())
      : boxes_view(detail::coordinates_of(container),
                   detail::count_boxes(container, "boxes_view", file, line)) {}
  template <class Container, detail::require_strided<Container> = 0>
  boxes_view(Container&& has_strides) = delete;
  template <class Container, detail::require_other_boxes<Container> = 0>
  boxes_view(Container&& has_no_corners_use_convert_boxes) = delete;
  template <class Container, detail::require_other_numbers<Container, T> = 0>
  boxes_view(Container&& has_another_element_type) = delete;

  template <class U, detail::require_seen_as<U, T> = 0>
  constexpr boxes_view(const boxes_view<U>& other) noexcept
      : data_(other.data()), size_(other.size()) {}
  template <class U, detail::require_other_pointers<U, T> = 0>
  boxes_view(const boxes_view<U>& has_another_element_type) = delete;

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
template <class Container, detail::require_contiguous<Container> = 0>
boxes_view(Container&&) -> boxes_view<detail::coordinate_in<Container>>;

/// `size` boxes with one array per coordinate (structure of arrays). The planes of a network's
/// output can be used in place, without transposition.
template <class T>
class boxes_soa_view {
 public:
  constexpr boxes_soa_view() noexcept = default;

  template <class X1, class Y1, class X2, class Y2, class Size,
            detail::require_pointers<T, X1, Y1, X2, Y2> = 0, detail::require_sizes<Size> = 0>
  boxes_soa_view(X1 x1, Y1 y1, X2 x2, Y2 y2, Size size)
      : coordinates_{x1, y1, x2, y2}, size_(static_cast<index_t>(size)) {
    detail::check(size_ >= 0 && size_ <= detail::max_elements<T> / 4, "boxes_soa_view", "size",
                  size_, "0 or more, and at most what memory can address");
    constexpr const char* names[] = {"x1", "y1", "x2", "y2"};
    for (int k = 0; k < 4; ++k)
      detail::check(coordinates_[k] != nullptr || size_ == 0, "boxes_soa_view", names[k], "null",
                    "memory of `size` elements");
  }
  template <class U, class Size, detail::require_other_pointers<U, T> = 0,
            detail::require_sizes<Size> = 0>
  boxes_soa_view(U* has_another_element_type, U*, U*, U*, Size size) = delete;

  template <class U, detail::require_seen_as<U, T> = 0>
  constexpr boxes_soa_view(const boxes_soa_view<U>& other) noexcept
      : coordinates_{other.coordinates(0), other.coordinates(1), other.coordinates(2),
                     other.coordinates(3)},
        size_(other.size()) {}
  template <class U, detail::require_other_pointers<U, T> = 0>
  boxes_soa_view(const boxes_soa_view<U>& has_another_element_type) = delete;

  /// Coordinate k of all boxes.
  constexpr T* coordinates(index_t k) const noexcept { return coordinates_[k]; }
  constexpr index_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T& operator()(index_t i, index_t k) const noexcept { return coordinates_[k][i]; }

 private:
  T* coordinates_[4] = {};
  index_t size_ = 0;
};

template <class T, class Size>
boxes_soa_view(T*, T*, T*, T*, Size) -> boxes_soa_view<T>;

namespace detail {

template <class T>
constexpr bool is_number = std::is_arithmetic<T>::value || std::is_same<T, bfloat16>::value;

template <class T>
T coordinate_in_view(const boxes_view<T>&);

/// The type of Boxes' coordinates, or nothing if they are not boxes.
template <class Boxes, class = void>
struct coordinate_type {};
template <class Boxes>
struct coordinate_type<Boxes,
                       std::void_t<decltype(coordinate_in_view(std::declval<const Boxes&>()))>> {
  using type = std::remove_const_t<decltype(coordinate_in_view(std::declval<const Boxes&>()))>;
};
template <class Boxes>
struct coordinate_type<
    Boxes, std::enable_if_t<has<require_contiguous, const Boxes> && has<element_of, const Boxes>>> {
  using type = std::remove_const_t<coordinate_in<const Boxes>>;
  static_assert(is_number<type>, "these are not boxes: specialise vecdet::box_layout for them");
};

}  // namespace detail

/// The coordinate type of an argument that converts to a view of boxes: boxes_view, a container of
/// numbers, or a container of boxes.
template <class Boxes>
using coordinate_of = typename detail::coordinate_type<Boxes>::type;
/// The element type of an argument that converts to vector_view.
template <class Numbers>
using number_of =
    std::remove_const_t<std::enable_if_t<detail::has<detail::require_contiguous, const Numbers>,
                                         detail::element_of<const Numbers>>>;

namespace detail {

template <class Boxes>
using require_boxes = std::enable_if_t<!std::is_void<coordinate_of<Boxes>>::value, int>;
template <class Numbers>
using require_numbers = std::enable_if_t<!std::is_void<number_of<Numbers>>::value, int>;

/// The format of the boxes in an argument, given by their type.
template <class Boxes>
constexpr box_format format_of() {
  if constexpr (!std::is_base_of<counts_boxes, Boxes>::value)
    return coordinates_in<element_of<const Boxes>>::format;
  return box_format::xyxy;
}

/// An argument of a function as a view of its boxes, in any format.
template <class Boxes>
boxes_view<const coordinate_of<Boxes>> any_boxes_in(const Boxes& boxes, const char* function,
                                                    const char* argument) {
  if constexpr (std::is_base_of<counts_boxes, Boxes>::value)
    return boxes;
  else
    return {coordinates_of(boxes), count_boxes(boxes, function, argument)};
}

/// The same for functions that take corners.
template <class Boxes>
boxes_view<const coordinate_of<Boxes>> boxes_in(const Boxes& boxes, const char* function,
                                                const char* argument) {
  static_assert(format_of<Boxes>() == box_format::xyxy,
                "boxes must be corners here: convert other formats with convert_boxes()");
  return any_boxes_in(boxes, function, argument);
}

}  // namespace detail

/// A view for members, e.g. of parameters. A member lives longer than the statement that sets it,
/// so it rejects temporaries that own their elements. In all other ways it is a View.
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
  lasting(Viewed&& viewed, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : View(made_of(std::forward<Viewed>(viewed), file, line)) {}
  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  lasting(Owner&& ends_with_the_statement) = delete;
  template <class Container, detail::require_other_container<Container, View> = 0>
  lasting(Container&& has_another_element_type) = delete;

 private:
  template <class Viewed>
  static View made_of(Viewed&& viewed, const char* file, int line) {
    if constexpr (std::is_constructible<View, Viewed&&, const char*, int>::value)
      return View(std::forward<Viewed>(viewed), file, line);
    else
      return View(std::forward<Viewed>(viewed));
  }
};

}  // namespace VECDET_ABI
}  // namespace vecdet
