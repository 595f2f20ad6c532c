// SPDX-License-Identifier: Apache-2.0
// RoIAlign against the reference: layouts, element types, instruction sets, shapes around the
// vector width, samplings, boxes of every kind; properties; and every documented error.
#include "support/isa.hpp"
#include "support/roi_problem.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/grid_size.hpp>
#include <vecdet/roi_align.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

/// The largest error of a bin, in ulp of the mean magnitude of its terms.
template <class T>
double worst_ulp(const std::vector<T>& actual, const exact_bins& exact) {
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double off = std::abs(static_cast<double>(actual[i]) - exact.values[i]);
    if (off == 0) continue;
    worst = std::max(worst, off / ulp_of<T>(exact.magnitudes[i]));
  }
  return worst;
}

template <class T>
void check_problem(const roi_problem<T>& p) {
  INFO(p.name());
  const exact_bins exact = p.exact(), exact_grad = p.exact_grad();
  check_on_every_isa([&] { return p.run(); },
                     [&](const roi_results<T>& found) {
                       const bool is_double = std::is_same<T, double>::value;
                       CHECK(worst_ulp(found.out, exact) <= (is_double ? 40 : 4));
                       CHECK(worst_ulp(found.grad, exact_grad) <= (is_double ? 40 : 6));
                     });
}

template <class T>
roi_problem<T> small_problem() {
  roi_problem<T> p;
  p.make(12, 11);
  return p;
}

}  // namespace

TEST_CASE_TEMPLATE("RoIAlign: layouts, samplings, bins", T, float, double, bfloat16) {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc})
    for (const index_t sampling : {0, 1, 2, 3})
      for (const auto& bins : {grid_size{7, 7}, grid_size{1, 1}, grid_size{3, 14}, grid_size{14, 2},
                               grid_size{2, 16}, grid_size{1, 35}}) {
        roi_problem<T> p;
        p.layout = layout;
        p.params.sampling_ratio = sampling;
        p.params.aligned = (sampling + bins.height) % 2 == 0;
        p.params.spatial_scale = 0.25;
        p.rows = bins.height;
        p.columns = bins.width;
        p.channels = 5;
        p.make(10, static_cast<std::uint64_t>(sampling) + 17);
        check_problem(p);
      }
}

TEST_CASE_TEMPLATE("RoIAlign: channels and maps around the vector width", T, float, bfloat16) {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
    for (const index_t channels : {1, 15, 16, 17, 31, 33, 64, 81, 130}) {
      roi_problem<T> p;
      p.layout = layout;
      p.channels = channels;
      p.rows = 2;
      p.make(5, 3);
      check_problem(p);
    }
    for (const index_t width : {1, 2, 15, 16, 17, 33, 70})
      for (const index_t height : {1, 3, 20})
        for (const index_t channels : {3, 18}) {
          roi_problem<T> p;
          p.layout = layout;
          p.width = width;
          p.height = height;
          p.channels = channels;
          p.make(9, 4);
          check_problem(p);
        }
  }
}

TEST_CASE_TEMPLATE("RoIAlign: boxes of every kind", T, float, double) {
  // Outside, on the border, empty, inside out, a point, far larger than the map.
  const std::vector<double> boxes = {
      -50,  -50, -20,  -20, 30,    2,     40,   9,   -4,   -4,   4,   4,   16, 16, 30, 30,  //
      5,    5,   5,    5,   9,     9,     3,    2,   9,    2,    3,   8,   -1, -1, -1, -1,  //
      21,   19,  21,   19,  -90,   -100,  120,  130, -1e6, -2e6, 3e6, 2e6, 0,  0,  21, 19,  //
      1e30, 2,   2e30, 9,   -1e30, -1e30, 1e30, 1e30};
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc})
    for (const bool aligned : {false, true})
      for (const index_t sampling : {0, 2}) {
        roi_problem<T> p;
        p.layout = layout;
        p.params.aligned = aligned;
        p.params.sampling_ratio = sampling;
        p.make(0, 5);
        // The reference is too slow for the last three boxes, because it visits every sample; they
        // are checked below.
        for (std::size_t i = 0; i + 12 < boxes.size(); ++i) p.boxes.push_back(to<T>(boxes[i]));
        p.place_boxes(6);
        if (sampling == 0) p.drop_boxes_above(1e4);
        check_problem(p);
      }
}

TEST_CASE_TEMPLATE("RoIAlign: infinite boxes and boxes without samples are empty", T, float, double,
                   bfloat16) {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc})
    for (const index_t sampling : {0, 2}) {
      roi_problem<T> p;
      p.layout = layout;
      p.params.aligned = true;
      p.params.sampling_ratio = sampling;
      p.make(0, 5);
      for (const double x : {not_a_number, inf, -inf})
        for (int k = 0; k < 4; ++k) {
          const double box[] = {1, 2, 9, 8};
          for (int i = 0; i < 4; ++i)
            p.boxes.push_back(static_cast<compute_type<T>>(i == k ? x : box[i]));
        }
      p.place_boxes(6);
      for_each_isa([&](isa) {
        for (const T value : p.forward()) CHECK(static_cast<double>(value) == 0);
        for (const T value : p.backward()) CHECK(static_cast<double>(value) == 0);
      });
    }
  // Adaptive boxes of 10^30 locations take no time; the result is the mean of few samples of the
  // map, or 0.
  roi_problem<T> p;
  p.make(0, 5);
  for (const double x : {-1e30, -1e30, 1e30, 1e30})
    p.boxes.push_back(static_cast<compute_type<T>>(x));
  p.place_boxes(6);
  for_each_isa([&](isa) {
    for (const T value : p.forward()) CHECK(std::abs(static_cast<double>(value)) <= 1e-6);
  });
}

TEST_CASE("RoIAlign: infinite features and NaN affect only bins that touch them") {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc})
    for (const double special : {inf, not_a_number}) {
      roi_problem<float> p = small_problem<float>();
      p.layout = layout;
      const std::vector<float> before = p.forward();
      const auto touched = p.exact_touch(1, 2, 7, 9);
      p.feature(1, 2, 7, 9) = static_cast<float>(special);
      const std::vector<float> after = p.forward();
      std::size_t touching = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        if (touched[i] > 0) {
          CHECK(!std::isfinite(after[i]));
          ++touching;
        } else {
          CHECK(after[i] == before[i]);
        }
      }
      CHECK(touching > 0);
    }
}

TEST_CASE_TEMPLATE("RoIAlign: both layouts are bit-identical", T, float, double, bfloat16) {
  // Few channels use planes, and so do few boxes relative to a wide map; the others are transposed.
  for (const index_t channels : {3, 16, 21})
    for (const index_t width : {3, 21, 400}) {
      roi_problem<T> p;
      p.channels = channels;
      p.width = width;
      p.make(14, 11);
      INFO(p.name());
      for_each_isa([&](isa) {
        p.layout = feature_layout::nchw;
        const auto planes = p.run();
        p.layout = feature_layout::nhwc;
        CHECK((p.run() == planes));
      });
    }
}

TEST_CASE("RoIAlign: a constant map, a shift, a scale, the sum of the gradient") {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
    roi_problem<float> p;
    p.layout = layout;
    p.height = p.width = 40;
    p.params.aligned = true;
    p.make(0, 8);
    random_generator generator(9);
    for (int i = 0; i < 20; ++i) {
      const auto x = static_cast<float>(generator.below(10)) + 0.25f;
      const auto y = static_cast<float>(generator.below(10)) + 0.5f;
      for (const float v : {x, y, x + 3 + static_cast<float>(i % 7), y + 4.75f})
        p.boxes.push_back(v);
    }
    p.place_boxes(10);
    const auto map = p.features;
    std::fill(p.features.begin(), p.features.end(), 3.0f);
    for (const float value : p.forward()) CHECK(value == doctest::Approx(3).epsilon(1e-6));

    // The map and the boxes moved by whole locations.
    p.features = map;
    const auto still = p.forward();
    roi_problem<float> moved = p;
    for (index_t n = 0; n < p.images; ++n)
      for (index_t c = 0; c < p.channels; ++c)
        for (index_t y = 0; y < 30; ++y)
          for (index_t x = 0; x < 30; ++x)
            moved.feature(n, c, y + 6, x + 8) = p.feature(n, c, y, x);
    for (std::size_t i = 0; i < p.boxes.size(); ++i) moved.boxes[i] += i % 2 == 0 ? 8.0f : 6.0f;
    const auto shifted = moved.forward();
    for (std::size_t i = 0; i < still.size(); ++i)
      CHECK(shifted[i] == doctest::Approx(still[i]).epsilon(1e-5));

    // Boxes four times as large at a quarter of the scale.
    roi_problem<float> scaled = p;
    for (float& x : scaled.boxes) x *= 4;
    scaled.params.spatial_scale = 0.25;
    CHECK(same_bits(scaled.forward(), still));

    // Weights of a box inside the map add up to 1 in every bin.
    double sum = 0, upstream = 0;
    for (const float g : p.backward()) sum += static_cast<double>(g);
    for (const float u : p.upstream) upstream += static_cast<double>(u);
    CHECK(sum == doctest::Approx(upstream).epsilon(1e-5));
  }
}

TEST_CASE_TEMPLATE("RoIAlign: the gradient is added to the output", T, float, double, bfloat16) {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
    roi_problem<T> p = small_problem<T>();
    p.layout = layout;
    const auto grad = p.backward();
    p.params.add_to_grad = true;
    const auto from_zero = p.backward(std::vector<T>(grad.size(), to<T>(0)));
    CHECK(same_bits(from_zero, grad));
    const auto from_one = p.backward(std::vector<T>(grad.size(), to<T>(1)));
    double worst = 0;
    for (std::size_t i = 0; i < grad.size(); ++i)
      worst = std::max(
          worst, std::abs(static_cast<double>(from_one[i]) - 1 - static_cast<double>(grad[i])));
    CHECK(worst <= (std::is_same<T, bfloat16>::value ? 0.05 : 1e-5));
  }
}

TEST_CASE("RoIAlign: the work does not grow with a policy's stated threads") {
  roi_problem<float> p;
  p.channels = 16;
  p.height = p.width = 40;
  p.make(200, 12);
  roi_align_workspace workspace;
  std::vector<float> out(static_cast<std::size_t>(p.count() * p.channels * p.rows * p.columns));
  const auto seconds = [&](int threads) {
    p.policy = threading::on(backwards, threads);
    p.run_forward(p.features, out, workspace);  // which grows the workspace
    double least = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      p.run_forward(p.features, out, workspace);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      least = std::min(least, taken.count());
    }
    return least;
  };
  const double with_8 = seconds(8);
  CHECK(seconds(100000000) < 50 * with_8);
}

TEST_CASE("RoIAlign: images by index, by offset, and one") {
  roi_problem<float> p;
  p.images = 3;
  p.make(12, 11);
  std::fill(p.image.begin(), p.image.begin() + 5, 0);
  std::fill(p.image.begin() + 5, p.image.end(), 2);
  const auto found = p.run();
  p.offsets = {0, 5, 5, 12};
  CHECK((p.run() == found));
  p.offsets.clear();
  std::fill(p.image.begin(), p.image.end(), 0);
  const auto first = p.forward();
  p.no_images = true;
  CHECK(same_bits(p.forward(), first));
}

TEST_CASE("RoIAlign: empty inputs") {
  roi_problem<float> p = small_problem<float>();
  p.boxes.clear();
  p.place_boxes(1);
  CHECK(p.forward().empty());
  for (const float g : p.backward()) CHECK(g == 0);
  p = small_problem<float>();
  p.width = 0;
  p.features.clear();
  for (const float value : p.forward()) CHECK(value == 0);
  CHECK(p.backward().empty());
  p = small_problem<float>();
  p.columns = 0;
  p.upstream.clear();
  CHECK(p.forward().empty());
  for (const float g : p.backward()) CHECK(g == 0);
}

TEST_CASE("RoIAlign: errors") {
  const roi_problem<float> good = small_problem<float>();
  const auto check_error = [&](const roi_problem<float>& p, const std::string& message) {
    const std::string forward = "vecdet::roi_align: " + message;
    const std::string backward = "vecdet::roi_align_grad: " + message;
    CHECK_THROWS_WITH_AS(p.forward(), forward.c_str(), std::invalid_argument);
    CHECK_THROWS_WITH_AS(p.backward(), backward.c_str(), std::invalid_argument);
  };
  roi_problem<float> p = good;
  p.params.spatial_scale = 0;
  check_error(p, "params.spatial_scale is 0, expected a finite float above 0");
  p.params.spatial_scale = 1e-46;  // 0 in float
  check_error(p, "params.spatial_scale is 1e-46, expected a finite float above 0");
  p.params.spatial_scale = inf;
  check_error(p, "params.spatial_scale is inf, expected a finite float above 0");
  p = good;
  p.params.sampling_ratio = 1025;
  check_error(p, "params.sampling_ratio is 1025, expected at most 1024");
  p = good;
  p.image[3] = 2;
  check_error(p, "boxes.images[3] is 2, expected 0 to 1 (2 images)");
  p.image[3] = -1;
  check_error(p, "boxes.images[3] is -1, expected 0 to 1 (2 images)");
  p = good;
  p.image.pop_back();
  check_error(p, "boxes.images.size() is 11, expected 0 or 12, the number of boxes");
  p = good;
  p.offsets = {0, 5, 11};
  check_error(p, "boxes.image_offsets[2] is 11, expected 12, the number of boxes");
  p.offsets = {0, 12};
  check_error(p, "boxes.image_offsets.size() is 2, expected 3, the number of images + 1");

  roi_align_workspace workspace;
  const roi_boxes<float> boxes{boxes_view<const float>(good.boxes.data(), 2)};
  std::vector<float> a(1000), b(1000);
  constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;
  const auto call = [&](feature_view<const float> map, feature_view<float> out) {
    roi_align(map, boxes, out, {}, workspace);
  };
  const auto fails = [&](feature_view<const float> map, feature_view<float> out,
                         const char* message) {
    CHECK_THROWS_WITH_AS(call(map, out), doctest::Contains(message), std::invalid_argument);
  };
  fails({a.data(), 1, 3, 4, 4, nchw}, {b.data(), 3, 3, 2, 2, nchw},
        "out.images() is 3, expected 2, the number of boxes");
  fails({a.data(), 1, 3, 4, 4, nchw}, {b.data(), 2, 4, 2, 2, nchw},
        "out.channels() is 4, expected 3, the channels of the features");
  fails({a.data(), 1, 3, 4, 4, nchw}, {b.data(), 2, 3, 2, 2, nhwc},
        "out.layout() is nhwc, expected nchw, the features' layout");
  fails({a.data(), 0, 3, 4, 4, nchw}, {b.data(), 2, 3, 2, 2, nchw},
        "the number of images is 0, expected 1 or more if there are boxes");
  CHECK_THROWS_AS(feature_view<float>(a.data(), -1, 1, 1, 1, nchw), std::invalid_argument);
  CHECK_THROWS_AS(feature_view<float>(a.data(), 1, 1, index_t{1} << 31, 1, nchw),
                  std::invalid_argument);
  CHECK_THROWS_AS(feature_view<float>(nullptr, 1, 1, 1, 1, nchw), std::invalid_argument);
  CHECK_THROWS_AS(feature_view<float>(a.data(), index_t{1} << 40, index_t{1} << 40, 1, 1, nchw),
                  std::invalid_argument);
}
