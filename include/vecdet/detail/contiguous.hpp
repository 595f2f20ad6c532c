// SPDX-License-Identifier: Apache-2.0
// Traits of containers for the conversions to views: which containers are contiguous, which contain
// boxes, and which are temporaries that own their elements.
#pragma once

#include <vecdet/box_layout.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/value_of.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>
#if __cplusplus >= 202002L
#include <span>  // and with it std::ranges::enable_borrowed_range
#endif

// Makes Clang warn if a view is initialised with a temporary that owns its elements.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define VECDET_LIFETIMEBOUND [[clang::lifetimebound]]
#endif
#endif
#if !defined(VECDET_LIFETIMEBOUND)
#define VECDET_LIFETIMEBOUND
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The base of views, which do not own their elements.
struct borrows {};
/// The base of views with data() and size() like a container, where size() counts boxes.
struct counts_boxes : borrows {};
/// The base of views with data() and size() and also a shape, which a conversion would lose.
struct has_shape : borrows {};

// ---- contiguous containers

template <class Container>
using element_of = std::remove_pointer_t<decltype(std::declval<Container&>().data())>;
template <class Container>
using size_of = decltype(std::declval<Container&>().size());

/// Whether Member<Class> is a type.
template <template <class> class Member, class Class, class = void>
constexpr bool has = false;
template <template <class> class Member, class Class>
constexpr bool has<Member, Class, std::void_t<Member<Class>>> = true;

// The usual names of members that return strides.
template <class C>
using stride_call = decltype(std::declval<C&>().stride());
template <class C>
using stride_of_axis_call = decltype(std::declval<C&>().stride(0));
template <class C>
using strides_call = decltype(std::declval<C&>().strides());
template <class C>
using inner_stride_call = decltype(std::declval<C&>().innerStride());
template <class C>
using stride_number = decltype(std::declval<C&>().stride);
template <class C>
using strides_array = decltype(std::declval<C&>().strides);

/// An Eigen class whose type guarantees row-major elements without gaps.
template <class C, class = void>
constexpr bool is_packed = false;
template <class C>
constexpr bool is_packed<C, std::void_t<decltype(C::InnerStrideAtCompileTime)>> =
    int{C::InnerStrideAtCompileTime} == 1 &&
    (bool{C::IsVectorAtCompileTime} ||
     (bool{C::IsRowMajor} && int{C::ColsAtCompileTime} > 0 &&
      int{C::OuterStrideAtCompileTime} == int{C::ColsAtCompileTime}));

template <class C>
constexpr bool has_strides =
    !is_packed<C> && (has<stride_call, C> || has<stride_of_axis_call, C> || has<strides_call, C> ||
                      has<inner_stride_call, C> || has<stride_number, C> || has<strides_array, C>);

/// A class, or a reference to one, with data() and a size() that counts elements.
template <class Container>
using require_contiguous =
    std::enable_if_t<std::is_integral<size_of<Container>>::value &&
                         !std::is_base_of<counts_boxes, std::decay_t<Container>>::value &&
                         !std::is_base_of<has_shape, std::decay_t<Container>>::value &&
                         !has_strides<std::decay_t<Container>>,
                     int>;
/// A container with strides that would otherwise count as contiguous.
template <class Container>
using require_strided = std::enable_if_t<
    std::is_integral<size_of<Container>>::value && has_strides<std::decay_t<Container>>, int>;
/// Whether a U may be accessed through a T*.
template <class U, class T>
using require_seen_as = std::enable_if_t<std::is_convertible<U (*)[], T (*)[]>::value, int>;

// ---- pointers and sizes

/// A pointer to T, or nullptr. Not 0, because { 0, 0 } looks like a list of elements. Not a pointer
/// to a class derived from T, whose elements may be larger.
template <class Pointer, class T>
constexpr bool is_pointer_to = std::is_same<Pointer, std::nullptr_t>::value;
template <class U, class T>
constexpr bool is_pointer_to<U*, T> = std::is_convertible<U (*)[], T (*)[]>::value;
template <class T, class... Pointers>
using require_pointers = std::enable_if_t<(is_pointer_to<Pointers, T> && ...), int>;
/// Any integer types, so that { data, vector.size() } is not a narrowing conversion.
template <class... Sizes>
using require_sizes = std::enable_if_t<(std::is_integral<Sizes>::value && ...), int>;

template <class From, class To>
using require_convertible = std::enable_if_t<std::is_convertible<From&&, To>::value, int>;

// ---- boxes and numbers

/// The coordinates in Element, which is a number or a struct with a box_layout: their type, const
/// if Element is, and their number.
template <class Element, class = void>
struct coordinates_in {
  using type = Element;
  static constexpr int count = 1;
  static constexpr box_format format = box_format::xyxy;
};
template <class Element>
struct coordinates_in<Element,
                      std::void_t<typename box_layout<std::remove_const_t<Element>>::coordinate>> {
  using layout = box_layout<std::remove_const_t<Element>>;
  using type = std::conditional_t<std::is_const<Element>::value, const typename layout::coordinate,
                                  typename layout::coordinate>;
  static constexpr int count = 4;
  static constexpr box_format format = layout::format;
  static_assert(sizeof(Element) == 4 * sizeof(type) && std::is_standard_layout<Element>::value,
                "box_layout: a box is four numbers and nothing else");
};
template <class Container>
using coordinate_in = typename coordinates_in<element_of<Container>>::type;

/// A container of numbers or of boxes (corners) that may be accessed as T.
template <class Container, class T>
using require_boxes_of =
    std::enable_if_t<coordinates_in<element_of<Container>>::format == box_format::xyxy &&
                         std::is_convertible<coordinate_in<Container> (*)[], T (*)[]>::value &&
                         has<require_contiguous, Container>,
                     int>;
/// A container of boxes in another format.
template <class Container>
using require_other_boxes =
    std::enable_if_t<coordinates_in<element_of<Container>>::format != box_format::xyxy &&
                         has<require_contiguous, Container>,
                     int>;

/// Whether both are floating-point or both are integers, but different types: a view of one would
/// misread the other.
template <class U, class T>
constexpr bool is_other_number =
    !std::is_same<value_of<U>, value_of<T>>::value &&
    ((std::is_floating_point<U>::value && std::is_floating_point<T>::value) ||
     (std::is_integral<U>::value && std::is_integral<T>::value));
template <class Container, class T>
using require_other_numbers = std::enable_if_t<
    is_other_number<coordinate_in<Container>, T> && has<require_contiguous, Container>, int>;
/// The same for what a pointer points to.
template <class U, class T>
using require_other_pointers = std::enable_if_t<is_other_number<U, T>, int>;

// ---- temporaries

#if defined(__cpp_lib_ranges)
template <class C>
constexpr bool is_borrowed_range = std::ranges::enable_borrowed_range<C>;
#else
template <class C>
constexpr bool is_borrowed_range = false;
#endif

/// Whether `Container`, which is not a reference then, is a temporary that owns its elements. A
/// const container whose elements are not const does not own them.
template <class Container, class = void>
constexpr bool is_temporary_owner = false;
template <class Container>
constexpr bool is_temporary_owner<
    Container, std::void_t<element_of<const std::remove_reference_t<Container>>>> =
    !std::is_lvalue_reference<Container>::value &&
    std::is_const<element_of<const std::remove_reference_t<Container>>>::value &&
    !std::is_base_of<borrows, std::decay_t<Container>>::value &&
    !is_borrowed_range<std::decay_t<Container>>;
template <class Container>
using require_temporary_owner = std::enable_if_t<is_temporary_owner<Container>, int>;
/// A named container that does not convert to View.
template <class Container>
using value_in = typename std::decay_t<Container>::value_type;
template <class Container, class View>
using require_other_container =
    std::enable_if_t<has<value_in, Container> && !std::is_convertible<Container&&, View>::value &&
                         !is_temporary_owner<Container>,
                     int>;
template <class Container>
using require_lasting = std::enable_if_t<!is_temporary_owner<Container>, int>;

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
