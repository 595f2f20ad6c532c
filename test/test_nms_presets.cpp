// SPDX-License-Identifier: Apache-2.0
// The presets of NMS: against the documented behaviour of OpenCV and ONNX Runtime, on many boxes,
// and on boxes that the fast comparisons do not handle.
#include "support/isa.hpp"
#include "support/nms_scene.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/nms.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

// The documented behaviour of two presets' frameworks, in a few lines that are independent of
// nms_params.

/// In descending order of the scores above the threshold, a box is kept unless suppresses(kept box,
/// box) for some kept box.
template <class Suppresses>
indices kept_of(const indices& candidates, const std::vector<float>& scores, float score_threshold,
                std::size_t limit, const Suppresses& suppresses) {
  const auto score = [&](index_t i) { return scores[static_cast<std::size_t>(i)]; };
  indices order, kept;
  for (const index_t i : candidates)
    if (score(i) > score_threshold) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t a, index_t b) { return score(a) > score(b); });
  for (const index_t i : order) {
    if (kept.size() == limit) break;
    if (std::none_of(kept.begin(), kept.end(), [&](index_t k) { return suppresses(k, i); }))
      kept.push_back(i);
  }
  return kept;
}

template <class Number>
using four = std::array<Number, 4>;

/// For cv::Rect (int) and cv::Rect2d (double), x y width height: 1 - jaccardDistance in float.
template <class Number>
float opencv_overlap(const four<Number>& a, const four<Number>& b) {
  const Number areas = a[2] * a[3] + b[2] * b[3];
  if (areas <= std::numeric_limits<Number>::epsilon()) return 1;
  const Number w = std::min(a[0] + a[2], b[0] + b[2]) - std::max(a[0], b[0]);
  const Number h = std::min(a[1] + a[3], b[1] + b[3]) - std::max(a[1], b[1]);
  const double shared = w > 0 && h > 0 ? static_cast<double>(w * h) : 0;
  const double distance = 1 - shared / (static_cast<double>(areas) - shared);
  return 1 - static_cast<float>(distance);
}

/// For two boxes of ONNX's NonMaxSuppression: any two opposite corners, or centre and size.
float onnx_overlap(const float* a, const float* b, bool centre_format) {
  float side[3][2];  // of a, of b, shared
  for (int k = 0; k < 2; ++k) {
    const auto ends = [&](const float* box) -> std::pair<float, float> {
      if (centre_format) return {box[k] - box[k + 2] / 2, box[k] + box[k + 2] / 2};
      return std::minmax({box[k], box[k + 2]});
    };
    const auto a_ends = ends(a), b_ends = ends(b);
    side[0][k] = a_ends.second - a_ends.first;
    side[1][k] = b_ends.second - b_ends.first;
    side[2][k] = std::min(a_ends.second, b_ends.second) - std::max(a_ends.first, b_ends.first);
    if (side[2][k] <= 0) return 0;
  }
  const volatile float a_area = side[0][0] * side[0][1], b_area = side[1][0] * side[1][1];
  const volatile float shared = side[2][0] * side[2][1];
  const float joined = a_area + b_area - shared;
  return shared > 0 && a_area > 0 && b_area > 0 && joined > 0 ? shared / joined : 0;
}

/// Scores that equal the thresholds 0.1 and 0.2 as floats, and their neighbours.
std::vector<float> scores_at_thresholds(index_t count, random_generator& generator) {
  std::vector<float> scores;
  for (index_t i = 0; i < count; ++i) {
    const float at = generator.chance(0.5) ? 0.1f : 0.2f;
    scores.push_back(generator.chance(0.3)   ? at
                     : generator.chance(0.2) ? std::nextafter(at, generator.chance(0.5) ? 0 : 1.0f)
                                             : static_cast<float>(generator.uniform(0, 0.5)));
  }
  return scores;
}

/// Checks rectangles in the form for opencv_nms: corners in float for int, in double for double.
template <class Number, class Corner>
void check_opencv_preset() {
  random_generator generator(41);
  for (int c = 0; c < 600; ++c) {
    const index_t count = generator.below(50);
    std::vector<four<Number>> rectangles;
    std::vector<Corner> boxes;
    indices all;
    const auto any = [&](index_t bound) {  // multiples of 1/4, rounded down for int
      return static_cast<Number>(static_cast<double>(generator.below(4 * bound)) / 4);
    };
    for (index_t i = 0; i < count; ++i) {
      rectangles.push_back({any(16) - 8, any(16) - 8, any(10), any(10)});
      const four<Number>& r = rectangles.back();
      for (const Number corner : {r[0], r[1], r[0] + r[2], r[1] + r[3]})
        boxes.push_back(static_cast<Corner>(corner));
      all.push_back(i);
    }
    const std::vector<float> scores = scores_at_thresholds(count, generator);
    for (const double score_threshold : {0.1, 0.2}) {
      for (const double iou_threshold : {0.0, 0.1, 0.2, 1.0 / 3, 0.4, 0.5, 0.6, 0.7}) {
        const indices expected =
            kept_of(all, scores, static_cast<float>(score_threshold), scores.size(),
                    [&](index_t kept, index_t i) {
                      return opencv_overlap(rectangles[static_cast<std::size_t>(i)],
                                            rectangles[static_cast<std::size_t>(kept)]) >
                             static_cast<float>(iou_threshold);
                    });
        INFO("case ", c, " score threshold ", score_threshold, " IoU threshold ", iou_threshold);
        CHECK(nms(boxes_view<const Corner>(boxes), vector_view<const float>(scores),
                  nms_params::opencv(iou_threshold, score_threshold)) == expected);
      }
    }
  }
}

void check_onnx_preset(bool centre_format) {
  random_generator generator(42);
  for (int c = 0; c < 600; ++c) {
    const index_t count = generator.below(50);
    std::vector<float> boxes;
    nms_groups groups;
    indices classes, per_class[3];
    for (index_t i = 0; i < count; ++i) {
      for (int k = 0; k < 4; ++k)
        boxes.push_back(generator.chance(0.8) ? static_cast<float>(generator.below(12))
                                              : static_cast<float>(generator.uniform(0, 12)));
      classes.push_back(generator.below(3));
      per_class[classes.back()].push_back(i);
    }
    groups.classes = classes;
    const std::vector<float> scores = scores_at_thresholds(count, generator);
    for (const double score_threshold : {0.1, 0.2}) {
      for (const double iou_threshold : {0.0, 0.1, 0.2, 1.0 / 3, 0.4, 0.5, 0.6, 0.7}) {
        const index_t limit = generator.chance(0.5) ? 4 : 1000;
        indices expected;  // by class, then score
        for (const indices& candidates : per_class) {
          const indices kept =
              kept_of(candidates, scores, static_cast<float>(score_threshold),
                      static_cast<std::size_t>(limit), [&](index_t k, index_t i) {
                        return onnx_overlap(&boxes[static_cast<std::size_t>(4 * i)],
                                            &boxes[static_cast<std::size_t>(4 * k)],
                                            centre_format) > static_cast<float>(iou_threshold);
                      });
          expected.insert(expected.end(), kept.begin(), kept.end());
        }
        nms_params params = nms_params::onnx(iou_threshold, limit, centre_format);
        params.score_threshold = score_threshold;
        INFO("case ", c, " score threshold ", score_threshold, " IoU threshold ", iou_threshold);
        CHECK(batched_nms(boxes_view<const float>(boxes), vector_view<const float>(scores), groups,
                          params) == expected);
      }
    }
  }
}

}  // namespace

TEST_CASE("NMS: every preset on many boxes") {
  scene_of<float> scene = clustered_scene<float>(4000, 3, -400);
  for (float& c : scene.boxes) c = std::floor(c);
  for (const double threshold : {0.1, 0.3, 0.5, 0.75}) {
    CAPTURE(threshold);
    check_scene(scene, nms_params::torchvision(threshold));
    check_scene(scene, nms_params::mmcv(threshold));
    check_scene(scene, nms_params::mmcv(threshold, true));
    check_scene(scene, nms_params::ipex(threshold));
    check_scene(scene, nms_params::onnx(threshold, no_limit));
    check_scene(scene, nms_params::opencv(threshold, 0.25));
  }
  // Centre and size.
  scene_of<float> centres = scene;
  for (std::size_t i = 0; i < centres.boxes.size(); i += 4)
    for (std::size_t k = 0; k < 2; ++k) centres.boxes[i + 2 + k] -= centres.boxes[i + k];
  check_scene(centres, nms_params::onnx(0.5, no_limit, true));
}

TEST_CASE("NMS: OpenCV's preset is NMSBoxes") {
  for_each_isa([](isa) {
    check_opencv_preset<int, float>();
    check_opencv_preset<double, double>();
  });
}

TEST_CASE("NMS: ONNX Runtime's preset is NonMaxSuppression") {
  for_each_isa([](isa) {
    check_onnx_preset(false);
    check_onnx_preset(true);
  });
}

TEST_CASE("NMS: boxes without area or with NaN suppress others only with OpenCV's overlap") {
  const float nan = static_cast<float>(quiet_nan);
  const std::vector<float> boxes{0, 0, 10, 10, 20, 20, 20, 20, 30, 30, 30, 30, nan, 0, 5, 5};
  const std::vector<float> first{0.9f, 0.8f, 0.7f, 0.6f}, last{0.6f, 0.7f, 0.8f, 0.9f};
  const auto kept = [&](const std::vector<float>& scores, const nms_params& params) {
    return nms(boxes_view<const float>(boxes), vector_view<const float>(scores), params);
  };
  for_each_isa([&](isa) {
    CHECK(kept(first, nms_params::torchvision(0.5)) == std::vector<index_t>{0, 1, 2, 3});
    CHECK(kept(first, nms_params::opencv(0.5, 0)) == std::vector<index_t>{0, 1});
    CHECK(kept(last, nms_params::opencv(0.5, 0)) == std::vector<index_t>{3});
  });
}

TEST_CASE_TEMPLATE("NMS: exceptional boxes among many, by every rule", T, float, double, bfloat16) {
  random_generator generator(31);
  const nms_params presets[] = {nms_params::torchvision(0.5),
                                nms_params::mmcv(0.3, true),
                                nms_params::ipex(0.5),
                                nms_params::onnx(0.4, no_limit),
                                nms_params::opencv(0.5, -1),
                                nms_params::ipex(0),
                                nms_params::torchvision(0),
                                nms_params::mmcv(1e-5, true),
                                nms_params::mmcv(2e-3, true),
                                nms_params::onnx(0.5, 40),
                                nms_params::opencv(0, -1),
                                nms_params::opencv(1e-3, -1),
                                nms_params::torchvision(0.5 - 1e-9)};
  for (const double share : {0.0004, 0.02, 0.5, 1.0}) {
    scene_of<T> scene = clustered_scene<T>(under_sanitizer ? 900 : 2500, 5, -100);
    for (std::size_t i = 0; i < scene.boxes.size(); i += 4) {
      if (!generator.chance(share)) continue;
      T* const box = &scene.boxes[i];
      const double x = static_cast<double>(box[0]), y = static_cast<double>(box[1]);
      switch (generator.below(9)) {
        case 0:  // no area
          box[2] = box[0];
          break;
        case 1:  // inverted
          std::swap(box[0], box[2]);
          break;
        case 2:  // inverted both ways: its area is above 0
          std::swap(box[0], box[2]);
          std::swap(box[1], box[3]);
          break;
        case 3:
          box[generator.below(4)] = to<T>(quiet_nan);
          break;
        case 4:
          box[generator.below(4)] = to<T>(std::numeric_limits<double>::infinity());
          break;
        case 5: {  // so small that products of its sides lose digits
          const double side = std::ldexp(1.0, -static_cast<int>(generator.below(75)));
          box[0] = box[1] = to<T>(0);
          box[2] = box[3] = to<T>(side);
          break;
        }
        case 6:  // a side is nearly 0 if pixels are counted
          box[2] = to<T>(x - 0.99);
          break;
        case 7:
          box[2] = to<T>(x - 1);
          box[3] = to<T>(y - 1);
          break;
        default:  // the area is infinite in float
          box[0] = box[1] = to<T>(-1e20);
          box[2] = box[3] = to<T>(1e20);
      }
    }
    for (const nms_params& params : presets) {
      CAPTURE(share);
      CAPTURE(params.iou_threshold);
      CAPTURE(params.plus_one);
      check_scene(scene, params);
    }
  }
}

TEST_CASE("NMS: every preset uses the index despite a few exceptional boxes") {
  scene_of<float> scene = clustered_scene<float>(9000, 3);
  for (std::size_t i = 0; i < scene.boxes.size(); i += 400) scene.boxes[i + 2] = scene.boxes[i];
  scene.boxes[4] = scene.boxes[5] = 0;
  scene.boxes[6] = scene.boxes[7] = 1e-16f;
  for_each_isa([&](isa) {
    const auto& kernels =
        vecdet::detail::kernels<vecdet::detail::nms_kernels<float>>(vecdet::active_isa());
    for (const nms_params& params :
         {nms_params::torchvision(0.5), nms_params::mmcv(0.5), nms_params::mmcv(0.5, true),
          nms_params::ipex(0.5), nms_params::onnx(0.5, no_limit), nms_params::opencv(0.5, 0)}) {
      std::vector<vecdet::detail::nms_record> order(scene.scores.size()), kept(order.size());
      vecdet::detail::nms_args<float> args{};
      args.boxes = scene.boxes.data();
      args.format = params.format;
      args.overlap = params.overlap;
      args.plus_one = params.plus_one;
      args.least_overlap = static_cast<double>(vecdet::detail::least_overlap<float>(params));
      args.max_kept = no_limit;
      vecdet::detail::nms_state state{};
      state.order = order.data();
      state.count = kernels.select(scene.scores.data(), 0, scene.size(), -1, false, order.data());
      state.kept = kept.data();
      std::vector<vecdet::detail::cache_line> scratch(
          static_cast<std::size_t>(kernels.scratch_bytes(state.count) / 64 + 1));
      state.scratch = scratch.data();
      kernels.begin(args, state);
      CHECK(!state.done);
    }
  });
}
