// SPDX-License-Identifier: Apache-2.0
// What views convert from: which containers hold their elements one after the other, and which of
// them are temporaries that take their elements with them.
#pragma once

#include <vecdet/detail/target.hpp>

#include <type_traits>
#include <utility>
#if __cplusplus >= 202002L
#include <span>  // and with it std::ranges::enable_borrowed_range
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The base of views, which outlive nothing.
struct borrows {};
/// Bears the data() and size() of a container, but counts in boxes.
struct counts_boxes : borrows {};
/// Bears them as well, but has a shape, which would be lost.
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

// How classes name the distances of their elements.
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

/// A class of Eigen whose type says that nothing lies between its elements, which go row by row.
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
/// What would be contiguous without strides.
template <class Container>
using require_strided = std::enable_if_t<
    std::is_integral<size_of<Container>>::value && has_strides<std::decay_t<Container>>, int>;
/// Whether a U may be seen through a T*.
template <class U, class T>
using require_seen_as = std::enable_if_t<std::is_convertible<U (*)[], T (*)[]>::value, int>;

// ---- pointers and sizes

/// A pointer to T, or nullptr; not 0, which in { 0, 0 } is an element to whoever writes it.
template <class Pointer, class T>
using require_pointer = std::enable_if_t<std::is_convertible<Pointer, T*>::value, int>;
/// Any integers: { data, vector.size() } narrows nothing.
template <class... Sizes>
using require_sizes = std::enable_if_t<(std::is_integral<Sizes>::value && ...), int>;

// ---- temporaries

#if defined(__cpp_lib_ranges)
template <class C>
constexpr bool is_borrowed_range = std::ranges::enable_borrowed_range<C>;
#else
template <class C>
constexpr bool is_borrowed_range = false;
#endif

/// Whether `Container`, unless a reference, is a temporary with data() of its own. Where a constant
/// one has elements that are not constant, they are not its own.
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

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
