// SPDX-License-Identifier: Apache-2.0
// Operations on masks of pixels: golden vectors of COCO's mask API; rectangles at every column and
// around the width of words against the reference, as bits and bytes, on every instruction set and
// on several threads; padding that is not zero; and every documented error.
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/random_masks.hpp"
#include "support/refusals.hpp"
#include <vecdet/mask_bits.hpp>
#include <vecdet/reference/mask_bits.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr mask_pixels both_kinds[] = {mask_pixels::bits, mask_pixels::bytes};
constexpr mask_overlap both_overlaps[] = {mask_overlap::iou, mask_overlap::smaller_area};

std::vector<index_t> areas_of(const masks_view& masks, threading policy = threading::sequential) {
  std::vector<index_t> areas(static_cast<std::size_t>(masks.size()), -7);
  mask_areas(masks, areas, policy);
  return areas;
}
std::vector<index_t> boxes_of(const masks_view& masks, threading policy = threading::sequential) {
  std::vector<index_t> boxes(static_cast<std::size_t>(4 * masks.size()), -7);
  mask_boxes(masks, boxes, policy);
  return boxes;
}
std::vector<double> overlaps_of(const masks_view& a, const masks_view& b, mask_overlap overlap,
                                const std::vector<std::uint8_t>& is_crowd,
                                threading policy = threading::sequential) {
  mask_bits_workspace workspace;
  std::vector<double> overlaps(static_cast<std::size_t>(a.size() * b.size()), -7);
  mask_iou(a, b, overlap, is_crowd, {overlaps.data(), a.size(), b.size()}, workspace, policy);
  return overlaps;
}

/// Compares areas and boxes with the reference.
void check_measures(const masks_view& masks) {
  std::vector<index_t> areas, boxes;
  for (index_t i = 0; i < masks.size(); ++i) {
    areas.push_back(reference::mask_area(masks, i));
    const auto box = reference::mask_box(masks, i);
    boxes.insert(boxes.end(), box.begin(), box.end());
  }
  for_each_isa([&](isa) {
    CHECK((areas_of(masks) == areas));
    CHECK((boxes_of(masks) == boxes));
    tbb::task_arena arena(3);
    arena.execute([&] {
      CHECK((areas_of(masks, threading::parallel) == areas));
      CHECK((boxes_of(masks, threading::parallel) == boxes));
    });
  });
}

/// Compares overlaps with the reference, with and without crowds.
void check_overlaps(const masks_view& a, const masks_view& b) {
  std::vector<std::uint8_t> crowds;
  for (index_t k = 0; k < b.size(); ++k) crowds.push_back(static_cast<std::uint8_t>(k % 3));
  for (const std::vector<std::uint8_t>& is_crowd : {std::vector<std::uint8_t>(), crowds})
    for (const mask_overlap overlap : both_overlaps) {
      std::vector<double> expected;
      for (index_t i = 0; i < a.size(); ++i)
        for (index_t k = 0; k < b.size(); ++k)
          expected.push_back(reference::mask_overlap_of(
              a, i, b, k, overlap,
              !is_crowd.empty() && is_crowd[static_cast<std::size_t>(k)] != 0));
      for_each_isa([&](isa) {
        CHECK((overlaps_of(a, b, overlap, is_crowd) == expected));
        tbb::task_arena arena(3);
        arena.execute([&] {
          CHECK((overlaps_of(a, b, overlap, is_crowd, threading::parallel) == expected));
        });
      });
    }
}

}  // namespace

TEST_CASE("mask bits: golden vectors") {
  if (!has_data("golden_masks/rle_masks.npy", "masks of pixels against COCO's mask API")) return;
  const auto path = [](const std::string& name) {
    return data_path("golden_masks/" + name + ".npy");
  };
  const auto pictures = load_npy<std::uint8_t>(path("rle_masks"));
  const index_t count = pictures.shape[0], height = pictures.shape[1], width = pictures.shape[2];
  std::vector<index_t> whole;
  for (index_t i = 0; i < count; ++i) whole.insert(whole.end(), {0, 0, width, height});
  for (const mask_pixels kind : both_kinds) {
    const owned_masks masks = make_masks(whole, kind, [&](index_t i, index_t x, index_t y) {
      return pictures.values[static_cast<std::size_t>((i * height + y) * width + x)] != 0;
    });
    for_each_isa([&](isa) {
      CHECK((areas_of(masks.view()) == load_npy<std::int64_t>(path("rle_area")).values));
      std::vector<double> boxes;
      const std::vector<index_t> corners = boxes_of(masks.view());
      for (index_t i = 0; i < count; ++i) {
        const index_t* const box = corners.data() + 4 * i;
        for (const index_t side : {box[0], box[1], box[2] - box[0], box[3] - box[1]})
          boxes.push_back(static_cast<double>(side));
      }
      CHECK((boxes == load_npy<double>(path("rle_box")).values));
      for (const int crowd : {0, 1}) {
        const std::vector<std::uint8_t> is_crowd(static_cast<std::size_t>(count),
                                                 static_cast<std::uint8_t>(crowd));
        CHECK((overlaps_of(masks.view(), masks.view(), mask_overlap::iou, is_crowd) ==
               load_npy<double>(path("rle_iou_crowd" + std::to_string(crowd))).values));
      }
    });
  }
}

TEST_CASE("mask bits: random masks") {
  random_generator random(1);
  for (const grid_size& size : {grid_size{1, 1},
                                {1, 70},
                                {70, 1},
                                {7, 9},
                                {9, 63},
                                {5, 64},
                                {64, 5},
                                {3, 65},
                                {40, 127},
                                {63, 128},
                                {2, 129},
                                {30, 200}})
    for (int round = 0; round < 4; ++round)
      for (const mask_pixels kind : both_kinds) {
        CAPTURE(size.height);
        CAPTURE(size.width);
        const owned_masks a = random_masks(random.below(6), size, kind, random.split(1));
        const owned_masks b =
            random_masks(random.below(6), size, both_kinds[round % 2], random.split(2));
        check_measures(a.view());
        check_overlaps(a.view(), a.view());
        check_overlaps(a.view(), b.view());
        random.bits();
      }
}

TEST_CASE("mask bits: a rectangle at every column against a fixed one") {
  random_generator random(2);
  for (const mask_pixels kind : both_kinds)
    for (index_t x1 = 0; x1 < 130; ++x1) {
      const index_t width = 1 + random.below(150), y1 = random.below(20);
      const std::vector<index_t> boxes{x1, y1, x1 + width, y1 + 1 + random.below(30),
                                       60, 3,  201,        33};
      const owned_masks masks =
          make_masks(boxes, kind, [&](index_t, index_t, index_t) { return random.chance(0.6); });
      check_measures(masks.view());
      check_overlaps(masks.view(), masks.view());
    }
}

TEST_CASE("mask bits: more rows than a sum of bytes holds") {
  // All pixels, so that the counts of bytes are as large as they can be.
  const index_t rows = 31 * 8 * 3 + 5;
  for (const index_t from : {0, 1, 7, 8, 249}) {
    const std::vector<index_t> boxes{0, 0, 130, rows, 3, from, 100, rows - 1};
    const owned_masks masks =
        make_masks(boxes, mask_pixels::bits, [](index_t, index_t, index_t) { return true; });
    check_measures(masks.view());
    check_overlaps(masks.view(), masks.view());
  }
}

TEST_CASE("mask bits: common pixels with and without an instruction that counts bits") {
  random_generator random(7);
  std::vector<std::uint64_t> a(2 * 2112), b(2 * 2112);
  for (const bool is_full : {false, true}) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = is_full ? ~std::uint64_t{0} : random.bits();
      b[i] = is_full ? ~std::uint64_t{0} : random.bits();
    }
    for (index_t rows = 1; rows < 2100; rows += rows < 300 ? 1 : 97) {
      const detail::mask_strips tall{3, 0, 100, 2 * rows, 0, a.data()};
      const detail::mask_strips low{3, rows / 2, 100, rows / 2 + rows, 0, b.data()};
      if (tall.size() > 4224 || low.size() > 4224) continue;
      // As the copies do, the strip that is short ends with zeros.
      std::vector<std::uint64_t> ended = b;
      for (index_t t = 0; t < 2; ++t)
        for (index_t y = rows; y < low.stride(); ++y)
          ended[static_cast<std::size_t>(t * low.stride() + y)] = 0;
      const detail::mask_strips other{3, rows / 2, 100, rows / 2 + rows, 0, ended.data()};
      index_t expected = 0;
      for (index_t t = 0; t < 2; ++t)
        for (index_t y = rows / 2; y < rows / 2 + rows; ++y)
          for (std::uint64_t word = *tall.at(t, y) & *other.at(t, y); word != 0; word &= word - 1)
            ++expected;
      for_each_isa([&](isa target) {
        const auto& kernels = detail::kernels<detail::mask_bits_kernels>(target);
        index_t found[2] = {};
        kernels.common(tall, &other, 1, found);
        kernels.common_by_lookup(other, &tall, 1, found + 1);
        CHECK(found[0] == expected);
        CHECK(found[1] == expected);
      });
    }
  }
}

TEST_CASE("mask bits: masks far out") {
  constexpr index_t far = (index_t{1} << 31) - 1;
  const std::vector<index_t> boxes{far - 70, far - 3, far, far, far - 66, far - 2,
                                   far,      far,     0,   far, far,      far};
  const owned_masks masks =
      make_masks(boxes, mask_pixels::bits, [](index_t, index_t x, index_t y) { return x != y; });
  check_measures(masks.view());
  check_overlaps(masks.view(), masks.view());
}

TEST_CASE("mask bits: rows without columns take no time") {
  constexpr index_t end = (index_t{1} << 31) - 1;
  const std::vector<index_t> offsets(1001, 0);
  std::vector<index_t> corners;
  for (index_t i = 0; i < 1000; ++i) corners.insert(corners.end(), {0, 0, 0, end});
  for (const mask_pixels kind : {mask_pixels::bits, mask_pixels::bytes}) {
    const masks_view masks{boxes_view<const index_t>(corners.data(), 1000), offsets, {}, kind};
    for_each_isa([&](isa) {
      std::vector<index_t> areas(1000, -1), boxes(4000, -1);
      mask_areas(masks, areas);
      mask_boxes(masks, boxes_view<index_t>(boxes.data(), 1000));
      CHECK(areas == std::vector<index_t>(1000, 0));
      CHECK(boxes == std::vector<index_t>(4000, 0));
    });
  }
}

TEST_CASE("mask bits: bits in the padding are ignored") {
  const std::vector<index_t> boxes{5, 0, 16, 3, 8, 1, 9, 3};
  const owned_masks clean =
      make_masks(boxes, mask_pixels::bits, [](index_t, index_t x, index_t) { return x % 3 == 2; });
  owned_masks padded = clean;
  for (std::size_t k = 1; k < 6; k += 2) padded.pixels[k] |= 0xf8;
  for (std::size_t k = 6; k < 8; ++k) padded.pixels[k] |= 0xfe;
  for_each_isa([&](isa) {
    CHECK((areas_of(padded.view()) == areas_of(clean.view())));
    CHECK((boxes_of(padded.view()) == boxes_of(clean.view())));
    CHECK((overlaps_of(padded.view(), clean.view(), mask_overlap::iou, {}) ==
           overlaps_of(clean.view(), clean.view(), mask_overlap::iou, {})));
  });
}

TEST_CASE("mask bits: errors") {
  const owned_masks masks = make_masks({1, 2, 12, 4, 0, 0, 3, 3}, mask_pixels::bits,
                                       [](index_t, index_t, index_t) { return true; });
  std::vector<index_t> areas(2, -1), boxes(8, -1);
  std::vector<double> overlaps(4, -1);
  mask_bits_workspace workspace;
  const auto fails = refusals(areas, boxes, overlaps);
  const auto iou = [&](const masks_view& a, const masks_view& b) {
    mask_iou(a, b, mask_overlap::iou, {}, {overlaps.data(), 2, 2}, workspace);
  };
  const auto with = [&](std::size_t at, index_t value) {
    owned_masks changed = masks;
    changed.boxes[at] = value;
    return changed;
  };
  fails("mask_areas: masks.boxes[0] is -1 2 12 4, expected a rectangle of whole pixels",
        [&] { mask_areas(with(0, -1).view(), areas); });
  fails("mask_areas: masks.boxes[1] is 0 0 3 -1", [&] { mask_areas(with(7, -1).view(), areas); });
  fails("mask_boxes: masks.boxes[0] is 1 2 0 4", [&] { mask_boxes(with(2, 0).view(), boxes); });
  fails("mask_boxes: masks.boxes[0] is 1 2 2147483648 4",
        [&] { mask_boxes(with(2, index_t{1} << 31).view(), boxes); });
  fails("the number of bytes of masks[0] is 4, expected 6, those of its rectangle",
        [&] { mask_areas(with(2, 18).view(), areas); });
  owned_masks other = masks;
  other.kind = static_cast<mask_pixels>(2);
  fails("mask_iou: b.kind is 2, expected a mask_pixels", [&] { iou(masks.view(), other.view()); });
  other = masks;
  other.offsets.back() = 6;
  fails("mask_iou: a.offsets", [&] { iou(other.view(), masks.view()); });
  other.offsets.pop_back();
  fails("mask_iou: b.offsets.size() is 2, expected 3", [&] { iou(masks.view(), other.view()); });
  fails("mask_areas: areas.size() is 1, expected 2, the number of masks",
        [&] { mask_areas(masks.view(), vector_view<index_t>(areas.data(), 1)); });
  fails("mask_boxes: boxes.size() is 1, expected 2, the number of masks",
        [&] { mask_boxes(masks.view(), boxes_view<index_t>(boxes.data(), 1)); });
  const masks_view m = masks.view();
  fails("mask_iou: overlaps.rows() is 1, expected 2, the number of masks in a", [&] {
    mask_iou(m, m, mask_overlap::iou, {}, {overlaps.data(), 1, 2}, workspace);
  });
  fails("mask_iou: overlaps.cols() is 1, expected 2, the number of masks in b", [&] {
    mask_iou(m, m, mask_overlap::iou, {}, {overlaps.data(), 2, 1}, workspace);
  });
  fails("mask_iou: overlap is 2, expected a mask_overlap", [&] {
    mask_iou(m, m, static_cast<mask_overlap>(2), {}, {overlaps.data(), 2, 2}, workspace);
  });
  const std::vector<std::uint8_t> crowds(3);
  fails("mask_iou: is_crowd.size() is 3, expected 0 or 2, the number of masks in b", [&] {
    mask_iou(m, m, mask_overlap::iou, crowds, {overlaps.data(), 2, 2}, workspace);
  });
}
