// SPDX-License-Identifier: Apache-2.0
// Labels and ids of every integer type, in a program that is compiled at several levels of
// optimisation. A call must read what the caller last wrote through its own type, even though long
// and long long are different types with the same bits. A label counts by its value, signed or not.
// Header-only, without dispatch.
#include <vecdet/impl/nms_groups.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/focal_loss/label_search.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

using namespace vecdet;

namespace {

int failures = 0;

void equal(const char* type, const char* what, index_t actual, index_t expected) {
  if (actual == expected) return;
  std::printf("%s: %s is %lld, expected %lld\n", type, what, static_cast<long long>(actual),
              static_cast<long long>(expected));
  ++failures;
}

index_t count_selected(const labels_view& labels, index_t background, index_t ignore) {
  index_t count = 0;
  VECDET_TARGET::for_each_selected(
      {detail::box_choice::labelled, labels, background, ignore, nullptr}, 0, labels.size(),
      [](index_t, index_t) {}, [&](index_t) { ++count; });
  return count;
}

/// The number of box 0's group among those of all boxes.
index_t place_of_first(const nms_groups& groups, index_t boxes, detail::nms_buffers& buffers) {
  detail::grown(buffers.records, boxes);
  for (index_t i = 0; i < boxes; ++i)
    buffers.records[static_cast<std::size_t>(i)] = static_cast<detail::nms_record>(i);
  detail::partition_into_groups(groups, boxes, boxes, buffers, threading::sequential);
  for (index_t i = 0; i < boxes; ++i)
    if (detail::index_of(buffers.records[static_cast<std::size_t>(i)]) == 0) return i;
  return -1;
}

// A view created earlier must read what was written last, even if the compiler inlines everything.

template <class Label>
index_t count_of_four() {
  const std::array<Label, 4> labels{3, 100, 100, 100};
  return count_foreground(labels, 100);
}

/// The sum of count(view) before and after a label is written, ten times.
template <class Label, class Count>
index_t rewritten(const Count& count) {
  std::array<Label, 4> labels{3, 100, 100, 100};
  const labels_view view(labels);
  index_t sum = 0;
  for (int i = 0; i < 10; ++i) {
    labels[0] = i % 2 == 0 ? 100 : 7;
    sum += count(view);
  }
  return sum;
}

template <class Label>
index_t rewritten_places() {
  std::array<Label, 3> classes{1, 2, 2};
  const nms_groups groups{classes};
  detail::nms_buffers buffers;
  index_t sum = 0;
  for (int i = 0; i < 10; ++i) {
    classes[0] = i % 2 == 0 ? 1 : 9;
    sum += place_of_first(groups, 3, buffers);
  }
  return sum;
}

template <class Label>
void reads_what_is_written(const char* type) {
  equal(type, "count_foreground", count_of_four<Label>(), 1);
  equal(type, "the sum of rewritten counts",
        rewritten<Label>([](const labels_view& l) { return count_foreground(l, 100); }), 5);
  equal(type, "the sum of rewritten selections",
        rewritten<Label>([](const labels_view& l) { return count_selected(l, 100, -2); }), 5);
  equal(type, "the sum of rewritten places", rewritten<Label>([](const labels_view& l) {
          return VECDET_TARGET::find_labelled(l, 0, 4, 100);
        }),
        20);
  equal(type, "the sum of rewritten invalid labels' places",
        rewritten<Label>([](const labels_view& l) {
          return VECDET_TARGET::find_invalid_label(l, 0, l.size(), 5, 100, -2);
        }),
        20);
  equal(type, "the sum of rewritten labels",
        rewritten<Label>([](const labels_view& l) { return l[0]; }), 5 * 107);
  equal(type, "the sum of the first box's places", rewritten_places<Label>(), 10);
}

/// Labels with all bits set are -1 if signed, and an ordinary number if not.
template <class Label>
void all_ones(const char* type) {
  constexpr bool is_signed = std::numeric_limits<Label>::is_signed;
  std::vector<Label> labels(200, static_cast<Label>(-1));
  labels[150] = 4;
  equal(type, "count_foreground", count_foreground(labels), is_signed ? 1 : 200);
  equal(type, "the selected", count_selected(labels, -1, -2), is_signed ? 1 : 200);
  equal(type, "the first labelled", VECDET_TARGET::find_labelled(labels, 0, 200, -1),
        is_signed ? 150 : 0);
  equal(type, "the first invalid", VECDET_TARGET::find_invalid_label(labels, 0, 200, 5, -1, -2),
        is_signed ? 200 : 0);
  // A background that no label of this type can equal.
  constexpr index_t most = std::numeric_limits<index_t>::max();
  equal(type, "the first too large",
        VECDET_TARGET::find_invalid_label(std::vector<Label>(70, static_cast<Label>(-1)), 0, 70, 5,
                                          -1, most),
        is_signed ? 70 : 0);
  const labels_view view(labels);
  const index_t value = is_signed ? -1 : sizeof(Label) == 8 ? most : index_t{0xffffffff};
  equal(type, "a label of all ones", view[0], value);

  // In ascending order, directly and with ids far apart.
  for (const auto other : {std::numeric_limits<Label>::max(), Label{3}}) {
    detail::nms_buffers buffers;
    nms_groups groups;
    std::array<Label, 3> classes{static_cast<Label>(-1), static_cast<Label>(other / 2), 1};
    groups.classes = classes;
    equal(type, "the place of all ones", place_of_first(groups, 3, buffers), is_signed ? 0 : 2);
    std::array<Label, 2> near{static_cast<Label>(-1), static_cast<Label>(-2)};
    groups.classes = labels_view();
    groups.images = near;
    equal(type, "the place of all ones among neighbours", place_of_first(groups, 2, buffers), 1);
  }
}

template <class Label>
void test(const char* type) {
  reads_what_is_written<Label>(type);
  all_ones<Label>(type);
}

}  // namespace

int main() {
  test<int>("int");
  test<unsigned>("unsigned");
  test<long>("long");
  test<unsigned long>("unsigned long");
  test<long long>("long long");
  test<unsigned long long>("unsigned long long");
  test<std::int32_t>("int32_t");
  test<std::uint32_t>("uint32_t");
  test<std::int64_t>("int64_t");
  test<std::uint64_t>("uint64_t");
  if (failures == 0) std::printf("labels of all types are read\n");
  return failures != 0;
}
