// SPDX-License-Identifier: Apache-2.0
// Anchors bit-identical to torchvision's, and worked cases; the cache; every documented error.
#include "support/data.hpp"
#include "support/loops.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/anchor_cache.hpp>
#include <vecdet/anchors.hpp>

#include <cstring>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// The features of levels with strides 8 to 128.
std::vector<grid_size> pyramid(grid_size image) {
  std::vector<grid_size> levels;
  for (index_t stride = 8; stride <= 128; stride *= 2)
    levels.push_back({(image.height + stride - 1) / stride, (image.width + stride - 1) / stride});
  return levels;
}

std::vector<float> anchors_of(const std::vector<anchor_shapes>& shapes, grid_size image) {
  const auto features = pyramid(image);
  std::vector<float> anchors(static_cast<std::size_t>(4 * count_anchors(shapes, features)));
  make_anchors(shapes, image, features, anchors);
  return anchors;
}

std::vector<grid_size> ssd_features() {
  std::vector<grid_size> features;
  for (const index_t side : {38, 19, 10, 5, 3, 1}) features.push_back({side, side});
  return features;
}

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

}  // namespace

TEST_CASE("anchors: floats bit-identical to torchvision's") {
  if (!has_data("golden_step/retinanet_anchors.npy", "anchors against torchvision")) return;
  const grid_size image{200, 160};
  CHECK(same_floats(anchors_of(anchor_shapes::retinanet(), image),
                    golden_step<float>("retinanet_anchors").values));
  const auto levels = golden_step<std::int64_t>("retinanet_anchor_levels").values;
  const auto features = pyramid(image);
  for (std::size_t k = 0; k < levels.size(); ++k)
    CHECK(levels[k] == 9 * features[k].height * features[k].width);
  CHECK(same_floats(anchors_of(anchor_shapes::fcos(), image),
                    golden_step<float>("fcos_anchors").values));
  const ssd_shapes ssd;
  std::vector<float> boxes(4 * 8732);
  CHECK(count_anchors(ssd, ssd_features()) == 8732);
  make_anchors(ssd, {300, 300}, ssd_features(), boxes);
  CHECK(same_floats(boxes, golden_step<float>("ssd_boxes").values));
}

TEST_CASE("anchors: order, strides and rounding") {
  // Halves of 3 are 1.5, which rounds to 2 as -1.5 does to -2; halves of 5 round to 2 as well.
  const anchor_shapes shapes{{3, 5}, {1, 4}};
  std::vector<float> anchors(4 * 4 * 6);
  // Strides are 11 / 2 and 10 / 3, rounded down.
  make_anchors(shapes, {11, 10}, {2, 3}, anchors);
  const std::vector<float> first(anchors.begin(), anchors.begin() + 16);
  CHECK(first == std::vector<float>{-2, -2, 2, 2, -2, -2, 2, 2, -1, -3, 1, 3, -1, -5, 1, 5});
  const std::vector<float> last(anchors.end() - 16, anchors.end() - 12);
  CHECK(last == std::vector<float>{6 - 2, 5 - 2, 6 + 2, 5 + 2});
}

TEST_CASE("anchors: one call per level equals one call for all") {
  const grid_size image{123, 457};
  const auto shapes = anchor_shapes::rpn();
  const auto features = pyramid(image);
  const auto all = anchors_of(shapes, image);
  std::vector<float> one_by_one(all.size());
  float* at = one_by_one.data();
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const index_t count = features[k].height * features[k].width * shapes[k].count();
    make_anchors(shapes[k], image, features[k], boxes_view<float>(at, count));
    at += 4 * count;
  }
  CHECK(same_floats(all, one_by_one));
}

TEST_CASE("anchors: threads divide the locations of all levels") {
  const std::vector<anchor_shapes> shapes{{{8, 10}, {0.5, 1, 2}}, {{}, {1}}, {{30}, {1, 3}}};
  const std::vector<grid_size> features{{170, 123}, {index_t{1} << 27, index_t{1} << 27}, {9, 61}};
  const grid_size image{index_t{1} << 27, index_t{1} << 27};
  std::vector<float> expected(static_cast<std::size_t>(4 * count_anchors(shapes, features)));
  make_anchors(shapes, image, features, expected, threading::sequential);
  std::vector<float> anchors(expected.size(), -7);
  index_t pieces = 0;
  const auto counted = [&](index_t count, const task& work) {
    pieces = count;
    backwards(count, work);
  };
  make_anchors(shapes, image, features, anchors, threading::on(counted, 3));
  CHECK(pieces > 3);
  CHECK(same_floats(anchors, expected));

  const std::vector<grid_size> few{{3, 4}, {1, 2}, {1, 1}};
  std::vector<float> small(static_cast<std::size_t>(4 * count_anchors(shapes, few)));
  pieces = 0;
  make_anchors(shapes, image, few, small, threading::on(counted, 3));
  CHECK(pieces == 0);
}

TEST_CASE("anchors: positions beyond 2^24 are rounded to float before the corners") {
  const anchor_shapes point{{2}, {1}};
  std::vector<float> anchors(4 * 3);
  make_anchors(point, {1, 3 * 16777217}, {1, 3}, anchors);
  CHECK(anchors[4] == 16777216.0f - 1);
  CHECK(anchors[8] == 33554434.0f - 1);
  CHECK(anchors[10] == 33554434.0f + 1);
}

TEST_CASE("anchors: points") {
  const std::vector<grid_size> features{{1, 2}, {2, 1}};
  const std::vector<double> strides{8, 16};
  std::vector<float> points(8);
  make_points(features, strides, points);
  CHECK(points == std::vector<float>{4, 4, 12, 4, 8, 8, 8, 24});
  std::vector<float> level(4);
  make_points(features[1], 16, level);
  CHECK(level == std::vector<float>{8, 8, 8, 24});
}

TEST_CASE("anchors: the cache keeps the last request") {
  anchor_cache cache(anchor_shapes::fcos(), 2);
  const grid_size a{64, 64}, b{100, 64}, c{64, 100};
  const cached_anchors& first = cache.anchors(a, pyramid(a));
  const auto boxes_of = [](const cached_anchors& cached) {
    return std::vector<float>(cached.boxes().data(),
                              cached.boxes().data() + 4 * cached.boxes().size());
  };
  CHECK(same_floats(boxes_of(first), anchors_of(anchor_shapes::fcos(), a)));
  CHECK(first.index().size() == first.boxes().size());
  cache.anchors(b, pyramid(b));
  CHECK(&cache.anchors(a, pyramid(a)) == &first);
  CHECK(same_floats(boxes_of(cache.anchors(c, pyramid(c))), anchors_of(anchor_shapes::fcos(), c)));
  CHECK(&cache.anchors(a, pyramid(a)) == &first);
  CHECK(same_floats(boxes_of(cache.anchors(b, pyramid(b))), anchors_of(anchor_shapes::fcos(), b)));
}

TEST_CASE("anchors: bad arguments throw errors that name them and write nothing") {
  std::vector<float> out(4 * 9, -7);
  const auto fails = refusals(out);
  const anchor_shapes square{{8}, {1}};
  const auto make = [&](const anchor_shapes& shapes, grid_size image, grid_size features) {
    return [&, shapes, image, features] { make_anchors(shapes, image, features, out); };
  };
  fails("anchors.size() is 9", make(square, {64, 64}, {2, 2}));
  fails("features.width is 3, expected at most the image's", make(square, {64, 2}, {3, 3}));
  fails("features.height is -1", make(square, {64, 64}, {-1, 3}));
  fails("image.height is -64", make(square, {-64, 64}, {3, 3}));
  fails("shapes.sizes[0] is 0", make({{0}, {1}}, {64, 64}, {3, 3}));
  fails("shapes.ratios[1] is nan", make({{8}, {1, NAN}}, {64, 64}, {3, 3}));
  const std::vector<grid_size> levels(2, grid_size{3, 3});
  const auto make_two = [&](const anchor_shapes& second, grid_size image) {
    return [&, second, image] { make_anchors({square, second}, image, levels, out); };
  };
  fails("shapes[1].sizes[0] is -8", make_two({{-8}, {1}}, {64, 64}));
  fails("shapes[1].ratios[1] is inf", make_two({{8}, {1, INFINITY}}, {64, 64}));
  fails("features[0].height is 3, expected at most the image's", make_two(square, {2, 64}));
  fails("features.size() is 2", [&] { make_anchors({square}, {64, 64}, levels, out); });
  fails("features.size() is 2", [&] { make_anchors(ssd_shapes(), {64, 64}, levels, out); });
  ssd_shapes ssd;
  ssd.scales.pop_back();
  fails("shapes.scales.size() is 6", [&] { make_anchors(ssd, {300, 300}, ssd_features(), out); });
  ssd = {};
  ssd.steps[2] = -1;
  fails("shapes.steps[2] is -1", [&] { make_anchors(ssd, {300, 300}, ssd_features(), out); });
  ssd = {};
  ssd.ratios[3][1] = 0;
  fails("shapes.ratios[3][1] is 0", [&] { make_anchors(ssd, {300, 300}, ssd_features(), out); });
  fails("points.size() is 36", [&] { make_points({3, 3}, 8, out); });
  fails("strides[0] is 0", [&] { make_points({3, 6}, 0, out); });
  const grid_size largest{index_t{1} << 27, index_t{1} << 27};
  const anchor_shapes many{std::vector<double>(600, 8.0), {1}};
  fails("make_anchors: features is 134217728 x 134217728", make(many, largest, largest));
  const std::vector<grid_size> two{{3, 3}, largest};
  fails("count_anchors: features[1] is", [&] { count_anchors({square, many}, two); });
  fails("make_anchors: features[1] is", [&] { make_anchors({square, many}, largest, two, out); });
  ssd = {};
  ssd.ratios[5].resize(300, 2.0);
  const std::vector<grid_size> wide(6, largest);
  fails("count_anchors: features[5] is", [&] { count_anchors(ssd, wide); });
  const std::vector<grid_size> deep(600, largest);
  const std::vector<double> strides(deep.size(), 1.0);
  fails("make_points: features[", [&] { make_points(deep, strides, out); });
  fails("capacity is 0", [] { anchor_cache cache({}, 0); });
  fails("anchor_cache: shapes[0].sizes[0] is 0", [] { anchor_cache cache({{{0}, {1}}}); });
  anchor_cache cache({square}, 1);
  fails("anchor_cache::anchors: features[0].width is 134217728, expected at most the image's", [&] {
    cache.anchors({largest.height, 8}, vector_view<const grid_size>(&largest, 1));
  });
}
