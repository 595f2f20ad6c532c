// SPDX-License-Identifier: Apache-2.0
// Run lengths: golden vectors of COCO's mask API; the functions against the reference, on pictures
// around the width of words, in any memory order, on rectangles at every edge, and on any number of
// threads; counts and strings that lie; and every documented error.
#include "support/data.hpp"
#include "support/owned_masks.hpp"
#include "support/random.hpp"
#include "support/refusals.hpp"
#include <vecdet/reference/run_lengths.hpp>
#include <vecdet/run_lengths.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

using counts_list = std::vector<std::vector<std::uint32_t>>;

/// Run lengths in memory of their own.
struct owned_runs {
  std::vector<grid_size> sizes;
  std::vector<index_t> offsets{0};
  std::vector<std::uint32_t> counts;

  owned_runs() = default;
  explicit owned_runs(const run_lengths_view& found)
      : sizes(found.sizes.begin(), found.sizes.end()),
        offsets(found.offsets.begin(), found.offsets.end()),
        counts(found.counts.begin(), found.counts.end()) {}
  void add(const grid_size& size, const std::vector<std::uint32_t>& own) {
    sizes.push_back(size);
    counts.insert(counts.end(), own.begin(), own.end());
    offsets.push_back(static_cast<index_t>(counts.size()));
  }
  run_lengths_view view() const { return {sizes, offsets, counts}; }
};

counts_list lists_of(const run_lengths_view& runs) {
  counts_list lists;
  for (index_t i = 0; i < runs.size(); ++i) lists.emplace_back(runs[i].begin(), runs[i].end());
  return lists;
}

/// Pictures, row by row.
struct pictures_of_bytes {
  index_t count;
  grid_size size;
  std::vector<std::uint8_t> pixels;

  bool has(index_t i, index_t x, index_t y) const {
    return pixels[static_cast<std::size_t>((i * size.height + y) * size.width + x)] != 0;
  }
  byte_pictures<const std::uint8_t> view() const {
    return {pixels.data(), count, size, size.height * size.width, size.width, 1};
  }
  counts_list counts() const {
    counts_list lists;
    for (index_t i = 0; i < count; ++i)
      lists.push_back(
          reference::run_lengths(size, [&](index_t x, index_t y) { return has(i, x, y); }));
    return lists;
  }
  index_t common(index_t i, const pictures_of_bytes& other, index_t k) const {
    index_t sum = 0;
    for (index_t y = 0; y < size.height; ++y)
      for (index_t x = 0; x < size.width; ++x) sum += has(i, x, y) && other.has(k, x, y);
    return sum;
  }
};

/// Noise of several densities, and rectangles with holes.
pictures_of_bytes random_pictures(index_t count, const grid_size& size, random_generator& random) {
  pictures_of_bytes made{count, size, {}};
  for (index_t i = 0; i < count; ++i) {
    const index_t kind = random.below(5);
    const double density = kind == 0 ? 0.5 : kind == 1 ? 0.03 : 0.97;
    const index_t x1 = random.below(size.width + 1), y1 = random.below(size.height + 1);
    const index_t x2 = random.below(size.width + 1), y2 = random.below(size.height + 1);
    for (index_t y = 0; y < size.height; ++y)
      for (index_t x = 0; x < size.width; ++x) {
        const bool inside = x >= std::min(x1, x2) && x < std::max(x1, x2) &&
                            y >= std::min(y1, y2) && y < std::max(y1, y2);
        const bool has = kind < 3 ? random.chance(density) : inside && random.chance(0.9);
        made.pixels.push_back(has ? static_cast<std::uint8_t>(1 + random.below(255)) : 0);
      }
  }
  return made;
}

/// Calls run(policy) on one thread and on three; both must give `expected`.
template <class Run>
void check_encoded(const Run& run, const counts_list& expected) {
  CHECK((lists_of(run(threading::sequential)) == expected));
  tbb::task_arena arena(3);
  arena.execute([&] { CHECK((lists_of(run(threading::parallel)) == expected)); });
}

std::vector<index_t> areas_of(const run_lengths_view& runs) {
  std::vector<index_t> areas(static_cast<std::size_t>(runs.size()));
  mask_areas(runs, areas);
  return areas;
}
std::vector<index_t> boxes_of(const run_lengths_view& runs) {
  std::vector<index_t> boxes(static_cast<std::size_t>(4 * runs.size()));
  mask_boxes(runs, boxes);
  return boxes;
}
std::vector<double> ious_of(const run_lengths_view& a, const run_lengths_view& b,
                            const std::vector<std::uint8_t>& is_crowd,
                            threading policy = threading::sequential,
                            mask_overlap overlap = mask_overlap::iou) {
  run_lengths_workspace workspace;
  std::vector<double> ious(static_cast<std::size_t>(a.size() * b.size()), -7);
  mask_iou(a, b, overlap, is_crowd, {ious.data(), a.size(), b.size()}, workspace, policy);
  return ious;
}

run_length_strings strings_of(const std::vector<index_t>& offsets, const std::string& text) {
  return {offsets, {text.data(), text.size()}};
}

const std::vector<grid_size> sizes_of_pictures = {{1, 1},    {1, 70},  {70, 1},  {7, 9},  {8, 8},
                                                  {9, 63},   {5, 64},  {64, 5},  {3, 65}, {65, 127},
                                                  {63, 128}, {2, 129}, {100, 30}};

}  // namespace

TEST_CASE("run lengths: golden vectors") {
  if (!has_data("golden_masks/rle_masks.npy", "run lengths against COCO's mask API")) return;
  const auto path = [](const std::string& name) {
    return data_path("golden_masks/" + name + ".npy");
  };
  const auto masks = load_npy<std::uint8_t>(path("rle_masks"));
  const index_t count = masks.shape[0];
  const grid_size size{masks.shape[1], masks.shape[2]};
  const pictures_of_bytes pictures{count, size, masks.values};
  run_lengths_workspace workspace, second;
  const run_lengths_view runs = encode_masks(pictures.view(), workspace);
  std::string text;
  std::vector<index_t> offsets{0};
  for (index_t i = 0; i < count; ++i) {
    const auto expected = load_npy<std::int64_t>(path("rle_counts_" + std::to_string(i))).values;
    CHECK((std::vector<std::int64_t>(runs[i].begin(), runs[i].end()) == expected));
    const auto own = load_npy<std::uint8_t>(path("rle_string_" + std::to_string(i))).values;
    text.append(own.begin(), own.end());
    offsets.push_back(static_cast<index_t>(text.size()));
  }
  const run_length_strings strings = run_lengths_to_strings(runs, second);
  CHECK((std::string(strings.text.begin(), strings.text.end()) == text));
  CHECK((std::vector<index_t>(strings.offsets.begin(), strings.offsets.end()) == offsets));
  const std::vector<grid_size> sizes(static_cast<std::size_t>(count), size);
  CHECK((lists_of(run_lengths_from_strings(strings_of(offsets, text), sizes, second)) ==
         lists_of(runs)));
  CHECK((areas_of(runs) == load_npy<std::int64_t>(path("rle_area")).values));
  std::vector<double> boxes;
  const std::vector<index_t> corners = boxes_of(runs);
  for (index_t i = 0; i < count; ++i) {
    const index_t* const box = corners.data() + 4 * i;
    for (const index_t side : {box[0], box[1], box[2] - box[0], box[3] - box[1]})
      boxes.push_back(static_cast<double>(side));
  }
  CHECK((boxes == load_npy<double>(path("rle_box")).values));
  for (const int crowd : {0, 1}) {
    const std::vector<std::uint8_t> is_crowd(static_cast<std::size_t>(count),
                                             static_cast<std::uint8_t>(crowd));
    CHECK((ious_of(runs, runs, is_crowd) ==
           load_npy<double>(path("rle_iou_crowd" + std::to_string(crowd))).values));
  }
  for (int i = 0; i < 6; ++i) {
    const auto xy = load_npy<double>(path("poly_" + std::to_string(i))).values;
    const std::vector<index_t> all{0, static_cast<index_t>(xy.size() / 2)};
    const run_lengths_view found = run_lengths_from_polygons(xy, all, {&size, 1}, second);
    const auto expected = load_npy<std::int64_t>(path("poly_counts_" + std::to_string(i))).values;
    CHECK((std::vector<std::int64_t>(found[0].begin(), found[0].end()) == expected));
    const std::vector<std::uint32_t> drawn = reference::polygon_run_lengths(xy, size);
    CHECK((std::vector<std::int64_t>(drawn.begin(), drawn.end()) == expected));
  }
}

TEST_CASE("run lengths: pictures in any memory order") {
  random_generator random(1);
  run_lengths_workspace workspace;
  for (const grid_size& size : sizes_of_pictures)
    for (int round = 0; round < 8; ++round) {
      const index_t count = 1 + random.below(4), pixels = size.height * size.width;
      const pictures_of_bytes p = random_pictures(count, size, random);
      const counts_list expected = p.counts();
      // Each order of the three dimensions, some with gaps, some backwards.
      const index_t gap = random.below(3);
      const index_t padded = (size.height + gap) * (size.width + gap);
      const byte_pictures<std::uint8_t> orders[] = {
          {nullptr, count, size, pixels, size.width, 1},
          {nullptr, count, size, pixels, 1, size.height},
          {nullptr, count, size, padded, size.width + gap, 1},
          {nullptr, count, size, padded, 1, size.height + gap},
          {nullptr, count, size, 1, count * size.width, count},
          {nullptr, count, size, -pixels, -size.width, -1},
          {nullptr, count, size, pixels, 1, -size.height}};
      for (byte_pictures<std::uint8_t> order : orders) {
        CAPTURE(order.row_stride);
        CAPTURE(order.column_stride);
        const auto at = [&](index_t i, index_t x, index_t y) {
          return i * order.stride + y * order.row_stride + x * order.column_stride;
        };
        const index_t first = std::min(
            {index_t{0}, at(count - 1, size.width - 1, size.height - 1), at(0, size.width - 1, 0)});
        std::vector<std::uint8_t> memory(static_cast<std::size_t>(count * padded + pixels), 9);
        std::vector<std::uint8_t> decoded = memory, copied = memory;
        const auto element = [&](index_t i, index_t x, index_t y) {
          return static_cast<std::size_t>(at(i, x, y) - first);
        };
        for (index_t i = 0; i < count; ++i)
          for (index_t x = 0; x < size.width; ++x)
            for (index_t y = 0; y < size.height; ++y) {
              memory[element(i, x, y)] =
                  p.pixels[static_cast<std::size_t>((i * size.height + y) * size.width + x)];
              copied[element(i, x, y)] = p.has(i, x, y) ? 1 : 0;
            }
        const byte_pictures<const std::uint8_t> in{
            memory.data() - first, count, size, order.stride, order.row_stride,
            order.column_stride};
        check_encoded([&](threading policy) { return encode_masks(in, workspace, policy); },
                      expected);
        order.data = decoded.data() - first;
        decode_masks(owned_runs(encode_masks(in, workspace)).view(), order);
        CHECK((decoded == copied));
      }
    }
}

TEST_CASE("run lengths: masks that are rectangles") {
  random_generator random(2);
  run_lengths_workspace workspace, second;
  masks_workspace decoded;
  for (int round = 0; round < 300; ++round) {
    const index_t count = random.below(4);
    std::vector<grid_size> sizes;
    std::vector<index_t> boxes, offsets{0};
    std::vector<std::uint8_t> bits, bytes;
    std::vector<index_t> bit_offsets{0};
    for (index_t i = 0; i < count; ++i) {
      const grid_size size{1 + random.below(20), 1 + random.below(150)};
      sizes.push_back(size);
      index_t sides[] = {random.below(size.width + 1), random.below(size.height + 1),
                         random.below(size.width + 1), random.below(size.height + 1)};
      if (random.chance(0.3)) sides[0] = 0;
      if (random.chance(0.3)) sides[1] = 0;
      if (random.chance(0.3)) sides[2] = size.width;
      if (random.chance(0.3)) sides[3] = size.height;
      if (sides[0] > sides[2]) std::swap(sides[0], sides[2]);
      if (sides[1] > sides[3]) std::swap(sides[1], sides[3]);
      boxes.insert(boxes.end(), sides, sides + 4);
      const double density = random.chance(0.3) ? 1 : random.uniform();
      const index_t width = sides[2] - sides[0];
      for (index_t y = sides[1]; y < sides[3]; ++y) {
        // What pads a row of bits does not matter.
        std::vector<std::uint8_t> row(static_cast<std::size_t>((width + 7) / 8), 0xff);
        for (index_t x = 0; x < width; ++x) {
          const bool has = random.chance(density);
          bytes.push_back(has ? static_cast<std::uint8_t>(1 + random.below(255)) : 0);
          if (!has)
            row[static_cast<std::size_t>(x / 8)] &= static_cast<std::uint8_t>(~(1u << (x % 8)));
        }
        bits.insert(bits.end(), row.begin(), row.end());
      }
      offsets.push_back(static_cast<index_t>(bytes.size()));
      bit_offsets.push_back(static_cast<index_t>(bits.size()));
    }
    const boxes_view<const index_t> corners(boxes.data(), count);
    const masks_view of_bytes{corners, offsets, bytes, mask_pixels::bytes};
    const masks_view of_bits{corners, bit_offsets, bits, mask_pixels::bits};
    counts_list expected;
    for (index_t i = 0; i < count; ++i)
      expected.push_back(
          reference::run_lengths(sizes[static_cast<std::size_t>(i)],
                                 [&](index_t x, index_t y) { return of_bytes.has(i, x, y); }));
    for (const masks_view& masks : {of_bits, of_bytes})
      check_encoded([&](threading policy) { return encode_masks(masks, sizes, workspace, policy); },
                    expected);
    const run_lengths_view runs = encode_masks(of_bits, sizes, workspace);
    for (const mask_pixels kind : {mask_pixels::bits, mask_pixels::bytes}) {
      const masks_view found = decode_masks(runs, kind, decoded);
      REQUIRE(found.size() == count);
      CHECK(found.kind == kind);
      bool are_equal = true;
      for (index_t i = 0; i < count; ++i) {
        const grid_size size = sizes[static_cast<std::size_t>(i)];
        CHECK((found.boxes(i, 0) == 0 && found.boxes(i, 1) == 0));
        CHECK((found.boxes(i, 2) == size.width && found.boxes(i, 3) == size.height));
        for (index_t x = 0; x < size.width; ++x)
          for (index_t y = 0; y < size.height; ++y)
            are_equal = are_equal && found.has(i, x, y) == of_bytes.has(i, x, y);
      }
      CHECK(are_equal);
      CHECK((lists_of(encode_masks(found, sizes, second)) == expected));
      tbb::task_arena arena(3);
      const owned_masks before(found);
      arena.execute([&] { CHECK((owned_masks(decode_masks(runs, kind, decoded)) == before)); });
    }
  }
}

TEST_CASE("run lengths: areas, boxes, overlaps and merged masks") {
  random_generator random(3);
  run_lengths_workspace workspace, other, merged;
  for (const grid_size& size : sizes_of_pictures)
    for (int round = 0; round < 6; ++round) {
      const pictures_of_bytes p = random_pictures(4, size, random);
      const pictures_of_bytes q = random_pictures(3, size, random);
      const run_lengths_view a = encode_masks(p.view(), workspace);
      const run_lengths_view b = encode_masks(q.view(), other);
      const std::vector<index_t> areas = areas_of(a), other_areas = areas_of(b);
      const std::vector<index_t> boxes = boxes_of(a);
      for (index_t i = 0; i < 4; ++i) {
        CHECK(areas[static_cast<std::size_t>(i)] == p.common(i, p, i));
        index_t box[] = {size.width, size.height, 0, 0};
        for (index_t y = 0; y < size.height; ++y)
          for (index_t x = 0; x < size.width; ++x) {
            if (!p.has(i, x, y)) continue;
            box[0] = std::min(box[0], x);
            box[1] = std::min(box[1], y);
            box[2] = std::max(box[2], x + 1);
            box[3] = std::max(box[3], y + 1);
          }
        if (box[2] == 0) box[0] = box[1] = 0;
        CHECK(std::equal(box, box + 4, boxes.begin() + 4 * i));
      }
      const std::vector<std::uint8_t> is_crowd{0, 1, 255};
      for (const int kind : {0, 1, 2, 3}) {
        const bool has_crowds = kind % 2 == 1;
        const mask_overlap overlap = kind < 2 ? mask_overlap::iou : mask_overlap::smaller_area;
        const auto ious = ious_of(a, b, has_crowds ? is_crowd : std::vector<std::uint8_t>{},
                                  threading::sequential, overlap);
        for (index_t i = 0; i < 4; ++i)
          for (index_t k = 0; k < 3; ++k) {
            const index_t common = p.common(i, q, k), area = areas[static_cast<std::size_t>(i)];
            const index_t other_area = other_areas[static_cast<std::size_t>(k)];
            const bool by_area = has_crowds && k > 0;
            const index_t all = by_area                        ? area
                                : overlap == mask_overlap::iou ? area + other_area - common
                                                               : std::min(area, other_area);
            const double expected =
                common == 0 ? 0 : static_cast<double>(common) / static_cast<double>(all);
            CHECK(ious[static_cast<std::size_t>(3 * i + k)] == expected);
          }
        tbb::task_arena arena(3);
        arena.execute([&] {
          CHECK((ious_of(a, b, has_crowds ? is_crowd : std::vector<std::uint8_t>{},
                         threading::parallel, overlap) == ious));
        });
      }
      for (const bool is_any : {true, false}) {
        const auto expected = reference::run_lengths(size, [&](index_t x, index_t y) {
          index_t count = 0;
          for (index_t i = 0; i < 4; ++i) count += p.has(i, x, y);
          return is_any ? count > 0 : count == 4;
        });
        const auto found = merge_masks(a, is_any ? mask_merging::any : mask_merging::every, merged);
        CHECK((lists_of(found) == counts_list{expected}));
      }
    }
}

TEST_CASE("run lengths: counts of 0 within a mask") {
  const grid_size size{4, 5};
  owned_runs runs;
  runs.add(size, {2, 3, 0, 4, 0, 0, 11, 0});  // pixels 2 to 8
  runs.add(size, {20, 0});
  runs.add(size, {0, 0, 2, 7, 11});
  run_lengths_workspace workspace;
  CHECK((areas_of(runs.view()) == std::vector<index_t>{7, 0, 7}));
  CHECK((boxes_of(runs.view()) == std::vector<index_t>{0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 3, 4}));
  CHECK((ious_of(runs.view(), runs.view(), {}) == std::vector<double>{1, 0, 1, 0, 0, 0, 1, 0, 1}));
  CHECK((lists_of(merge_masks(runs.view(), mask_merging::any, workspace)) ==
         counts_list{{2, 7, 11}}));
  CHECK((lists_of(merge_masks(runs.view(), mask_merging::every, workspace)) == counts_list{{20}}));
  masks_workspace decoded;
  const masks_view masks = decode_masks(runs.view(), mask_pixels::bits, decoded);
  CHECK((lists_of(encode_masks(masks, {&size, 1}, workspace)) ==
         counts_list{{2, 7, 11}, {20}, {2, 7, 11}}));
}

TEST_CASE("run lengths: compressed strings") {
  random_generator random(4);
  run_lengths_workspace workspace, second;
  for (int round = 0; round < 300; ++round) {
    owned_runs runs;
    std::string expected;
    std::vector<index_t> offsets{0};
    for (index_t i = random.below(4); i > 0; --i) {
      const index_t limit = index_t{1} << (1 + random.below(32));
      std::vector<std::uint32_t> counts;
      index_t sum = 0;
      for (index_t k = random.below(12); k >= 0; --k) {
        const index_t most = (index_t{1} << 32) - 1 - sum;
        const index_t count = std::min(random.chance(0.2) ? most : random.below(limit), most);
        counts.push_back(static_cast<std::uint32_t>(count));
        sum += count;
      }
      runs.add(random.chance(0.5) ? grid_size{1, sum} : grid_size{sum, 1}, counts);
      expected += reference::run_length_string(counts);
      offsets.push_back(static_cast<index_t>(expected.size()));
    }
    const run_length_strings strings = run_lengths_to_strings(runs.view(), workspace);
    CHECK((std::string(strings.text.begin(), strings.text.end()) == expected));
    CHECK((std::vector<index_t>(strings.offsets.begin(), strings.offsets.end()) == offsets));
    const run_lengths_view back =
        run_lengths_from_strings(strings_of(offsets, expected), runs.sizes, second);
    CHECK((lists_of(back) == lists_of(runs.view())));
  }
}

TEST_CASE("run lengths: polygons against points drawn one by one") {
  random_generator random(5);
  run_lengths_workspace workspace;
  for (int round = 0; round < 1500; ++round) {
    std::vector<double> points;
    std::vector<index_t> offsets{0};
    std::vector<grid_size> sizes;
    counts_list expected;
    for (index_t i = random.below(3); i >= 0; --i) {
      const grid_size size{random.below(40), random.below(60)};
      const double extent = random.chance(0.1) ? 3000 : 60;
      std::vector<double> own;
      for (index_t k = 6 + 2 * random.below(6); k > 0; --k) {
        double z = random.uniform(-0.4, 1.4) * extent;
        if (round % 3 == 0) z = std::floor(z);
        if (round % 3 == 1) z = std::floor(z * 10) / 10;
        own.push_back(z);
      }
      if (random.chance(0.2)) own[2] = own[0];
      if (random.chance(0.2)) own[3] = own[1];
      sizes.push_back(size);
      points.insert(points.end(), own.begin(), own.end());
      offsets.push_back(static_cast<index_t>(points.size() / 2));
      expected.push_back(reference::polygon_run_lengths(own, size));
    }
    CHECK((lists_of(run_lengths_from_polygons(points, offsets, sizes, workspace)) == expected));
  }
  // Far outside, and as large as is allowed.
  const grid_size size{3, 65536};
  const double far = 0x1p27;
  const std::vector<double> around{-far, -far, far, -far, far, far, -far, far};
  CHECK((lists_of(run_lengths_from_polygons(around, std::vector<index_t>{0, 4}, {&size, 1},
                                            workspace)) == counts_list{{0, 3 * 65536}}));
  const std::vector<double> box{-far, -far, far, far};
  CHECK((lists_of(run_lengths_from_boxes(box, {&size, 1}, workspace)) ==
         counts_list{{0, 3 * 65536}}));
}

namespace {

/// The number of connected sets of the pixels for which has(x, y) holds. Pixels may lie one outside
/// the picture.
template <class Has>
index_t connected_sets(const grid_size& size, bool by_corners, const Has& has) {
  const index_t across = size.width + 2;
  std::vector<std::uint8_t> is_left(static_cast<std::size_t>(across * (size.height + 2)));
  const auto at = [&](index_t x, index_t y) -> std::uint8_t& {
    return is_left[static_cast<std::size_t>((y + 1) * across + x + 1)];
  };
  for (index_t y = -1; y <= size.height; ++y)
    for (index_t x = -1; x <= size.width; ++x) at(x, y) = has(x, y) ? 1 : 0;
  index_t sets = 0;
  for (index_t y = -1; y <= size.height; ++y)
    for (index_t x = -1; x <= size.width; ++x) {
      if (at(x, y) == 0) continue;
      ++sets;
      std::vector<std::pair<index_t, index_t>> reached{{x, y}};
      at(x, y) = 0;
      while (!reached.empty()) {
        const auto [u, v] = reached.back();
        reached.pop_back();
        for (index_t dy = -1; dy <= 1; ++dy)
          for (index_t dx = -1; dx <= 1; ++dx) {
            const index_t i = u + dx, k = v + dy;
            if (!by_corners && dx != 0 && dy != 0) continue;
            if (i < -1 || k < -1 || i > size.width || k > size.height || at(i, k) == 0) continue;
            at(i, k) = 0;
            reached.emplace_back(i, k);
          }
      }
    }
  return sets;
}

/// Checks the polygons of mask i, and draws them again.
void check_polygons(const mask_polygons_view& found, index_t i, const pictures_of_bytes& p) {
  const grid_size size = p.size;
  std::vector<std::uint8_t> odd(static_cast<std::size_t>(size.height * size.width));
  std::vector<std::uint8_t> any = odd;
  index_t outer = 0, holes = 0, area = 0;
  run_lengths_workspace workspace;
  for (index_t k = found.mask_offsets[i]; k < found.mask_offsets[i + 1]; ++k) {
    const index_t count = found.offsets[k + 1] - found.offsets[k];
    REQUIRE(count >= 4);
    REQUIRE(count % 2 == 0);
    const double* const own = found.points.data() + 2 * found.offsets[k];
    const auto coordinate = [&](index_t point, int axis) {
      return static_cast<index_t>(own[2 * (point % count) + axis]);
    };
    index_t twice = 0;
    int turned = 0;
    for (index_t m = 0; m < count; ++m) {
      const index_t dx = coordinate(m + 1, 0) - coordinate(m, 0);
      const index_t dy = coordinate(m + 1, 1) - coordinate(m, 1);
      turned += (dx == 0) != (m % 2 == 0) || (dy == 0) != (m % 2 == 1);
      twice += (coordinate(m, 0) + coordinate(m + 1, 0)) * dy;
    }
    CHECK(turned == 0);
    area += twice / 2;
    outer += twice > 0;
    holes += twice < 0;
    const run_lengths_view drawn = run_lengths_from_polygons(
        {own, 2 * count}, std::vector<index_t>{0, count}, {&size, 1}, workspace);
    const std::vector<std::uint8_t> pixels = reference::pixels_of_runs(drawn[0]);
    for (std::size_t m = 0; m < pixels.size(); ++m) {
      odd[m] ^= pixels[m];
      if (twice > 0) any[m] |= pixels[m];
    }
  }
  bool are_equal = true, has_all = true;
  for (index_t x = 0; x < size.width; ++x)
    for (index_t y = 0; y < size.height; ++y) {
      const auto at = static_cast<std::size_t>(x * size.height + y);
      are_equal = are_equal && odd[at] == (p.has(i, x, y) ? 1 : 0);
      has_all = has_all && any[at] >= odd[at];
    }
  CHECK(are_equal);
  CHECK(has_all);
  CHECK(area == p.common(i, p, i));
  CHECK(outer == connected_sets(size, false, [&](index_t x, index_t y) {
          return x >= 0 && y >= 0 && x < size.width && y < size.height && p.has(i, x, y);
        }));
  CHECK(holes + 1 == connected_sets(size, true, [&](index_t x, index_t y) {
          return x < 0 || y < 0 || x >= size.width || y >= size.height || !p.has(i, x, y);
        }));
}

}  // namespace

TEST_CASE("run lengths: polygons around pixels give the mask again") {
  random_generator random(11);
  run_lengths_workspace workspace, second;
  for (const grid_size& size : sizes_of_pictures)
    for (int round = 0; round < 8; ++round) {
      const pictures_of_bytes p = random_pictures(3, size, random);
      const mask_polygons_view found = mask_polygons(encode_masks(p.view(), workspace), second);
      REQUIRE(found.mask_offsets.size() == 4);
      CHECK(found.mask_offsets[3] == found.offsets.size() - 1);
      CHECK(2 * found.offsets[found.offsets.size() - 1] == found.points.size());
      for (index_t i = 0; i < 3; ++i) check_polygons(found, i, p);
    }
  // Two pixels that touch at a corner, and then a hole.
  owned_runs runs;
  runs.add({2, 2}, {0, 1, 2, 1});
  runs.add({3, 3}, {0, 2, 0, 2, 1, 4});  // with a count of 0
  const mask_polygons_view found = mask_polygons(runs.view(), workspace);
  CHECK((std::vector<index_t>(found.mask_offsets.begin(), found.mask_offsets.end()) ==
         std::vector<index_t>{0, 2, 4}));
  CHECK((std::vector<double>(found.points.begin(), found.points.end()) ==
         std::vector<double>{1, 0, 1, 1, 0, 1, 0, 0, 2, 1, 2, 2, 1, 2, 1, 1,  //
                             3, 0, 3, 3, 0, 3, 0, 0, 1, 1, 1, 2, 2, 2, 2, 1}));
  CHECK(mask_polygons({}, workspace).mask_offsets.size() == 1);
  owned_runs empty;
  empty.add({0, 5}, {0});
  empty.add({5, 4}, {20});
  CHECK(mask_polygons(empty.view(), workspace).mask_offsets[2] == 0);
  // The runs may be a result of the same workspace.
  const std::vector<double> box{1, 2, 3, 4};
  const grid_size size{6, 5};
  const mask_polygons_view own =
      mask_polygons(run_lengths_from_boxes(box, {&size, 1}, workspace), workspace);
  CHECK((std::vector<double>(own.points.begin(), own.points.end()) ==
         std::vector<double>{3, 2, 3, 4, 1, 4, 1, 2}));
}

TEST_CASE("run lengths: boxes are polygons of their corners") {
  random_generator random(6);
  run_lengths_workspace workspace, second;
  for (int round = 0; round < 300; ++round) {
    std::vector<double> boxes, points;
    for (int k = 0; k < 4; ++k) boxes.push_back(random.uniform(-10, 50));
    if (round % 3 == 0)
      for (double& z : boxes) z = std::floor(z);
    points = {boxes[0], boxes[1], boxes[0], boxes[3], boxes[2], boxes[3], boxes[2], boxes[1]};
    const grid_size size{30, 40};
    CHECK((lists_of(run_lengths_from_boxes(boxes, {&size, 1}, workspace)) ==
           lists_of(
               run_lengths_from_polygons(points, std::vector<index_t>{0, 4}, {&size, 1}, second))));
  }
  const grid_size size{6, 5};
  const run_lengths_view found =
      run_lengths_from_boxes(std::vector<double>{1, 2, 3, 4}, {&size, 1}, workspace);
  CHECK((boxes_of(found) == std::vector<index_t>{1, 2, 3, 4}));
  CHECK((areas_of(found) == std::vector<index_t>{4}));
}

TEST_CASE("run lengths: pictures without pixels, and very wide ones") {
  run_lengths_workspace workspace, second;
  for (const grid_size size : {grid_size{0, 0}, {0, 65536}, {65536, 0}}) {
    const byte_pictures<const std::uint8_t> pictures{nullptr, 2, size, 0, size.width, 1};
    const run_lengths_view runs = encode_masks(pictures, workspace);
    CHECK((lists_of(runs) == counts_list{{0}, {0}}));
    CHECK((areas_of(runs) == std::vector<index_t>{0, 0}));
    CHECK((boxes_of(runs) == std::vector<index_t>(8)));
    CHECK((ious_of(runs, runs, {}) == std::vector<double>(4)));
    CHECK((lists_of(merge_masks(runs, mask_merging::any, second)) == counts_list{{0}}));
    masks_workspace decoded;
    CHECK(decode_masks(runs, mask_pixels::bytes, decoded).pixels.size() == 0);
    const std::vector<double> points{0, 0, 9, 0, 9, 9};
    CHECK((lists_of(run_lengths_from_polygons(points, std::vector<index_t>{0, 3}, {&size, 1},
                                              second)) == counts_list{{0}}));
    const std::vector<grid_size> both{size, size};
    CHECK((lists_of(run_lengths_from_strings(strings_of({0, 0, 1}, "0"), both, second)) ==
           counts_list{{}, {0}}));
  }
  // Pictures without pixels cost no time, and their strides do not matter.
  constexpr index_t most = (index_t{1} << 32) - 1;
  constexpr index_t least_stride = std::numeric_limits<index_t>::min();
  for (const grid_size size : {grid_size{most, 0}, {0, most}})
    for (const bool has_columns : {false, true}) {
      const index_t down = has_columns ? 1 : 5, across = has_columns ? 5 : 1;
      const byte_pictures<const std::uint8_t> pictures{nullptr, 3, size, 7, down, across};
      const run_lengths_view runs = encode_masks(pictures, workspace);
      CHECK((lists_of(runs) == counts_list{{0}, {0}, {0}}));
      masks_workspace decoded;
      for (const mask_pixels kind : {mask_pixels::bits, mask_pixels::bytes}) {
        const masks_view found = decode_masks(runs, kind, decoded);
        CHECK(found.pixels.size() == 0);
        CHECK((lists_of(encode_masks(found, {&size, 1}, second)) == lists_of(runs)));
      }
      decode_masks(runs, byte_pictures<std::uint8_t>{nullptr, 3, size, 7, down, across});
      if (has_columns) continue;
      const index_t box[] = {0, 0, 0, 0}, ends[] = {0, 0};
      const masks_view empty{boxes_view<const index_t>(box, 1), {ends, 2}, {}, mask_pixels::bytes};
      CHECK((lists_of(encode_masks(empty, {&size, 1}, second)) == counts_list{{0}}));
    }
  const std::uint8_t pixel = 3;
  const byte_pictures<const std::uint8_t> single{&pixel,       1,           {1, 1}, least_stride,
                                                 least_stride, least_stride};
  const run_lengths_view one_pixel = encode_masks(single, workspace);
  CHECK((lists_of(one_pixel) == counts_list{{0, 1}}));
  std::uint8_t copy = 7;
  decode_masks(one_pixel, byte_pictures<std::uint8_t>{
                              &copy, 1, {1, 1}, least_stride, least_stride, least_stride});
  CHECK(copy == 1);
  const run_lengths_view none = encode_masks(masks_view{}, {}, workspace);
  CHECK((none.size() == 0 && none.offsets.size() == 1));
  CHECK(run_lengths_to_strings(run_lengths_view{}, workspace).text.size() == 0);
  CHECK(run_lengths_from_strings({}, {}, workspace).size() == 0);
  CHECK(run_lengths_from_polygons({}, {}, {}, workspace).size() == 0);
  random_generator random(7);
  const pictures_of_bytes wide = random_pictures(2, {3, 65536}, random);
  check_encoded([&](threading policy) { return encode_masks(wide.view(), workspace, policy); },
                wide.counts());
}

TEST_CASE("run lengths: inputs in results of the same workspace") {
  const auto fails = refusals();
  const pictures_of_bytes p{1, {2, 2}, {0, 1, 1, 1}};
  run_lengths_workspace workspace;
  const run_lengths_view runs = encode_masks(p.view(), workspace);
  const owned_runs before(runs);
  const auto refused = [&](const std::string& input, const auto& call) {
    fails(input + " is in a result of the workspace, expected memory that the call does not", call);
    CHECK((lists_of(runs) == lists_of(before.view())));
  };
  // So many results that the workspace's memory would move.
  std::vector<double> points, boxes;
  std::vector<index_t> offsets{0}, corners, begins{0};
  for (int i = 0; i < 50; ++i) {
    points.insert(points.end(), {0, 0, 2, 0, 2, 2});
    offsets.push_back(offsets.back() + 3);
    boxes.insert(boxes.end(), {0, 0, 2, 2});
    corners.insert(corners.end(), {0, 0, 1, 1});
    begins.push_back(begins.back() + 1);
  }
  const std::vector<std::uint8_t> bytes(50, 1);
  const boxes_view<const index_t> rectangles(corners.data(), 50);
  const masks_view masks{rectangles, begins, bytes, mask_pixels::bytes};
  refused("run_lengths_from_polygons: sizes",
          [&] { run_lengths_from_polygons(points, offsets, runs.sizes, workspace); });
  refused("run_lengths_from_boxes: sizes",
          [&] { run_lengths_from_boxes(boxes, runs.sizes, workspace); });
  refused("encode_masks: sizes", [&] { encode_masks(masks, runs.sizes, workspace); });
  const run_length_strings strings = run_lengths_to_strings(runs, workspace);
  refused("run_lengths_from_strings: sizes",
          [&] { run_lengths_from_strings(strings, runs.sizes, workspace); });
  refused("encode_masks: pictures", [&] {
    encode_masks({reinterpret_cast<const std::uint8_t*>(runs.counts.data()), 1, {2, 4}, 8, 4, 1},
                 workspace);
  });
  const index_t box[] = {0, 0, 2, 1};
  refused("encode_masks: masks.offsets", [&] {
    encode_masks({{box, 1}, runs.offsets, {bytes.data(), 2}, mask_pixels::bytes}, before.sizes,
                 workspace);
  });
  const std::string text = "13";
  refused("run_lengths_from_strings: strings.offsets", [&] {
    run_lengths_from_strings({runs.offsets, {text.data(), 2}}, before.sizes, workspace);
  });
  // Strings are other results, and another workspace's run lengths do not change.
  run_lengths_workspace second;
  CHECK(run_lengths_from_polygons(points, offsets, runs.sizes, second).size() == 50);
  CHECK((lists_of(run_lengths_from_strings(strings, before.sizes, workspace)) ==
         lists_of(before.view())));
  // Offsets of results that could be those of polygons.
  owned_runs triangles;
  triangles.add({1, 3}, {1, 1, 1});
  run_lengths_workspace third;
  const run_length_strings three = run_lengths_to_strings(triangles.view(), second);
  const run_lengths_view own = run_lengths_from_strings(three, triangles.sizes, third);
  fails("run_lengths_from_polygons: offsets is in a result of the workspace", [&] {
    run_lengths_from_polygons({points.data(), 6}, own.offsets, triangles.sizes, third);
  });
}

TEST_CASE("run lengths: documented errors") {
  run_lengths_workspace workspace;
  masks_workspace decoded;
  owned_runs good;
  good.add({4, 5}, {3, 4, 13});
  good.add({4, 5}, {20});
  std::vector<index_t> areas(2, -7), boxes(8, -7);
  std::vector<double> ious(4, -7);
  std::vector<std::uint8_t> bytes(40, 7);
  const auto fails = refusals(areas, boxes, ious, bytes);
  const byte_pictures<std::uint8_t> pictures{bytes.data(), 2, {4, 5}, 20, 5, 1};
  const matrix_view<double> matrix(ious.data(), 2, 2);

  // Every function that reads run lengths checks them.
  const auto all_fail = [&](const std::string& message, const auto& change) {
    owned_runs bad = good;
    change(bad);
    const run_lengths_view runs = bad.view();
    fails("mask_areas: " + message, [&] { mask_areas(runs, areas); });
    fails("mask_boxes: " + message, [&] { mask_boxes(runs, boxes); });
    fails("mask_polygons: " + message, [&] { mask_polygons(runs, workspace); });
    fails("decode_masks: " + message, [&] { decode_masks(runs, mask_pixels::bits, decoded); });
    fails("decode_masks: " + message, [&] { decode_masks(runs, pictures); });
    fails("merge_masks: " + message, [&] { merge_masks(runs, mask_merging::any, workspace); });
    fails("run_lengths_to_strings: " + message, [&] { run_lengths_to_strings(runs, workspace); });
    const std::string other = "mask_iou: " + message;
    const auto in_b = [&](std::string text) {
      for (std::size_t at = 0; (at = text.find("runs", at)) != std::string::npos; ++at)
        text.replace(at, 4, "b");
      return text;
    };
    fails(in_b(other),
          [&] { mask_iou(good.view(), runs, mask_overlap::iou, {}, matrix, workspace); });
  };
  all_fail("the sum of the counts of runs[1] is 19, expected 20, the number of pixels",
           [](owned_runs& r) { r.counts[3] = 19; });
  all_fail("the sum of the counts of runs[0] is 4294967312, expected 20, the number of pixels",
           [](owned_runs& r) { r.counts[0] = 0xffffffffu; });
  all_fail("runs.offsets[1] is -1, expected at least 0", [](owned_runs& r) { r.offsets[1] = -1; });
  all_fail("runs.offsets[2] is 4, expected at least 5, the element before it", [](owned_runs& r) {
    r.offsets = {0, 5, 4};
  });
  all_fail("runs.offsets[2] is 3, expected 4, the number of counts",
           [](owned_runs& r) { r.offsets[2] = 3; });
  all_fail("runs.offsets.size() is 2, expected 3, one more than there are masks",
           [](owned_runs& r) { r.offsets.pop_back(); });
  all_fail("runs.sizes[0] is -4, expected sides of 0 to 2^32 - 1", [](owned_runs& r) {
    r.sizes[0] = {-4, -5};
  });
  all_fail("runs.sizes[1] is 65536 x 65536, expected less than 2^32 pixels", [](owned_runs& r) {
    r.sizes[1] = {65536, 65536};
  });

  const run_lengths_view runs = good.view();
  fails("mask_areas: areas.size() is 1, expected 2, the number of masks", [&] {
    mask_areas(runs, {areas.data(), 1});
  });
  fails("mask_boxes: boxes.size() is 1, expected 2, the number of masks", [&] {
    mask_boxes(runs, {boxes.data(), 1});
  });
  const run_lengths_view short_runs{
      {good.sizes.data(), 1}, {good.offsets.data(), 2}, {good.counts.data(), 3}};
  fails("mask_areas: areas is in the memory of runs.offsets, expected separate memory", [&] {
    mask_areas(short_runs, {good.offsets.data() + 1, 1});
  });
  fails("mask_iou: is_crowd.size() is 1, expected 0 or 2, the number of masks in b", [&] {
    mask_iou(runs, runs, mask_overlap::iou, std::vector<std::uint8_t>{1}, matrix, workspace);
  });
  fails("mask_iou: overlap is 2, expected a mask_overlap",
        [&] { mask_iou(runs, runs, static_cast<mask_overlap>(2), {}, matrix, workspace); });
  fails("mask_iou: ious.rows() is 1, expected 2, the number of masks in a", [&] {
    mask_iou(runs, runs, mask_overlap::iou, {}, {ious.data(), 1, 2}, workspace);
  });
  fails("mask_iou: ious.cols() is 1, expected 2, the number of masks in b", [&] {
    mask_iou(runs, runs, mask_overlap::iou, {}, {ious.data(), 2, 1}, workspace);
  });
  owned_runs turned;
  turned.add({4, 5}, {20});
  turned.add({5, 4}, {20});
  fails("mask_iou: b.sizes[1] is 5 x 4, expected 4 x 5, the size of all pictures",
        [&] { mask_iou(runs, turned.view(), mask_overlap::iou, {}, matrix, workspace); });
  fails("merge_masks: runs.sizes[1] is 5 x 4, expected 4 x 5, the size of all pictures",
        [&] { merge_masks(turned.view(), mask_merging::any, workspace); });
  fails("merge_masks: runs.size() is 0, expected 1 or more",
        [&] { merge_masks({}, mask_merging::any, workspace); });
  fails("merge_masks: merging is 2, expected a mask_merging",
        [&] { merge_masks(runs, static_cast<mask_merging>(2), workspace); });
  const run_lengths_view own = run_lengths_from_strings(
      strings_of({0, 3}, std::string(run_lengths_to_strings(short_runs, workspace).text.data(), 3)),
      {good.sizes.data(), 1}, workspace);
  fails(
      "merge_masks: runs.sizes is in a result of the workspace, expected memory that the call does "
      "not overwrite",
      [&] { merge_masks(own, mask_merging::any, workspace); });

  // Pictures.
  const auto with = [&](const auto& change) {
    byte_pictures<std::uint8_t> changed = pictures;
    change(changed);
    return changed;
  };
  using pictures_type = byte_pictures<std::uint8_t>;
  fails("decode_masks: pictures.count is 1, expected 2, the number of masks",
        [&] { decode_masks(runs, with([](pictures_type& p) { p.count = 1; })); });
  fails("decode_masks: runs.sizes[0] is 4 x 5, expected 5 x 4, the size of all pictures", [&] {
    decode_masks(runs, with([](pictures_type& p) { p.size = {5, 4}; }));
  });
  fails("decode_masks: a stride of the pictures is 4, expected at least 5, the bytes within it",
        [&] { decode_masks(runs, with([](pictures_type& p) { p.row_stride = 4; })); });
  fails("decode_masks: a stride of the pictures is 0, expected at least 1",
        [&] { decode_masks(runs, with([](pictures_type& p) { p.stride = 0; })); });
  fails("decode_masks: pictures.data is null",
        [&] { decode_masks(runs, with([](pictures_type& p) { p.data = nullptr; })); });
  fails("decode_masks: pixels is 2, expected a mask_pixels",
        [&] { decode_masks(runs, static_cast<mask_pixels>(2), decoded); });
  std::vector<std::uint32_t> many(200);
  many[0] = 3;
  many[1] = 17;
  const index_t ends[] = {0, 200};
  const grid_size size{4, 5};
  fails("decode_masks: pictures is in the memory of runs.counts, expected separate memory", [&] {
    decode_masks({{&size, 1}, {ends, 2}, many},
                 {reinterpret_cast<std::uint8_t*>(many.data() + 100), 1, size, 20, 5, 1});
  });
  const byte_pictures<const std::uint8_t> in{bytes.data(), 2, size, 20, 5, 1};
  const auto encoding_fails = [&](const std::string& message, const auto& change) {
    byte_pictures<const std::uint8_t> changed = in;
    change(changed);
    fails("encode_masks: " + message, [&] { encode_masks(changed, workspace); });
  };
  using input = byte_pictures<const std::uint8_t>;
  encoding_fails("pictures.count is -1, expected 0 or more", [](input& p) { p.count = -1; });
  encoding_fails("pictures[0] is -1, expected sides of", [](input& p) { p.size.width = -1; });
  encoding_fails("pictures[0] is 65536 x 65536, expected less than 2^32 pixels", [](input& p) {
    p.size = {65536, 65536};
  });
  encoding_fails("pictures.data is null, expected memory", [](input& p) { p.data = nullptr; });
  encoding_fails("pictures.row_stride is 4611686018427387904, expected a distance",
                 [](input& p) { p.row_stride = index_t{1} << 62; });

  // Masks.
  std::vector<index_t> corners{1, 1, 4, 3, 0, 0, 5, 4}, begins{0, 2, 6};
  const std::vector<std::uint8_t> bits(6);
  const auto masks_fail = [&](const std::string& message, const auto& change) {
    std::vector<index_t> other_corners = corners, other_begins = begins;
    std::vector<grid_size> sizes{{4, 5}};
    change(other_corners, other_begins, sizes);
    const masks_view masks{boxes_view<const index_t>(other_corners), other_begins, bits,
                           mask_pixels::bits};
    fails("encode_masks: " + message, [&] { encode_masks(masks, sizes, workspace); });
  };
  using numbers = std::vector<index_t>;
  using sizes_type = std::vector<grid_size>;
  masks_fail(
      "masks.boxes[0] is 1 1 6 3, expected a rectangle of whole pixels in the picture of 4 x",
      [](numbers& c, numbers&, sizes_type&) { c[2] = 6; });
  masks_fail("masks.boxes[1] is 0 -1 5 4, expected a rectangle",
             [](numbers& c, numbers&, sizes_type&) { c[5] = -1; });
  masks_fail("masks.boxes[0] is 1 4 4 3, expected a rectangle",
             [](numbers& c, numbers&, sizes_type&) { c[1] = 4; });
  masks_fail("the number of bytes of masks[0] is 1, expected 2, those of its rectangle",
             [](numbers&, numbers& b, sizes_type&) { b[1] = 1; });
  masks_fail("masks.offsets[2] is 5, expected 6, the number of bytes",
             [](numbers&, numbers& b, sizes_type&) { b[2] = 5; });
  masks_fail("masks.offsets.size() is 2, expected 3, one more than there are masks",
             [](numbers&, numbers& b, sizes_type&) { b.pop_back(); });
  masks_fail("sizes.size() is 3, expected 2, the number of masks",
             [](numbers&, numbers&, sizes_type& s) { s.resize(3); });
  masks_fail("sizes[0] is -5, expected sides of 0 to 2^32 - 1",
             [](numbers&, numbers&, sizes_type& s) { s[0].width = -5; });

  // Strings.
  const auto string_fails = [&](const std::string& message, const std::string& text,
                                const grid_size& of) {
    const std::vector<index_t> all{0, static_cast<index_t>(text.size())};
    fails("run_lengths_from_strings: " + message, [&] {
      run_lengths_from_strings(strings_of(all, text), {&of, 1}, workspace);
    });
  };
  string_fails("strings.text is cut off within a number, expected whole strings", "0P", size);
  string_fails("strings.text[1] is the character 47, expected characters from 48 to 111", "0/",
               size);
  string_fails("strings.text[0] is the character 112, expected", "p", size);
  string_fails("strings.text[0] is the character 0, expected", std::string(1, '\0'), size);
  string_fails("strings.text[2] is the character 255, expected", "00\xff", size);
  string_fails(
      "strings.text[7] is within a longer number, expected numbers of at most 7 characters",
      "ooooooooo", size);
  string_fails("the count at strings.text[0] is -1, expected a count of 0 to 2^32 - 1", "O", size);
  string_fails("the count at strings.text[3] is -13, expected a count", "111B", size);
  string_fails("the sum of the counts of strings[0] is 3, expected 20, the number of pixels", "3",
               size);
  string_fails("the sum of the counts of strings[0] is 0, expected 20", "", size);
  string_fails("sizes[0] is 65536 x 65536, expected less than 2^32 pixels", "0", {65536, 65536});
  string_fails("the count at strings.text[0] is 4294967296, expected", "PPPPPP4", {1, 1});
  fails("strings.offsets[1] is 2, expected 1, the number of characters", [&] {
    run_lengths_from_strings(strings_of({0, 2}, "3"), {&size, 1}, workspace);
  });
  fails("strings.offsets[1] is -1, expected at least 0", [&] {
    run_lengths_from_strings(strings_of({0, -1, 1}, "3"), std::vector<grid_size>{size, size},
                             workspace);
  });
  fails("sizes.size() is 0, expected 1, the number of strings", [&] {
    run_lengths_from_strings(strings_of({0, 1}, "3"), {}, workspace);
  });

  // Polygons and boxes.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {nan, infinity, -infinity, 0x1.000001p27, -1e300}) {
    std::vector<double> points{0, 0, 9, 0, 9, wrong};
    fails("run_lengths_from_polygons: points[5] is ", [&] {
      run_lengths_from_polygons(points, std::vector<index_t>{0, 3}, {&size, 1}, workspace);
    });
    fails("run_lengths_from_boxes: boxes[0] is ", [&] {
      run_lengths_from_boxes(std::vector<double>{0, wrong, 9, 9}, {&size, 1}, workspace);
    });
  }
  const std::vector<double> points{0, 0, 9, 0, 9, 9};
  for (const index_t count : {1, 2})
    fails("the number of points of polygon[0] is " + std::to_string(count) + ", expected 3 or more",
          [&] {
            run_lengths_from_polygons({points.data(), 2 * count}, std::vector<index_t>{0, count},
                                      {&size, 1}, workspace);
          });
  fails("offsets[1] is 4, expected 3, the number of points", [&] {
    run_lengths_from_polygons(points, std::vector<index_t>{0, 4}, {&size, 1}, workspace);
  });
  fails("points.size() is 5, expected two numbers per point", [&] {
    run_lengths_from_polygons({points.data(), 5}, std::vector<index_t>{0, 2}, {&size, 1},
                              workspace);
  });
  fails("points.size() is 6, expected 0, as there are no offsets", [&] {
    run_lengths_from_polygons(points, {}, {&size, 1}, workspace);
  });
  fails("sizes.size() is 2, expected 1, the number of masks", [&] {
    run_lengths_from_polygons(points, std::vector<index_t>{0, 3}, std::vector<grid_size>(2),
                              workspace);
  });
  fails("sizes[0] is -1, expected sides of 0 to 2^32 - 1", [&] {
    run_lengths_from_boxes(std::vector<double>{0, 0, 9, 9}, std::vector<grid_size>{{-1, 2}},
                           workspace);
  });
}
