// SPDX-License-Identifier: Apache-2.0
// Pasted masks: golden vectors of torchvision's rule; the kernels against the reference on every
// instruction set, with maps and pictures of many sizes, both kinds of pixels, boxes of any kind,
// batches and threads; numbers that are not finite; and every documented error.
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/owned_masks.hpp"
#include "support/random.hpp"
#include "support/values.hpp"
#include <vecdet/paste_masks.hpp>
#include <vecdet/reference/masks.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
struct paste_problem {
  index_t height, width;
  std::vector<grid_size> sizes;
  std::vector<T> maps = {};
  std::vector<float> boxes = {};
  std::vector<index_t> offsets = {};
  paste_masks_params params = {};

  index_t count() const { return static_cast<index_t>(boxes.size() / 4); }

  /// Boxes of all kinds: most are proper, some of them on whole pixels; others are inverted,
  /// outside, less than a pixel or not finite.
  void make(index_t objects, std::uint64_t seed) {
    random_generator random(seed);
    for (index_t i = 0; i < objects * height * width; ++i)
      maps.push_back(to<T>(random.uniform(0, 1)));
    for (index_t i = 0; i < objects; ++i) {
      const auto w = static_cast<double>(sizes[0].width);
      const auto h = static_cast<double>(sizes[0].height);
      double box[4] = {random.uniform(-0.3, 1.3) * w, random.uniform(-0.3, 1.3) * h,
                       random.uniform(-0.3, 1.3) * w, random.uniform(-0.3, 1.3) * h};
      const index_t kind = random.below(16);
      if (kind > 1 && box[0] > box[2]) std::swap(box[0], box[2]);
      if (kind > 1 && box[1] > box[3]) std::swap(box[1], box[3]);
      if (kind == 2) box[random.below(4)] = std::nan("");
      if (kind == 3) box[2] = static_cast<double>(infinity);
      if (kind == 4) box[0] = -3e9, box[2] = 3e9;
      if (kind == 5) box[0] = box[1] = 0, box[2] = w, box[3] = h;
      if (kind == 6) box[2] = box[0] + 0.3, box[3] = box[1] + 0.3;
      if (kind == 7) box[1] = -1e30, box[3] = 1e30;
      for (double& x : box) {
        if (kind > 12) x = std::floor(x);
        boxes.push_back(static_cast<float>(x));
      }
    }
  }

  masks_view run(masks_workspace& workspace, threading policy = threading::sequential) const {
    const feature_view<const T> view(maps.data(), count(), 1, height, width, feature_layout::nchw);
    return paste_masks(view, boxes_view<const float>(boxes.data(), count()), offsets, sizes, params,
                       workspace, policy);
  }
};

/// Checks every pixel; one whose number is within the rounding of the threshold may be either.
template <class T>
void check_pixels(const paste_problem<T>& p, const masks_view& found) {
  index_t wrong = 0, near = 0;
  REQUIRE(found.size() == p.count());
  REQUIRE(found.offsets.size() == p.count() + 1);
  CHECK(found.offsets[p.count()] == found.pixels.size());
  index_t image = 0;
  for (index_t i = 0; i < p.count(); ++i) {
    while (!p.offsets.empty() && i >= p.offsets[static_cast<std::size_t>(image + 1)]) ++image;
    const grid_size size = p.sizes[p.sizes.size() == 1 ? 0 : static_cast<std::size_t>(image)];
    const auto side = [&](int k) { return found.boxes(i, k); };
    CHECK((side(0) >= 0 && side(1) >= 0 && side(2) <= size.width && side(3) <= size.height));
    CHECK(found.offsets[i + 1] - found.offsets[i] == (side(3) - side(1)) * found.row_bytes(i));
    const T* const map = &p.maps[static_cast<std::size_t>(i * p.height * p.width)];
    const float* const box = &p.boxes[static_cast<std::size_t>(4 * i)];
    const reference::pasted_side across(box[0], box[2], p.width), down(box[1], box[3], p.height);
    const auto range = [](const reference::pasted_side& of, index_t most) {
      const auto within = [&](double x) {
        return static_cast<index_t>(std::min(std::max(x, 0.0), static_cast<double>(most)));
      };
      if (of.is_empty) return std::make_pair(index_t{0}, index_t{0});
      return std::make_pair(within(of.begin), within(of.begin + of.size));
    };
    auto columns = range(across, size.width), rows = range(down, size.height);
    if (columns.first == columns.second || rows.first == rows.second) columns = rows = {0, 0};
    CHECK((side(0) == columns.first && side(2) == columns.second));
    CHECK((side(1) == rows.first && side(3) == rows.second));
    const double threshold = static_cast<double>(static_cast<float>(p.params.threshold));
    for (index_t y = 0; y < size.height; ++y)
      for (index_t x = 0; x < size.width; ++x) {
        const bool is_inside = x >= side(0) && x < side(2) && y >= side(1) && y < side(3);
        const double number = reference::pasted(map, p.height, p.width, box, x, y);
        if (found.has(i, x, y) == (is_inside && number > threshold)) continue;
        ++(is_inside && std::abs(number - threshold) < 0x1p-20 ? near : wrong);
      }
  }
  CHECK(wrong == 0);
  CHECK(near <= 2 + p.count() / 4);
}

template <class T>
void check(paste_problem<T> p, index_t objects, std::uint64_t seed) {
  p.make(objects, seed);
  masks_workspace workspace;
  for (const mask_pixels kind : {mask_pixels::bits, mask_pixels::bytes}) {
    p.params.pixels = kind;
    INFO(std::string(dtype_name<T>()), " map ", p.height, "x", p.width, " picture ",
         p.sizes[0].height, "x", p.sizes[0].width);
    check_masks([&](threading policy) { return p.run(workspace, policy); },
                [&](const masks_view& found) { check_pixels(p, found); });
  }
}

/// Pictures filled with another number before the call.
template <class T>
std::vector<float> soft_masks(const paste_problem<T>& p, threading policy) {
  const grid_size size = p.sizes[0];
  std::vector<float> pictures(static_cast<std::size_t>(p.count() * size.height * size.width), 7);
  masks_workspace workspace;
  paste_soft_masks(
      feature_view<const T>(p.maps.data(), p.count(), 1, p.height, p.width, feature_layout::nchw),
      boxes_view<const float>(p.boxes.data(), p.count()),
      feature_view<float>(pictures.data(), p.count(), 1, size.height, size.width,
                          feature_layout::nchw),
      workspace, policy);
  return pictures;
}

template <class T>
void check_soft(paste_problem<T> p, index_t objects, std::uint64_t seed) {
  p.make(objects, seed);
  const grid_size size = p.sizes[0];
  std::vector<float> fused;
  for_each_isa([&](isa set) {
    const std::vector<float> found = soft_masks(p, threading::sequential);
    double worst = 0;
    index_t inside = 0;
    for (index_t i = 0; i < p.count(); ++i)
      for (index_t y = 0; y < size.height; ++y)
        for (index_t x = 0; x < size.width; ++x) {
          const double exact =
              reference::pasted(&p.maps[static_cast<std::size_t>(i * p.height * p.width)], p.height,
                                p.width, &p.boxes[static_cast<std::size_t>(4 * i)], x, y);
          const double number = static_cast<double>(
              found[static_cast<std::size_t>((i * size.height + y) * size.width + x)]);
          worst = std::max(worst, std::abs(number - exact));
          inside += number > 0;
        }
    CHECK(worst <= 0x1p-20);
    CHECK((inside > 0 || objects == 0));
    CHECK(same_bits(soft_masks(p, threading::parallel), found));
    if (set == isa::baseline) return;
    if (!fused.empty()) CHECK(same_bits(found, fused));
    fused = found;
  });
}

}  // namespace

TEST_CASE("paste_soft_masks: golden vectors") {
  if (!has_data("golden_masks/paste_masks.npy", "pasted masks against torchvision")) return;
  const auto golden = [](const std::string& name) {
    return load_npy<float>(data_path("golden_masks/paste_" + name + ".npy")).values;
  };
  paste_problem<float> p{28, 28, {{90, 120}}};
  p.maps = golden("masks");
  p.boxes = golden("boxes");
  const auto result = golden("result");
  for_each_isa([&](isa) {
    const std::vector<float> found = soft_masks(p, threading::sequential);
    REQUIRE(found.size() == result.size());
    double worst = 0;
    for (std::size_t k = 0; k < result.size(); ++k) {
      worst = std::max(worst, static_cast<double>(std::abs(found[k] - result[k])));
      CHECK((found[k] > 0) == (result[k] > 0));
    }
    CHECK(worst < 2e-7);
  });
}

TEST_CASE_TEMPLATE("paste_soft_masks: maps and pictures of many sizes", T, float, bfloat16) {
  std::uint64_t seed = 50;
  for (const index_t side : {1, 2, 3, 15, 16, 17, 28, 33})
    check_soft(paste_problem<T>{side, side, {{40, 50}}}, 12, ++seed);
  check_soft(paste_problem<T>{5, 31, {{33, 70}}}, 12, ++seed);
  check_soft(paste_problem<T>{28, 28, {{7, 9}}}, 12, ++seed);
  check_soft(paste_problem<T>{14, 14, {{9, 65536}}}, 3, ++seed);
}

TEST_CASE("paste_soft_masks: numbers that are not finite, and nothing to paste") {
  paste_problem<float> p{14, 14, {{60, 80}}};
  p.make(6, 8);
  for (std::size_t i = 0; i < p.maps.size(); i += 37) p.maps[i] = i % 2 == 0 ? quiet_nan : infinity;
  const std::vector<float> found = soft_masks(p, threading::sequential);
  CHECK(std::count_if(found.begin(), found.end(), [](float x) { return std::isnan(x); }) > 0);
  CHECK(std::count(found.begin(), found.end(), 7.0f) == 0);
  p = {0, 3, {{8, 8}}};
  p.boxes = {0, 0, 8, 8};
  CHECK(soft_masks(p, threading::sequential) == std::vector<float>(64, 0.0f));
  for (const grid_size size : {grid_size{0, 8}, {8, 0}}) {
    p = {2, 2, {size}};
    p.make(3, 1);
    CHECK(soft_masks(p, threading::sequential).empty());
  }
  CHECK(soft_masks(paste_problem<float>{4, 4, {{5, 5}}}, threading::sequential).empty());
}

TEST_CASE("paste_soft_masks: documented errors") {
  std::vector<float> memory(400, 1);
  const std::vector<float> boxes{0, 0, 4, 4, 1, 1, 3, 3};
  masks_workspace workspace;
  const auto fails = [&](const std::string& message, index_t objects, index_t channels,
                         index_t pictures, index_t picture_channels, index_t height,
                         index_t distance) {
    INFO(message);
    const feature_view<const float> maps(memory.data(), objects, channels, 3, 3,
                                         feature_layout::nchw);
    const feature_view<float> to(memory.data() + distance, pictures, picture_channels, height,
                                 height > 99 ? 0 : 5, feature_layout::nchw);
    CHECK_THROWS_WITH_AS(paste_soft_masks(maps, boxes_view<const float>(boxes), to, workspace),
                         doctest::Contains(("vecdet::paste_soft_masks: " + message).c_str()),
                         std::invalid_argument);
    CHECK(memory == std::vector<float>(400, 1));
  };
  fails("maps.images() is 3, expected 2, the number of boxes", 3, 1, 2, 1, 4, 100);
  fails("maps.channels() is 2, expected 1, one map per object", 2, 2, 2, 1, 4, 100);
  fails("pictures.images() is 1, expected 2, the number of boxes", 2, 1, 1, 1, 4, 100);
  fails("pictures.channels() is 3, expected 1, one picture per object", 2, 1, 2, 3, 4, 100);
  fails("a side of the pictures is 1048577, expected at most 2^20", 2, 1, 2, 1, (1 << 20) + 1, 100);
  fails("pictures is in the memory of maps, expected separate memory", 2, 1, 2, 1, 4, 17);
}

TEST_CASE("paste_masks: golden vectors") {
  if (!has_data("golden_masks/paste_masks.npy", "pasted masks against torchvision")) return;
  const auto golden = [](const std::string& name) {
    return load_npy<float>(data_path("golden_masks/paste_" + name + ".npy")).values;
  };
  constexpr index_t height = 90, width = 120;
  paste_problem<float> p{28, 28, {{height, width}}};
  p.maps = golden("masks");
  p.boxes = golden("boxes");
  const auto result = golden("result");
  REQUIRE(result.size() == static_cast<std::size_t>(p.count() * height * width));
  for_each_isa([&](isa) {
    masks_workspace workspace;
    for (const double threshold : {0.5, 0.25}) {
      p.params.threshold = threshold;
      const masks_view found = p.run(workspace);
      int differ = 0;
      for (std::size_t k = 0; k < result.size(); ++k) {
        const auto at = static_cast<index_t>(k);
        const bool has = found.has(at / (height * width), at % width, at / width % height);
        differ += has != (static_cast<double>(result[k]) > threshold);
      }
      CHECK(differ == 0);
    }
  });
}

TEST_CASE_TEMPLATE("paste_masks: maps and pictures of many sizes", T, float, bfloat16) {
  std::uint64_t seed = 0;
  for (const index_t side : {1, 2, 3, 15, 16, 17, 28, 33})
    check(paste_problem<T>{side, side, {{40, 50}}}, 12, ++seed);
  check(paste_problem<T>{5, 31, {{33, 70}}}, 12, ++seed);
  check(paste_problem<T>{28, 28, {{7, 9}}}, 12, ++seed);  // reduced
  check(paste_problem<T>{28, 28, {{1, 300}}}, 12, ++seed);
  check(paste_problem<T>{14, 14, {{9, 65536}}}, 3, ++seed);
}

TEST_CASE("paste_masks: batches") {
  paste_problem<float> p{14, 14, {{60, 80}, {33, 20}, {0, 0}, {90, 40}}};
  p.offsets = {0, 5, 5, 8, 16};
  check(p, 16, 3);
  p.sizes = {{60, 80}};
  check(p, 16, 4);
}

TEST_CASE("paste_masks: thresholds") {
  paste_problem<float> p{14, 14, {{60, 80}}};
  for (const double threshold : {0.0, 0.3, 1.0, -0.5}) {
    p.params.threshold = threshold;
    check(p, 8, 5);
  }
  // Above, not from the threshold on.
  p = {1, 1, {{3, 3}}, {0.5f}, {0, 0, 2, 2}};
  p.params.threshold = 0.5;
  masks_workspace workspace;
  CHECK(!p.run(workspace).has(0, 1, 1));
  p.params.threshold = 0.4999;
  CHECK(p.run(workspace).has(0, 1, 1));
}

TEST_CASE("paste_masks: numbers that are not finite") {
  paste_problem<float> p{14, 14, {{60, 80}}};
  p.make(6, 8);
  for (std::size_t i = 0; i < p.maps.size(); i += 37) p.maps[i] = i % 2 == 0 ? quiet_nan : infinity;
  std::vector<owned_masks> fused;
  for_each_isa([&](isa set) {
    masks_workspace workspace;
    const owned_masks found(p.run(workspace));
    if (set == isa::baseline) return;
    if (!fused.empty()) CHECK((found == fused[0]));
    fused = {found};
  });
  p.maps.assign(p.maps.size(), quiet_nan);
  masks_workspace workspace;
  const masks_view found = p.run(workspace);
  CHECK(!found.pixels.empty());
  CHECK(std::count(found.pixels.begin(), found.pixels.end(), 0) == found.pixels.size());
}

TEST_CASE("paste_masks: no objects, empty pictures and maps") {
  masks_workspace workspace;
  paste_problem<float> p{28, 28, {{60, 80}}};
  CHECK(p.run(workspace).size() == 0);
  p.offsets = {0, 0, 0};
  CHECK(p.run(workspace).offsets.size() == 1);
  for (const grid_size size : {grid_size{0, 8}, {8, 0}, {0, 0}}) {
    p = {2, 2, {size}};
    p.make(3, 1);
    p.boxes = {0, 0, 8, 8, 1, 1, 2, 2, 0, 0, 4, 4};
    CHECK(p.run(workspace).pixels.size() == 0);
  }
  p = {0, 3, {{8, 8}}};
  p.boxes = {0, 0, 8, 8};
  CHECK(p.run(workspace).pixels.size() == 0);
  CHECK(p.run(workspace).boxes(0, 2) == 0);
}

TEST_CASE("paste_masks: documented errors") {
  paste_problem<float> p{4, 5, {{16, 20}}};
  p.make(4, 1);
  masks_workspace workspace;
  const owned_masks before(p.run(workspace));
  const auto fails = [&](const std::string& message, const auto& change) {
    paste_problem<float> other = p;
    change(other);
    INFO(message);
    CHECK_THROWS_WITH_AS(other.run(workspace), doctest::Contains(message.c_str()),
                         std::invalid_argument);
  };
  using problem = paste_problem<float>;
  fails("vecdet::paste_masks: image_offsets[2] is 3, expected 4, the number of boxes",
        [](problem& q) {
          q.offsets = {0, 2, 3};
        });
  fails("sizes.size() is 2, expected 1, the number of images",
        [](problem& q) { q.sizes.resize(2); });
  fails("sizes[0] is 1048577, expected sides of 0 to 2^20 pixels",
        [](problem& q) { q.sizes[0].height = (1 << 20) + 1; });
  fails("params.pixels is 7, expected a mask_pixels",
        [](problem& q) { q.params.pixels = static_cast<mask_pixels>(7); });
  for (const double threshold : {std::nan(""), 1e39, static_cast<double>(infinity)})
    fails("expected a number that is finite in float",
          [&](problem& q) { q.params.threshold = threshold; });
  const auto with_maps = [&](index_t objects, index_t channels, index_t height, index_t width) {
    paste_masks(feature_view<const float>(p.maps.data(), objects, channels, height, width,
                                          feature_layout::nchw),
                boxes_view<const float>(p.boxes), {}, p.sizes, {}, workspace);
  };
  CHECK_THROWS_WITH_AS(with_maps(3, 1, 4, 5),
                       doctest::Contains("maps.images() is 3, expected 4, the number of boxes"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(with_maps(4, 2, 4, 5),
                       doctest::Contains("maps.channels() is 2, expected 1, one map per object"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      with_maps(4, 1, 0, (1 << 20) + 1),
      doctest::Contains("a side of the maps is 1048577, expected at most 2^20 locations"),
      std::invalid_argument);
  CHECK((owned_masks(p.run(workspace)) == before));
}
