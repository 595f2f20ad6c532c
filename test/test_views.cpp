// SPDX-License-Identifier: Apache-2.0
// Types that convert to views, and properties that views keep. Code that must not compile is in
// must_not_compile/.
#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include <doctest/doctest.h>

using namespace vecdet;

namespace {

/// A user's struct of four floats, and one laid out like cv::Rect2f.
struct corner_box {
  float left, top, right, bottom;
};
struct rect {
  float x, y, width, height;
};

}  // namespace

template <>
struct vecdet::box_layout<corner_box> : vecdet::box_numbers<float> {};
template <>
struct vecdet::box_layout<rect> : vecdet::box_numbers<float, vecdet::box_format::xywh> {};

namespace {

using numbers = vector_view<const float>;
using boxes = boxes_view<const float>;

template <class From, class To>
constexpr bool converts = std::is_convertible<From, To>::value;
template <class From, class To>
constexpr bool is_assigned = std::is_assignable<To&, From>::value;

// Containers as arguments, also temporaries; members accept no temporaries that own memory.
using weights = std::vector<float>;
static_assert(converts<weights&, numbers> && converts<weights, numbers>);
static_assert(converts<const weights&, boxes> && converts<weights, boxes>);
static_assert(converts<std::vector<int>, labels_view>);
static_assert(!converts<const weights&, vector_view<float>>);
static_assert(converts<std::array<float, 4>&, boxes>);
static_assert(!is_assigned<weights, numbers> && is_assigned<weights&, numbers>);
static_assert(!is_assigned<weights, boxes> && is_assigned<const weights&, boxes>);
static_assert(!is_assigned<std::vector<int>, labels_view>);
static_assert(!converts<weights, lasting<numbers>> && converts<weights&, lasting<numbers>>);
static_assert(!converts<const weights, lasting<numbers>>);
static_assert(!converts<std::array<const float, 4>, lasting<numbers>>);
static_assert(!is_assigned<weights, lasting<numbers>>);
static_assert(converts<vector_view<float>, lasting<numbers>>);
static_assert(converts<lasting<vector_view<float>>, lasting<numbers>>);
static_assert(converts<lasting<numbers>, numbers> && converts<lasting<boxes>&, boxes>);
static_assert(converts<const lasting<labels_view>&, labels_view>);
#if __cplusplus >= 202002L
static_assert(converts<std::span<const float>, lasting<numbers>>);
static_assert(converts<std::span<float, 4>, lasting<boxes>>);
#endif

// Boxes of four floats. Structs in another format or of another type are not corners of float.
static_assert(converts<std::vector<std::array<float, 4>>&, boxes>);
static_assert(converts<const std::vector<corner_box>&, boxes>);
static_assert(converts<std::vector<corner_box>, boxes_view<float>>);
static_assert(!converts<const std::vector<corner_box>&, boxes_view<float>>);
static_assert(converts<std::vector<corner_box>&, lasting<boxes>>);
static_assert(!converts<std::vector<corner_box>, lasting<boxes>>);
static_assert(!is_assigned<std::vector<corner_box>, boxes>);
static_assert(!converts<std::vector<rect>&, boxes> && !converts<std::vector<double>&, boxes>);
static_assert(!converts<std::vector<std::array<float, 3>>&, boxes>);
static_assert(!converts<std::vector<corner_box>&, numbers>);
static_assert(std::is_same<coordinate_of<std::vector<corner_box>>, float>::value);
static_assert(std::is_same<coordinate_of<boxes_view<const double>>, double>::value);
static_assert(std::is_same<coordinate_of<lasting<boxes>>, float>::value);
static_assert(std::is_same<number_of<std::vector<double>>, double>::value);

// A view of a base class has a different element stride than an array of a derived class.
struct larger_size : image_size {
  int index;
};
static_assert(!std::is_constructible<vector_view<const image_size>, larger_size*, int>::value);
static_assert(!std::is_constructible<lasting<vector_view<image_size>>, larger_size*, int>::value);
static_assert(!std::is_constructible<matrix_view<image_size>, larger_size*, int, int>::value);
static_assert(std::is_constructible<vector_view<const image_size>, image_size*, int>::value);

/// A trainer's view: it does not own its elements.
struct slice {
  float* data() const;
  std::size_t size() const;
};
static_assert(converts<slice, lasting<numbers>> && is_assigned<slice, boxes>);

// Strides and boxes are not dropped silently.
static_assert(!converts<matrix_view<float>, numbers> && !converts<matrix_view<float>, boxes>);
static_assert(!converts<matrix_view<int>, labels_view>);
static_assert(!converts<boxes_view<index_t>, labels_view> && !converts<boxes, numbers>);
static_assert(!converts<boxes_view<index_t>, lasting<labels_view>>);
static_assert(converts<numbers, boxes>);

// 0 is a number, not memory.
static_assert(!std::is_constructible<numbers, int, int>::value);
static_assert(!std::is_constructible<lasting<numbers>, int, std::size_t>::value);
static_assert(!std::is_constructible<boxes, long, int>::value);
static_assert(!std::is_constructible<labels_view, int, int>::value);
static_assert(std::is_constructible<numbers, std::nullptr_t, int>::value);

}  // namespace

TEST_CASE("views: pointers and sizes of any integer type, in braces too") {
  std::vector<float> memory(24);
  const std::size_t size = memory.size();
  const numbers v{memory.data(), size};
  CHECK(v.size() == 24);
  const boxes b = {memory.data(), size / 4};
  CHECK(b.size() == 6);
  CHECK(b[1] == memory.data() + 4);
  const matrix_view<const float> m{memory.data(), size / 6, 5u, std::uint8_t{6}};
  CHECK(m.rows() == 4);
  CHECK(m.row(1) == memory.data() + 6);
  const vector_view deduced(memory.data(), size);
  static_assert(std::is_same<decltype(deduced), const vector_view<float>>::value);
  const boxes_view deduced_boxes(memory.data(), 6);
  static_assert(std::is_same<decltype(deduced_boxes), const boxes_view<float>>::value);
  const std::vector<float>& constant = memory;
  std::vector<corner_box> corners{{0, 1, 2, 3}, {4, 5, 6, 7}};
  const vector_view view(memory);
  const vector_view constant_view(constant);
  static_assert(std::is_same<decltype(view), const vector_view<float>>::value);
  static_assert(std::is_same<decltype(constant_view), const vector_view<const float>>::value);
  const boxes_view boxes_of_vector(constant);
  const boxes_view boxes_of_structs(corners);
  static_assert(std::is_same<decltype(boxes_of_vector), const boxes_view<const float>>::value);
  static_assert(std::is_same<decltype(boxes_of_structs), const boxes_view<float>>::value);
  CHECK(boxes_of_vector.size() == 6);
  CHECK(boxes_of_structs.size() == 2);
  CHECK(boxes_of_structs(1, 2) == 6);
  const boxes from_structs = corners;
  CHECK(from_structs.data() == &corners[0].left);
  const labels_view labels{std::vector<int>{1}.data(), std::size_t{1}};
  CHECK(labels.size() == 1);
  const numbers none{nullptr, 0};
  CHECK(none.empty());

  const auto fails = [](const char* message, const auto& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), std::invalid_argument);
  };
  const std::size_t huge = ~std::size_t{0};
  fails("vector_view: size is -1", [&] { numbers(memory.data(), huge); });
  fails("boxes_view: size is -1", [&] { boxes(memory.data(), huge); });
  fails("matrix_view: cols is -1", [&] { matrix_view<float>(memory.data(), 1, huge); });
  fails("labels_view: size is -1", [&] { labels_view(memory.size() > 0 ? &huge : nullptr, huge); });
  memory.resize(10);
  const std::string place = std::string(__FILE__) + ":" + std::to_string(__LINE__ + 2);
  fails(("the container's size at " + place + " is 10, expected a multiple of 4").c_str(),
        [&] { [[maybe_unused]] const boxes lasting_view = memory; });
  const std::string member_place = std::string(__FILE__) + ":" + std::to_string(__LINE__ + 2);
  fails(("the container's size at " + member_place + " is 10").c_str(),
        [&] { [[maybe_unused]] const lasting<boxes> lasting_view = memory; });
  fails("labels_view: data is null", [&] { labels_view(static_cast<const int*>(nullptr), 1); });
}

TEST_CASE("views: members return views") {
  std::vector<float> memory(24);
  lasting<numbers> member;
  CHECK(member.empty());
  member = memory;
  CHECK(member.data() == memory.data());
  const numbers view = member;
  CHECK(view.size() == 24);
  member = {memory.data() + 1, std::size_t{2}};
  CHECK(member.size() == 2);
  member = {};
  CHECK(member.empty());
  lasting<boxes> some = boxes_view<float>(memory);
  CHECK(some.size() == 6);
  const lasting<boxes> copy = some;
  CHECK(copy.data() == memory.data());
}
