// SPDX-License-Identifier: Apache-2.0
// NMS of rotated boxes against the loop over the matrix of IoUs and golden vectors: every
// instruction set, all thresholds, ties, boxes without area, NaN, groups, limits, many boxes.
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/rotated_rows.hpp"
#include <vecdet/reference/rotated_boxes.hpp>
#include <vecdet/rotated_boxes.hpp>
#include <vecdet/rotated_nms.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto torchvision = angle_convention::torchvision;

template <class T>
struct scene {
  std::vector<T> boxes, scores;
  std::vector<index_t> classes;

  index_t size() const { return static_cast<index_t>(scores.size()); }
  matrix_view<const T> view() const { return {boxes.data(), size(), 5}; }
};

template <class T>
scene<T> make_scene(std::uint64_t seed, index_t count, double extent) {
  random_generator generator(seed);
  scene<T> s;
  for (index_t i = 0; i < count; ++i) {
    const bool is_upright = seed % 4 == 0, is_flat = seed % 5 == 0 && generator.chance(0.05);
    const double offset = seed % 7 == 0 ? 9000 : 0;
    for (const double v : {offset + generator.uniform(0, extent), generator.uniform(0, extent),
                           generator.uniform(2, 42), is_flat ? 0 : generator.uniform(2, 42),
                           is_upright ? 90.0 * static_cast<double>(generator.below(5))
                                      : generator.uniform(-180, 180)})
      s.boxes.push_back(static_cast<T>(v));
    if (seed % 5 == 0 && generator.chance(0.03))
      s.boxes[5 * static_cast<std::size_t>(i) + static_cast<std::size_t>(generator.below(5))] =
          std::numeric_limits<T>::quiet_NaN();
    const double score = generator.uniform();
    s.scores.push_back(static_cast<T>(seed % 3 == 0 ? std::round(10 * score) / 10 : score));
    s.classes.push_back(generator.below(3) - 1);
  }
  return s;
}

/// Whether the sides of a scene, multiplied by `scale`, are normal numbers of type T.
template <class T>
bool can_scale_sides(double scale) {
  return sizeof(T) == 8 || (scale >= 1e-30 && scale <= 1e36);
}

/// The loop over the matrix of IoUs.
template <class T>
std::vector<index_t> greedy(const scene<T>& s, double threshold, bool suppress_equal,
                            bool by_class) {
  const index_t count = s.size();
  std::vector<T> ious(static_cast<std::size_t>(count * count));
  pairwise_rotated_iou(s.view(), s.view(), torchvision, matrix_view<T>(ious.data(), count, count));
  return matrix_nms<T>({ious.data(), count, count}, vector_view<const T>(s.scores),
                       by_class ? s.classes : std::vector<index_t>{}, threshold, suppress_equal,
                       false);
}

}  // namespace

TEST_CASE("rotated NMS: golden vectors") {
  if (!has_data("golden_rotated/rotated_nms_boxes.npy", "golden vectors of rotated NMS")) return;
  const auto boxes = golden_rotated<float>("rotated_nms_boxes");
  const auto scores = golden_rotated<float>("rotated_nms_scores");
  for_each_isa([&](isa) {
    for (const int threshold : {2, 5, 7}) {
      const auto expected =
          golden_rotated<index_t, std::int64_t>("rotated_nms_kept_" + std::to_string(threshold));
      const matrix_view<const float> view(boxes.data(), 120, 5);
      CHECK(rotated_nms(view, vector_view<const float>(scores), {}, torchvision,
                        nms_params(threshold / 10.0)) == expected);
      CHECK(reference::rotated_nms(view, vector_view<const float>(scores), torchvision,
                                   threshold / 10.0) == expected);
    }
  });
}

TEST_CASE_TEMPLATE("rotated NMS: the loop over the matrix", T, float, double) {
  for_each_isa([](isa) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(seed);
      const auto count = static_cast<index_t>(seed % 2 == 0 ? seed : 13 * seed);
      const auto s = make_scene<T>(seed, count, seed % 3 == 0 ? 60 : 200);
      for (const double threshold : {0.0, 1e-4, 0.125, 0.5, 0.75, 1.0}) {
        for (const bool equal : {false, true}) {
          CAPTURE(threshold);
          CAPTURE(equal);
          nms_params params(threshold);
          params.suppress_equal = equal;
          // 1e-4 is between two floats.
          const T rounded = static_cast<T>(threshold);
          params.float_threshold = true;
          nms_groups groups;
          if (seed % 2 == 0) groups.classes = s.classes;
          CHECK(
              rotated_nms(s.view(), vector_view<const T>(s.scores), groups, torchvision, params) ==
              greedy(s, static_cast<double>(rounded), equal, seed % 2 == 0));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("rotated NMS: many boxes on any number of threads", T, float, double) {
  const auto s = make_scene<T>(11, 3000, 500);
  const auto all = greedy(s, 0.5, false, false), by_class = greedy(s, 0.5, false, true);
  nms_groups groups;
  groups.classes = s.classes;
  for_each_isa([&](isa) {
    nms_workspace workspace;
    for (const int threads : {1, 4}) {
      tbb::task_arena(threads).execute([&] {
        const auto kept = [&](const nms_groups& of) {
          const auto result = rotated_nms(s.view(), vector_view<const T>(s.scores), of, torchvision,
                                          nms_params(0.5), workspace);
          return std::vector<index_t>(result.begin(), result.end());
        };
        CHECK(kept({}) == all);
        CHECK(kept(groups) == by_class);
      });
    }
  });
}

TEST_CASE_TEMPLATE("rotated NMS: huge, tiny and distant boxes", T, float, double) {
  for_each_isa([](isa) {
    // In double, the last four scales make areas 0, denormal or infinite.
    for (const double scale : {1e-22, 1e15, 1e20, 1e36, 1e-170, 1e-162, 1e160, 1e200}) {
      if (!can_scale_sides<T>(scale)) continue;
      CAPTURE(scale);
      auto s = make_scene<T>(2, 60, 60);
      for (std::size_t i = 0; i < s.boxes.size(); ++i)
        if (i % 5 < 4) s.boxes[i] = static_cast<T>(static_cast<double>(s.boxes[i]) * scale);
      // Among them, ordinary boxes.
      const auto others = make_scene<T>(4, 60, 60);
      s.boxes.insert(s.boxes.end(), others.boxes.begin(), others.boxes.end());
      s.scores.insert(s.scores.end(), others.scores.begin(), others.scores.end());
      s.classes.insert(s.classes.end(), others.classes.begin(), others.classes.end());
      CHECK(rotated_nms(s.view(), vector_view<const T>(s.scores), {}, torchvision,
                        nms_params(0.25)) == greedy(s, 0.25, false, false));
    }
  });
}

// A huge or tiny box must not change which of its neighbours are compared.
TEST_CASE_TEMPLATE("rotated NMS: some boxes are huge or tiny", T, float, double) {
  for_each_isa([](isa) {
    for (const double power : {-170, -161, -150, -22, 15, 18, 36, 153, 160, 200, 306}) {
      const double scale = std::pow(10, power);
      if (!can_scale_sides<T>(scale)) continue;
      CAPTURE(power);
      for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        CAPTURE(seed);
        auto s = make_scene<T>(seed, 50, 60);
        for (std::size_t i = seed; i < 50; i += 9)
          for (std::size_t side = 2; side < 4; ++side)
            s.boxes[5 * i + side] =
                static_cast<T>(scale * static_cast<double>(s.boxes[5 * i + side]));
        for (const double threshold : {0.01, 0.25, 0.5})
          CHECK(rotated_nms(s.view(), vector_view<const T>(s.scores), {}, torchvision,
                            nms_params(threshold)) == greedy(s, threshold, false, false));
      }
    }
  });
}

TEST_CASE("rotated NMS: the threshold is no normal number") {
  // The ratio of the areas is 2.446e-43, which is rounded up to the threshold. The small boxes fill
  // one leaf, the large ones another.
  const std::vector<float> small{0, 5.28224277f, 6.5683921e-12f, 6.5683921e-12f, 54.6846809f};
  const std::vector<float> large{6.88114166f, 5.70759964f, 1.32634604e+10f, 1.32979046e+10f,
                                 28.1580067f};
  scene<float> s;
  for (int i = 0; i < 32; ++i) {
    const std::vector<float>& box = i < 16 ? small : large;
    s.boxes.insert(s.boxes.end(), box.begin(), box.end());
    s.scores.push_back(static_cast<float>(32 - i));
  }
  for_each_isa([&](isa) {
    float iou = 0;
    pairwise_rotated_iou(matrix_view<const float>(s.boxes.data(), 1, 5),
                         matrix_view<const float>(s.boxes.data() + 80, 1, 5), torchvision,
                         matrix_view<float>(&iou, 1, 1));
    REQUIRE(iou > 0);
    nms_params params(static_cast<double>(iou));
    params.suppress_equal = true;
    CHECK(rotated_nms(s.view(), vector_view<const float>(s.scores), {}, torchvision, params) ==
          greedy(s, static_cast<double>(iou), true, false));
  });
}

/// Boxes close to one: nearly parallel or perpendicular to it, moved along its sides, equal or
/// similar in size. It may be thin, upright and far from the origin.
template <class T>
scene<T> make_neighbours(random_generator& generator, index_t count) {
  const double offset = generator.chance(0.5) ? 0 : std::pow(10, generator.uniform(2, 7));
  const double length = generator.uniform(2, 100);
  const double height = length / std::pow(10, generator.uniform(0, generator.chance(0.2) ? 6 : 2));
  const double angle = generator.chance(0.3) ? 90.0 * static_cast<double>(generator.below(4))
                                             : generator.uniform(-180, 180);
  const double turn = std::acos(-1) / 180 * angle;
  scene<T> s;
  for (index_t i = 0; i < count; ++i) {
    const double reach = generator.chance(0.2) ? 0 : std::pow(10, generator.uniform(-3, 0));
    const double along = reach * length * generator.uniform(-1, 1);
    const double across = generator.chance(0.5) ? 0 : reach * height * generator.uniform(-1, 1);
    const double size = generator.chance(0.5) ? 1 : generator.uniform(0.5, 2);
    const double other = generator.chance(0.5) ? 1 : generator.uniform(0.5, 2);
    const double lean = generator.chance(0.5) ? 0 : std::pow(10, generator.uniform(-6, 1));
    for (const double v : {offset + along * std::cos(turn) + across * std::sin(turn),
                           offset - along * std::sin(turn) + across * std::cos(turn), length * size,
                           height * other, angle + lean + 180.0 * static_cast<double>(i % 2)})
      s.boxes.push_back(static_cast<T>(v));
    if (generator.chance(0.2)) {  // the same box with its sides exchanged
      std::swap(s.boxes.end()[-3], s.boxes.end()[-2]);
      s.boxes.back() += 90;
    }
    s.scores.push_back(static_cast<T>(generator.uniform()));
  }
  return s;
}

TEST_CASE_TEMPLATE("rotated NMS: pairs close to the threshold", T, float, double) {
  for_each_isa([](isa) {
    random_generator generator(5);
    for (int round = 0; round < 400; ++round) {
      CAPTURE(round);
      const auto s = make_neighbours<T>(generator, 12);
      std::vector<T> ious(144);
      pairwise_rotated_iou(s.view(), s.view(), torchvision, matrix_view<T>(ious.data(), 12, 12));
      for (std::size_t k = 1; k < ious.size(); k += 12) {
        // The threshold is the overlap of a pair. Its boxes suppress each other only with
        // suppress_equal.
        const auto threshold = static_cast<double>(ious[k]);
        if (!(threshold <= 1)) continue;
        for (const bool equal : {false, true}) {
          nms_params params(threshold);
          params.suppress_equal = equal;
          CHECK(rotated_nms(s.view(), vector_view<const T>(s.scores), {}, torchvision, params) ==
                greedy(s, threshold, equal, false));
        }
      }
    }
  });
}

TEST_CASE("rotated NMS: options") {
  const std::vector<float> boxes{0, 0, 10, 4,  30, 0,  0,  10, 4, 30, 50, 50, 10,
                                 4, 0, 50, 50, 4,  10, 90, 0,  0, 0,  5,  0};
  const std::vector<float> scores{0.5f, 0.75f, 0.25f, 0.9f, 0.1f};
  const matrix_view<const float> view(boxes.data(), 5, 5);
  for_each_isa([&](isa) {
    const auto kept = [&](const nms_params& params, const nms_groups& groups = {}) {
      return rotated_nms(view, vector_view<const float>(scores), groups, torchvision, params);
    };
    using indices = std::vector<index_t>;
    CHECK(kept({}) == indices{3, 1, 4});
    nms_params params;
    params.drop_degenerate = true;
    CHECK(kept(params) == indices{3, 1});
    params.score_threshold = 0.8;
    CHECK(kept(params) == indices{3});
    params.score_threshold = 2;  // no box takes part
    const std::vector<index_t> five{0, 1, 2, 3, 4}, images{0, 2, 5};
    CHECK(kept(params, nms_groups{five}).empty());
    CHECK(kept(params, nms_groups{{}, {}, images}).empty());
    params = {};
    params.order = nms_order::index;
    CHECK(kept(params) == indices{1, 3, 4});
    params = {};
    params.max_total = 2;
    CHECK(kept(params) == indices{3, 1});
    const std::vector<index_t> classes{0, 1, 0, 1, 0};
    nms_groups groups;
    groups.classes = classes;
    CHECK(kept({}, groups) == indices{3, 1, 0, 2, 4});
    const std::vector<index_t> zero{0}, same{7, 7};
    const std::vector<double> thresholds{0.3, 0.8};
    params = {};
    params.classes = zero;
    CHECK(kept(params, groups) == indices{0, 2, 4});
    params.class_thresholds = thresholds;
    CHECK(kept(params, groups) == indices{0});
    params = {};
    params.class_groups = same;
    CHECK(kept(params, groups) == kept({}));
    CHECK(rotated_nms(matrix_view<const float>(), vector_view<const float>(), {}, torchvision, {})
              .empty());
  });
}

TEST_CASE("rotated NMS: bad arguments throw errors that name them") {
  const std::vector<float> boxes(20, 1), scores(4, 0.5f);
  std::vector<float> nothing;
  const auto fails = refusals(nothing);
  const auto run = [&](const nms_params& params, index_t cols = 5) {
    return rotated_nms(matrix_view<const float>(boxes.data(), 4, cols),
                       vector_view<const float>(scores), {}, torchvision, params);
  };
  fails("rotated_nms: boxes.cols() is 4, expected 5", [&] { run({}, 4); });
  fails("rotated_nms: params.iou_threshold is 2, expected a number in [0, 1]", [&] { run(2.0); });
  nms_params params;
  params.plus_one = true;
  fails("rotated_nms: params.plus_one is true, expected false", [&] { run(params); });
  params = {};
  params.format = nms_format::centre;
  fails("rotated_nms: params.format is 2", [&] { run(params); });
  params = {};
  params.overlap = nms_overlap::smaller_area;
  fails("rotated_nms: params.overlap is 2", [&] { run(params); });
  params = {};
  const std::vector<index_t> wanted{0};
  params.classes = wanted;
  fails("rotated_nms: groups.classes.size() is 0, expected one class per box",
        [&] { run(params); });
  fails("rotated_nms: scores.size() is 4, expected 3", [&] {
    rotated_nms(matrix_view<const float>(boxes.data(), 3, 5), vector_view<const float>(scores), {},
                torchvision, {});
  });
}
