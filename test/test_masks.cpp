// SPDX-License-Identifier: Apache-2.0
// Masks from prototypes: golden vectors of ultralytics' rules; the kernels against the reference on
// every instruction set, with sizes around rows of lanes, enlarged and reduced, both kinds of
// pixels, letterboxes, batches, threads and special numbers; boxes of any kind; and every
// documented error.
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/owned_masks.hpp"
#include "support/random.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/masks.hpp>
#include <vecdet/reference/masks.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr mask_rule all_rules[] = {mask_rule::native, mask_rule::upsampled, mask_rule::cropped};

template <class T>
struct masks_problem {
  index_t images, channels, height, width;
  std::vector<grid_size> sizes;
  std::vector<index_t> offsets = {};
  std::vector<T> prototypes = {};
  std::vector<float> coefficients = {}, boxes = {};
  prototype_masks_params params = {};
  index_t gap = 0;  ///< between the rows of coefficients

  index_t count() const { return static_cast<index_t>(boxes.size() / 4); }
  feature_view<const T> maps() const {
    return {prototypes.data(), images, channels, height, width, feature_layout::nchw};
  }
  matrix_view<const float> rows() const {
    return {coefficients.data(), count(), channels, channels + gap};
  }
  const grid_size& size_of(index_t image) const {
    return sizes[sizes.size() == 1 ? 0 : static_cast<std::size_t>(image)];
  }

  /// Boxes of all kinds: most are proper, some of them on whole pixels; others are inverted,
  /// outside or not finite.
  void make(index_t objects, std::uint64_t seed) {
    random_generator random(seed);
    for (index_t i = 0; i < images * channels * height * width; ++i)
      prototypes.push_back(to<T>(random.normal()));
    for (index_t i = 0; i < objects * (channels + gap); ++i)
      coefficients.push_back(static_cast<float>(random.normal()));
    offsets = {0};
    for (index_t k = 1; k < images; ++k) offsets.push_back(k * objects / images);
    offsets.push_back(objects);
    for (index_t k = 0; k < images; ++k)
      for (index_t i = offsets[static_cast<std::size_t>(k)];
           i < offsets[static_cast<std::size_t>(k + 1)]; ++i) {
        const auto w = static_cast<double>(size_of(k).width);
        const auto h = static_cast<double>(size_of(k).height);
        double box[4] = {random.uniform(-0.3, 1.3) * w, random.uniform(-0.3, 1.3) * h,
                         random.uniform(-0.3, 1.3) * w, random.uniform(-0.3, 1.3) * h};
        const index_t kind = random.below(16);
        if (kind > 1 && box[0] > box[2]) std::swap(box[0], box[2]);
        if (kind > 1 && box[1] > box[3]) std::swap(box[1], box[3]);
        if (kind == 2) box[random.below(4)] = std::nan("");
        if (kind == 3) box[2] = infinity;
        if (kind == 4) box[1] = -infinity;
        if (kind == 5) box[0] = box[1] = 0, box[2] = w, box[3] = h;
        if (kind == 6) box[2] = box[0] + 0.3;
        for (double& x : box) {
          if (kind > 12) x = std::floor(x);
          boxes.push_back(static_cast<float>(x));
        }
      }
  }

  masks_view run(masks_workspace& workspace, threading policy = threading::sequential) const {
    return masks_from_prototypes(maps(), rows(), boxes_view<const float>(boxes.data(), count()),
                                 offsets, sizes, params, workspace, policy);
  }
};

/// Checks every pixel; a pixel whose logit is within the rounding of 0 may be either. Returns the
/// number of these that differ.
template <class T>
index_t check_pixels(const masks_problem<T>& p, const masks_view& found) {
  index_t wrong = 0, near_zero = 0;
  REQUIRE(found.size() == p.count());
  REQUIRE(found.offsets.size() == p.count() + 1);
  CHECK(found.offsets[p.count()] == found.pixels.size());
  for (index_t image = 0; image < p.images; ++image) {
    const reference::prototype_masks<T> exact(p.maps(), image, p.size_of(image), p.params.rule);
    const grid_size size = exact.size();
    for (index_t i = p.offsets[static_cast<std::size_t>(image)];
         i < p.offsets[static_cast<std::size_t>(image + 1)]; ++i) {
      const auto side = [&](int k) { return found.boxes(i, k); };
      CHECK((side(0) >= 0 && side(1) >= 0 && side(2) <= size.width && side(3) <= size.height));
      CHECK(found.offsets[i + 1] - found.offsets[i] == (side(3) - side(1)) * found.row_bytes(i));
      if (side(2) == 0) CHECK((side(0) == 0 && side(1) == 0 && side(3) == 0));
      for (index_t y = 0; y < size.height; ++y)
        for (index_t x = 0; x < size.width; ++x) {
          const reference::mask_logit logit =
              exact.at(p.rows().row(i), &p.boxes[static_cast<std::size_t>(4 * i)], x, y);
          if (found.has(i, x, y) == (logit.value > 0)) continue;
          const double error = static_cast<double>(p.channels + 16) * 0x1p-24 * logit.magnitude;
          ++(std::abs(logit.value) <= error ? near_zero : wrong);
        }
      // The padding of rows is 0.
      const index_t width = side(2) - side(0);
      if (found.kind == mask_pixels::bits && width % 8 != 0)
        for (index_t row = 1; row <= side(3) - side(1); ++row)
          wrong +=
              found.pixels[found.offsets[i] + row * found.row_bytes(i) - 1] >> (width % 8) != 0;
    }
  }
  CHECK(wrong == 0);
  return near_zero;
}

template <class T>
void check(masks_problem<T> p, index_t objects, std::uint64_t seed) {
  p.make(objects, seed);
  masks_workspace workspace;
  for (const mask_rule rule : all_rules)
    for (const mask_pixels kind : {mask_pixels::bits, mask_pixels::bytes}) {
      p.params.rule = rule;
      p.params.pixels = kind;
      INFO(std::string(dtype_name<T>()), " rule ", static_cast<int>(rule), " kind ",
           static_cast<int>(kind), " prototypes ", p.channels, "x", p.height, "x", p.width,
           " picture ", p.sizes[0].height, "x", p.sizes[0].width);
      check_masks([&](threading policy) { return p.run(workspace, policy); },
                  [&](const masks_view& found) { CHECK(check_pixels(p, found) <= 2); });
    }
}

}  // namespace

TEST_CASE("masks: golden vectors") {
  if (!has_data("golden_masks/proto.npy", "masks against torch")) return;
  const auto golden = [](const std::string& name) {
    return load_npy<float>(data_path("golden_masks/proto" + name + ".npy")).values;
  };
  masks_problem<float> p{1, 32, 40, 48, {{160, 192}}};
  p.prototypes = golden("");
  p.coefficients = golden("_coefficients");
  p.boxes = golden("_boxes");
  p.offsets = {0, p.count()};
  const char* const names[] = {"native", "upsampled", "small"};  // in the order of mask_rule
  for (const mask_rule rule : all_rules) {
    // Torch's masks are where its logits, 0 outside the box, are above 0.
    const auto logits = golden(std::string("_logit_") + names[static_cast<int>(rule)]);
    p.params.rule = rule;
    const index_t width = rule == mask_rule::cropped ? 48 : 192;
    const index_t height = rule == mask_rule::cropped ? 40 : 160;
    REQUIRE(logits.size() == static_cast<std::size_t>(8 * height * width));
    for_each_isa([&](isa) {
      masks_workspace workspace;
      const masks_view found = p.run(workspace);
      int differ = 0;
      for (std::size_t k = 0; k < logits.size(); ++k) {
        const auto at = static_cast<index_t>(k);
        const bool has = found.has(at / (height * width), at % width, at / width % height);
        differ += has != (logits[k] > 0);
      }
      CHECK(differ == 0);  // no logit of these vectors is within 1e-5 of 0
    });
  }
}

TEST_CASE_TEMPLATE("masks: widths and heights around rows of lanes", T, float, bfloat16) {
  std::uint64_t seed = 0;
  for (const index_t width : {1, 2, 3, 7, 15, 16, 17, 31, 33, 40, 64, 65, 80}) {
    check(masks_problem<T>{1, 3, 5, width, {{20, 4 * width}}}, 6, ++seed);
    check(masks_problem<T>{1, 2, 6, width, {{9, 2 * width + 1}}}, 5, ++seed);
  }
  for (const index_t height : {1, 2, 15, 16, 17, 33})
    check(masks_problem<T>{1, 4, height, 9, {{3 * height + 1, 30}}}, 5, ++seed);
}

TEST_CASE_TEMPLATE("masks: numbers of prototypes", T, float, bfloat16) {
  for (const index_t channels : {1, 2, 3, 8, 31, 32, 33, 300}) {
    masks_problem<T> p{1, channels, 6, 20, {{24, 80}}};
    p.gap = channels % 3;
    check(p, 4, static_cast<std::uint64_t>(channels));
  }
  masks_problem<T> none{1, 0, 6, 20, {{24, 80}}};
  none.boxes = {0, 0, 80, 24};
  none.offsets = {0, 1};
  masks_workspace workspace;
  const masks_view found = none.run(workspace);
  CHECK(found.boxes(0, 2) == 80);
  CHECK(std::count(found.pixels.begin(), found.pixels.end(), 0) == 24 * 10);
}

TEST_CASE("masks: pictures of any size, with and without a letterbox") {
  std::uint64_t seed = 100;
  for (const grid_size size :
       {grid_size{40, 72}, {1, 1}, {3, 100}, {100, 3}, {33, 17}, {90, 160}, {5, 9}, {7, 300}})
    check(masks_problem<float>{1, 3, 10, 18, {size}}, 6, ++seed);
  check(masks_problem<float>{1, 2, 40, 40, {{1, 1000}}}, 3, ++seed);  // half a row is left
  check(masks_problem<float>{1, 2, 3, 5, {{20, 65536}}}, 2, ++seed);
}

TEST_CASE("masks: batches") {
  check(masks_problem<float>{3, 4, 20, 24, {{80, 96}}}, 10, 1);
  check(masks_problem<bfloat16>{3, 4, 20, 24, {{80, 96}, {33, 200}, {120, 50}}}, 10, 2);
}

TEST_CASE("masks: numbers that are not finite") {
  masks_problem<float> p{1, 5, 19, 35, {{76, 140}}};
  p.make(6, 3);
  for (std::size_t i = 0; i < p.prototypes.size(); i += 97)
    p.prototypes[i] = i % 2 == 0 ? quiet_nan : infinity;
  for (const mask_rule rule : all_rules) {
    p.params.rule = rule;
    std::vector<owned_masks> fused;
    for_each_isa([&](isa set) {
      masks_workspace workspace;
      const owned_masks found(p.run(workspace));
      tbb::task_arena arena(3);
      arena.execute([&] { CHECK((owned_masks(p.run(workspace, threading::parallel)) == found)); });
      if (set == isa::baseline) return;
      if (!fused.empty()) CHECK((found == fused[0]));
      fused = {found};
    });
  }
  // A NaN coefficient makes all logits NaN: no pixel belongs to the object.
  std::fill(p.coefficients.begin(), p.coefficients.end(), quiet_nan);
  masks_workspace workspace;
  const masks_view found = p.run(workspace);
  CHECK(!found.pixels.empty());
  CHECK(std::count(found.pixels.begin(), found.pixels.end(), 0) == found.pixels.size());
}

TEST_CASE("masks: no objects, no images, empty pictures and prototypes") {
  masks_workspace workspace;
  for (const mask_rule rule : all_rules) {
    masks_problem<float> p{1, 2, 3, 4, {{8, 8}}};
    p.params.rule = rule;
    p.make(0, 1);
    CHECK(p.run(workspace).size() == 0);
    p.offsets.clear();
    CHECK(p.run(workspace).offsets.size() == 1);
    p = {0, 2, 3, 4, {}};
    p.params.rule = rule;
    CHECK(p.run(workspace).size() == 0);
    for (const grid_size size : {grid_size{0, 8}, {8, 0}, {0, 0}}) {
      p = {1, 2, 3, 4, {size}};
      p.params.rule = rule;
      p.make(2, 1);
      p.boxes = {0, 0, 8, 8, 1, 1, 2, 2};
      CHECK(p.run(workspace).pixels.size() == 0);
    }
    for (const index_t height : {0, 3}) {
      p = {1, 2, height, 3 - height, {{8, 8}}};
      p.params.rule = rule;
      p.make(2, 1);
      p.boxes = {0, 0, 8, 8, 1, 1, 2, 2};
      const masks_view found = p.run(workspace);
      CHECK(found.pixels.size() == 0);
      CHECK(found.boxes(1, 3) == 0);
    }
  }
}

TEST_CASE("masks: documented errors") {
  masks_problem<float> p{2, 3, 4, 5, {{16, 20}}};
  p.make(4, 1);
  masks_workspace workspace;
  const owned_masks before(p.run(workspace));
  const auto fails = [&](const std::string& message, const auto& change) {
    masks_problem<float> other = p;
    change(other);
    INFO(message);
    CHECK_THROWS_WITH_AS(other.run(workspace), doctest::Contains(message.c_str()),
                         std::invalid_argument);
  };
  using problem = masks_problem<float>;
  fails("image_offsets.size() is 2, expected 3, one more than there are images", [](problem& q) {
    q.offsets = {0, 4};
  });
  fails("image_offsets.size() is 0, expected one more than there are images",
        [](problem& q) { q.offsets = {}; });
  fails("image_offsets[2] is 3, expected 4, the number of boxes", [](problem& q) {
    q.offsets = {0, 2, 3};
  });
  fails("image_offsets[1] is -1, expected at least 0", [](problem& q) { q.offsets = {0, -1, 4}; });
  fails("sizes.size() is 3, expected 2, the number of images",
        [](problem& q) { q.sizes.resize(3); });
  fails("sizes[0] is -1, expected sides of 0 to 2^20 pixels",
        [](problem& q) { q.sizes[0].width = -1; });
  fails("sizes[0] is 1048577, expected sides of 0 to 2^20 pixels",
        [](problem& q) { q.sizes[0].height = (1 << 20) + 1; });
  fails("params.rule is 3, expected a mask_rule",
        [](problem& q) { q.params.rule = static_cast<mask_rule>(3); });
  fails("params.pixels is 7, expected a mask_pixels",
        [](problem& q) { q.params.pixels = static_cast<mask_pixels>(7); });
  CHECK_THROWS_WITH_AS(
      masks_from_prototypes(
          feature_view<const float>(p.prototypes.data(), 2, 3, 4, 5, feature_layout::nhwc),
          p.rows(), boxes_view<const float>(p.boxes.data(), 4), p.offsets, p.sizes, p.params,
          workspace),
      doctest::Contains("prototypes.layout() is nhwc, expected nchw"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      masks_from_prototypes(p.maps(), matrix_view<const float>(p.coefficients.data(), 4, 2, 3),
                            boxes_view<const float>(p.boxes.data(), 4), p.offsets, p.sizes,
                            p.params, workspace),
      doctest::Contains("vecdet::masks_from_prototypes: coefficients.cols() is 2, expected 3, the "
                        "number of prototypes"),
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      masks_from_prototypes(p.maps(), p.rows(), boxes_view<const float>(p.boxes.data(), 3),
                            p.offsets, p.sizes, p.params, workspace),
      doctest::Contains("coefficients.rows() is 4, expected 3, the number of boxes"),
      std::invalid_argument);
  CHECK((owned_masks(p.run(workspace)) == before));
}

TEST_CASE("masks: maps wider than float's whole numbers") {
  constexpr index_t width = (index_t{1} << 24) + 3;
  const std::vector<bfloat16> prototypes(static_cast<std::size_t>(width), to<bfloat16>(1.0));
  const std::vector<float> coefficients{1}, boxes{0, 0, infinity, 1};
  const std::vector<grid_size> sizes{{1, index_t{1} << 20}};
  const feature_view<const bfloat16> maps(prototypes.data(), 1, 1, 1, width, feature_layout::nchw);
  masks_workspace workspace;
  for (const mask_rule rule : {mask_rule::upsampled, mask_rule::cropped}) {
    prototype_masks_params params;
    params.rule = rule;
    const masks_view found = masks_from_prototypes(maps, {coefficients.data(), 1, 1}, boxes, {},
                                                   sizes, params, workspace);
    CHECK(found.boxes(0, 2) == (rule == mask_rule::cropped ? width : sizes[0].width));
    CHECK(found.has(0, 0, 0));
    CHECK(found.has(0, found.boxes(0, 2) - 1, 0));
  }
}
