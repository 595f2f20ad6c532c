// SPDX-License-Identifier: Apache-2.0
// RoIAlign on a pyramid against RoIAlign of each level with that level's boxes; the levels of boxes
// of every size, as in torchvision's LevelMapper; and every documented error.
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/multiscale_roi_align.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

template <class T>
struct pyramid_problem {
  using real = compute_type<T>;
  static constexpr index_t images = 2, channels = 6, count = 4, rows = 7, columns = 7;
  feature_layout layout = feature_layout::nchw;
  std::vector<double> scales{0.25, 0.125, 0.0625, 0.03125};
  std::vector<std::vector<T>> maps, grads;
  std::vector<real> boxes;
  std::vector<index_t> image;
  std::vector<T> upstream;
  bool add_to_grad = false;
  roi_align_workspace workspace;

  pyramid_problem() {
    random_generator generator(3);
    for (index_t l = 0; l < count; ++l) {
      maps.emplace_back(static_cast<std::size_t>(images * channels * side(l) * side(l)));
      for (T& f : maps.back()) f = to<T>(generator.normal());
    }
    grads = maps;
    for (index_t i = 0; i < 60; ++i) {
      const double w = std::exp2(generator.uniform(2, 10)), h = w * generator.uniform(0.5, 2);
      const double x = generator.uniform(0, 256), y = generator.uniform(0, 256);
      for (const double v : {x, y, x + w, y + h}) boxes.push_back(static_cast<real>(v));
      image.push_back(generator.below(images));
    }
    upstream.resize(image.size() * channels * rows * columns);
    for (T& u : upstream) u = to<T>(generator.normal());
  }
  static index_t side(index_t level) { return index_t{64} >> level; }
  index_t bins() const { return channels * rows * columns; }

  template <class V>
  feature_view<V> level(std::vector<V>& map, index_t l) const {
    return {map.data(), images, channels, side(l), side(l), layout};
  }
  template <class V>
  feature_view<V> bins_of(V* data, index_t n) const {
    return {data, n, channels, rows, columns, layout};
  }
  multiscale_roi_align_params params() const {
    multiscale_roi_align_params params;
    params.scales = scales;
    params.add_to_grad = add_to_grad;
    return params;
  }
  roi_boxes<real> all() const { return {boxes_view<const real>(boxes), image}; }

  std::vector<T> forward(threading policy = threading::parallel) {
    std::vector<feature_view<const T>> views;
    for (index_t l = 0; l < count; ++l)
      views.push_back(level(maps[static_cast<std::size_t>(l)], l));
    std::vector<T> out(upstream.size(), to<T>(9));
    multiscale_roi_align(vector_view<const feature_view<const T>>(views), all(),
                         bins_of(out.data(), static_cast<index_t>(image.size())), params(),
                         workspace, policy);
    return out;
  }
  void backward(threading policy = threading::parallel) {
    std::vector<feature_view<T>> views;
    for (index_t l = 0; l < count; ++l)
      views.push_back(level(grads[static_cast<std::size_t>(l)], l));
    multiscale_roi_align_grad(bins_of<const T>(upstream.data(), static_cast<index_t>(image.size())),
                              all(), vector_view<const feature_view<T>>(views), params(), workspace,
                              policy);
  }
};

template <class T>
bool equal(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return static_cast<double>(x) == static_cast<double>(y); });
}

}  // namespace

TEST_CASE_TEMPLATE("RoIAlign of a pyramid: equals RoIAlign of each level", T, float, double,
                   bfloat16) {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
    pyramid_problem<T> p;
    p.layout = layout;
    using real = compute_type<T>;
    for_each_isa([&](isa) {
      const auto out = p.forward();
      p.backward();
      std::vector<index_t> levels(p.image.size());
      pyramid_levels(boxes_view<const real>(p.boxes), levels, p.count, p.scales[0]);
      for (index_t l = 0; l < p.count; ++l) {
        std::vector<real> boxes;
        std::vector<index_t> image;
        std::vector<T> upstream, expected;
        for (std::size_t i = 0; i < levels.size(); ++i) {
          if (levels[i] != l) continue;
          boxes.insert(boxes.end(), p.boxes.begin() + static_cast<std::ptrdiff_t>(4 * i),
                       p.boxes.begin() + static_cast<std::ptrdiff_t>(4 * i + 4));
          image.push_back(p.image[i]);
          const auto first = static_cast<std::ptrdiff_t>(i) * p.bins();
          upstream.insert(upstream.end(), p.upstream.begin() + first,
                          p.upstream.begin() + first + p.bins());
          expected.insert(expected.end(), out.begin() + first, out.begin() + first + p.bins());
        }
        REQUIRE(image.size() > 2);
        const roi_boxes<real> per_level{boxes_view<const real>(boxes), image};
        roi_align_params params;
        params.sampling_ratio = 2;
        params.spatial_scale = p.scales[static_cast<std::size_t>(l)];
        const auto n = static_cast<index_t>(image.size());
        auto& map = p.maps[static_cast<std::size_t>(l)];
        std::vector<T> bins(expected.size()), grad(map.size());
        roi_align<const T>(p.level(map, l), per_level, p.bins_of(bins.data(), n), params,
                           p.workspace);
        CHECK(equal(bins, expected));
        roi_align_grad<const T>(p.template bins_of<const T>(upstream.data(), n), per_level,
                                p.level(grad, l), params, p.workspace);
        CHECK(equal(grad, p.grads[static_cast<std::size_t>(l)]));
      }
    });
  }
}

TEST_CASE("RoIAlign of a pyramid: the level of a box") {
  // From 224 pixels on, boxes belong to level 4. Because torchvision adds 1e-6, so do boxes that
  // are smaller by up to about half a millionth of their size.
  const auto level_of = [](float x2, float y2) {
    const float box[] = {0, 0, x2, y2};
    index_t level = -1;
    pyramid_levels(boxes_view<const float>(box, 1), vector_view<index_t>(&level, 1), 4, 0.25);
    return level;
  };
  CHECK(level_of(224, 224) == 2);
  CHECK(level_of(448, 112) == 2);
  CHECK(level_of(223.9999f, 223.9999f) == 2);
  CHECK(level_of(223.999f, 223.999f) == 1);
  CHECK(level_of(112, 112) == 1);
  CHECK(level_of(111.99f, 111.99f) == 0);
  CHECK(level_of(448, 448) == 3);
  CHECK(level_of(447.9f, 448) == 2);
  CHECK(level_of(1e6f, 1e6f) == 3);
  CHECK(level_of(1, 1) == 0);
  CHECK(level_of(0, 5) == 0);
  CHECK(level_of(-3, 5) == 0);
  CHECK(level_of(std::numeric_limits<float>::quiet_NaN(), 5) == 0);
  CHECK(level_of(std::numeric_limits<float>::infinity(), 5) == 3);
}

TEST_CASE("RoIAlign of a pyramid: gradients are added to the output") {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
    pyramid_problem<float> p;
    p.layout = layout;
    p.backward();
    const auto grads = p.grads;
    p.add_to_grad = true;
    for (auto& grad : p.grads) std::fill(grad.begin(), grad.end(), 1.0f);
    p.backward();
    for (std::size_t l = 0; l < grads.size(); ++l)
      for (std::size_t i = 0; i < grads[l].size(); ++i)
        CHECK(p.grads[l][i] == doctest::Approx(1 + grads[l][i]).epsilon(1e-5));
  }
}

TEST_CASE("RoIAlign of a pyramid: levels without locations, and no boxes") {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
    std::vector<float> map(2 * 8 * 8, 1.0f), grad(map.size(), 7.0f), bins(2 * 2 * 3 * 3, 7.0f);
    const std::vector<feature_view<const float>> levels{{map.data(), 1, 2, 8, 8, layout},
                                                        {nullptr, 1, 2, 0, 4, layout}};
    const std::vector<feature_view<float>> grads{{grad.data(), 1, 2, 8, 8, layout},
                                                 {nullptr, 1, 2, 4, 0, layout}};
    const std::vector<double> scales{0.25, 0.125};
    const std::vector<float> boxes{0, 0, 20, 20, 0, 0, 900, 900};  // on the first and second level
    multiscale_roi_align_params params;
    params.scales = scales;
    roi_align_workspace workspace;
    const roi_boxes<float> two{boxes};
    const feature_view<float> out(bins.data(), 2, 2, 3, 3, layout);
    multiscale_roi_align<float>(levels, two, out, params, workspace);
    for (std::size_t i = 0; i < bins.size(); ++i) CHECK(bins[i] == doctest::Approx(i < 18 ? 1 : 0));
    std::fill(bins.begin(), bins.end(), 1.0f);
    multiscale_roi_align_grad<float>(out, two, grads, params, workspace);
    double sum = 0;
    for (const float g : grad) sum += static_cast<double>(g);
    CHECK(sum == doctest::Approx(18));
    multiscale_roi_align_grad<float>(feature_view<float>(nullptr, 0, 2, 3, 3, layout), {}, grads,
                                     params, workspace);
    for (const float g : grad) CHECK(g == 0);
  }
}

TEST_CASE("RoIAlign of a pyramid: errors") {
  pyramid_problem<float> p;
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(p.forward(), doctest::Contains(message), std::invalid_argument);
    CHECK_THROWS_WITH_AS(p.backward(), doctest::Contains(message), std::invalid_argument);
  };
  const auto scales = p.scales;
  p.scales[0] = 0.3;
  fails("the scale of level 0 is 0.2");
  p.scales = scales;
  p.scales[2] = 0.125;
  fails("params.scales[2] is 0.125, expected half of the one before");
  p.scales = scales;
  p.scales.pop_back();
  fails("params.scales.size() is 3, expected 4, the number of levels");
  p.scales = scales;
  p.image[7] = 2;
  fails("boxes.images[7] is 2, expected 0 to 1 (2 images)");
  p.image[7] = 1;

  const auto nchw = feature_layout::nchw;
  std::vector<float> bins(static_cast<std::size_t>(4 * p.bins()));
  const std::vector<float> four(16);
  const roi_boxes<float> some{four};
  const auto differs = [&](const feature_view<float>& second, const std::string& shape) {
    p.scales = {0.25, 0.125};
    const std::vector<feature_view<float>> levels{p.level(p.maps[0], 0), second};
    const std::vector<feature_view<const float>> read(levels.begin(), levels.end());
    const std::string is =
        "[1] is " + shape + ", expected the images, channels and layout of the first";
    CHECK_THROWS_WITH_AS(
        multiscale_roi_align<float>(read, some, p.bins_of(bins.data(), 4), p.params(), p.workspace),
        doctest::Contains(("vecdet::multiscale_roi_align: levels" + is).c_str()),
        std::invalid_argument);
    CHECK_THROWS_WITH_AS(
        multiscale_roi_align_grad<float>(p.bins_of(bins.data(), 4), some, levels, p.params(),
                                         p.workspace),
        doctest::Contains(("vecdet::multiscale_roi_align_grad: grads" + is).c_str()),
        std::invalid_argument);
  };
  float* const second = p.maps[1].data();
  differs({second, 1, 6, 32, 32, nchw}, "1 x 6");
  differs({second, 2, 5, 32, 32, nchw}, "2 x 5");
  differs({second, 2, 6, 32, 32, feature_layout::nhwc}, "2 x 6");

  std::vector<index_t> levels(3);
  const std::vector<float> boxes(8);
  const auto level_fails = [&](index_t count, double size, index_t level, const char* message) {
    CHECK_THROWS_WITH_AS(
        pyramid_levels(boxes_view<const float>(boxes), levels, count, 0.25, size, level),
        doctest::Contains(message), std::invalid_argument);
  };
  level_fails(4, 224, 4, "levels.size() is 3, expected 2, the number of boxes");
  level_fails(0, 224, 4, "the number of levels is 0, expected 1 to 32");
  level_fails(4, 0, 4, "canonical_size is 0, expected a finite float above 0");
  level_fails(4, 1e-46, 4, "canonical_size is 1e-46, expected a finite float above 0");
  level_fails(4, 224, 65, "canonical_level is 65, expected -64 to 64");
}
