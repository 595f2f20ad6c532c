// SPDX-License-Identifier: Apache-2.0
// vecdet/opencv.hpp against OpenCV's own functions: the same indices and scores, bit for bit.
#include <vecdet/box_ops.hpp>
#include <vecdet/iou.hpp>
#include <vecdet/opencv.hpp>
#include <vecdet/reference/rotated_boxes.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <opencv2/core.hpp>
#include <opencv2/dnn.hpp>
#include <opencv2/imgproc.hpp>

namespace {

using namespace vecdet;

constexpr double nan_of_double = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity_of_double = std::numeric_limits<double>::infinity();
constexpr float nan_of_float = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity_of_float = std::numeric_limits<float>::infinity();

std::mt19937 generator(20261127);

int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(generator); }
double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(generator);
}
template <class T>
const T& one_of(const std::vector<T>& values) {
  return values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
}

template <class T>
struct rectangle_set {
  std::vector<cv::Rect_<T>> boxes;
  std::vector<float> scores;
};

/// Clusters of rectangles in an image. Integers if `step` is 1.
template <class T>
rectangle_set<T> clustered(int count, double step) {
  rectangle_set<T> set;
  const int clusters = 1 + count / 20;
  std::vector<cv::Rect2d> centres;
  for (int i = 0; i < clusters; ++i)
    centres.emplace_back(uniform(0, 1800), uniform(0, 1000), uniform(8, 300), uniform(8, 300));
  for (int i = 0; i < count; ++i) {
    const cv::Rect2d& centre = one_of(centres);
    const auto near = [&](double value, double size) {
      const double moved = value + size * uniform(-0.2, 0.2);
      return static_cast<T>(step > 0 ? step * std::round(moved / step) : moved);
    };
    set.boxes.emplace_back(near(centre.x, centre.width), near(centre.y, centre.height),
                           near(centre.width, centre.width), near(centre.height, centre.height));
    set.scores.push_back(static_cast<float>(uniform(0, 1)));
  }
  return set;
}

/// Few different numbers: ties, duplicates, and overlaps that equal the threshold.
template <class T>
rectangle_set<T> coarse(int count) {
  rectangle_set<T> set;
  for (int i = 0; i < count; ++i) {
    set.boxes.emplace_back(static_cast<T>(below(8)), static_cast<T>(below(8)),
                           static_cast<T>(below(6)), static_cast<T>(below(6)));
    set.scores.push_back(static_cast<float>(below(5)) / 4);
  }
  return set;
}

template <class T>
rectangle_set<T> of_values(int count, const std::vector<T>& positions, const std::vector<T>& sides,
                           const std::vector<float>& scores) {
  rectangle_set<T> set;
  for (int i = 0; i < count; ++i) {
    set.boxes.emplace_back(one_of(positions), one_of(positions), one_of(sides), one_of(sides));
    set.scores.push_back(one_of(scores));
  }
  return set;
}

const std::vector<float> few_scores = {0.25f, 0.5f, 0.5f, 0.75f, 1.0f};
const std::vector<float> hostile_scores = {nan_of_float,
                                           -nan_of_float,
                                           infinity_of_float,
                                           -infinity_of_float,
                                           -1,
                                           0.0f,
                                           -0.0f,
                                           1e-45f,
                                           0.5f,
                                           0.5f,
                                           0.75f,
                                           3e38f};

/// Whether NMSBoxes keeps the same boxes as OpenCV's, in the same order.
template <class T>
void check_nms(const rectangle_set<T>& set, float score_threshold, float threshold, float eta = 1,
               int top_k = 0) {
  std::vector<int> theirs, ours{-1};
  cv::dnn::NMSBoxes(set.boxes, set.scores, score_threshold, threshold, theirs, eta, top_k);
  opencv::NMSBoxes(set.boxes, set.scores, score_threshold, threshold, ours, eta, top_k);
  CAPTURE(set.boxes.size());
  CAPTURE(score_threshold);
  CAPTURE(threshold);
  CAPTURE(eta);
  CAPTURE(top_k);
  CHECK(ours == theirs);
}

template <class T>
void check_with_options(const rectangle_set<T>& set) {
  for (const float threshold : {0.0f, 0.2f, 0.5f, 0.7f, 1.0f, 1.5f, infinity_of_float})
    check_nms(set, 0.2f, threshold);
  for (const float threshold : {0.3f, 0.5f, 0.6f, 0.9f, 2.0f})
    for (const float eta : {0.3f, 0.95f, 0.999f, 1.5f}) check_nms(set, 0, threshold, eta);
  for (const int top_k : {-1, 1, 2, 7, 50, 100000}) {
    check_nms(set, 0.1f, 0.4f, 1, top_k);
    check_nms(set, 0, 0.8f, 0.9f, top_k);
  }
  check_nms(set, 0.5f, 0.45f);
  check_nms(set, 1, 0.45f);
  check_nms(set, infinity_of_float, 0.45f);
}

std::string message_of(void (*call)()) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool has_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void check_soft(const rectangle_set<int>& set, float score_threshold, float threshold,
                std::size_t top_k, float sigma, cv::dnn::SoftNMSMethod method) {
  std::vector<int> theirs, ours{-1};
  std::vector<float> their_scores, our_scores{-1};
  cv::dnn::softNMSBoxes(set.boxes, set.scores, their_scores, score_threshold, threshold, theirs,
                        top_k, sigma, method);
  opencv::softNMSBoxes(set.boxes, set.scores, our_scores, score_threshold, threshold, ours, top_k,
                       sigma, method);
  CAPTURE(set.boxes.size());
  CAPTURE(score_threshold);
  CAPTURE(threshold);
  CAPTURE(top_k);
  CAPTURE(sigma);
  CHECK(ours == theirs);
  CHECK(has_same_bits(our_scores, their_scores));
}

void check_soft_with_options(const rectangle_set<int>& set) {
  for (const auto method :
       {cv::dnn::SoftNMSMethod::SOFTNMS_LINEAR, cv::dnn::SoftNMSMethod::SOFTNMS_GAUSSIAN})
    for (const float score_threshold : {0.0f, 0.001f, 0.3f})
      for (const float threshold : {0.0f, 0.3f, 0.7f, 1.0f, 2.0f})
        for (const std::size_t top_k : std::vector<std::size_t>{0, 1, 10, 100000})
          for (const float sigma : {0.5f, 0.1f, infinity_of_float})
            check_soft(set, score_threshold, threshold, top_k, sigma, method);
}

}  // namespace

TEST_CASE("NMSBoxes of rectangles of integers") {
  for (const int count : {0, 1, 2, 15, 16, 17, 100, 1000, 5000}) {
    check_with_options(clustered<int>(count, 1));
    check_with_options(coarse<int>(count));
  }
}

TEST_CASE("NMSBoxes of hostile rectangles of integers") {
  constexpr int least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
  const std::vector<int> positions = {0,      1,       -1,   5,        100,  46000,
                                      -46000, 1 << 24, most, most - 9, least};
  const std::vector<int> sides = {0,       1,       10,   11, 46340, 46341,  65536, 1 << 15,
                                  1 << 24, 1 << 30, most, -1, -10,   -46341, least};
  const std::vector<int> few = {0, 1, 10, 11, -10};
  for (int round = 0; round < 40; ++round) {
    check_with_options(of_values<int>(40, positions, sides, few_scores));
    check_with_options(of_values<int>(60, {0, 1, 2, 3}, few, few_scores));
    check_with_options(of_values<int>(60, {0, 5, 2000}, {0, 9, 2896, 2897, 4000}, hostile_scores));
    check_with_options(of_values<int>(60, {0, 3}, {0}, hostile_scores));
  }
  // A single one among many that are not.
  rectangle_set<int> set = clustered<int>(300, 1);
  for (const cv::Rect& bad :
       {cv::Rect(100, 100, -50, 20), cv::Rect(0, 0, 50000, 50000), cv::Rect(most - 3, 0, 10, 10)}) {
    set.boxes[77] = bad;
    check_with_options(set);
  }
}

TEST_CASE("NMSBoxes of rectangles of doubles") {
  for (const int count : {0, 1, 2, 15, 16, 17, 100, 1000, 5000}) {
    for (const double step : {1.0, 0.5, 0.1, 0.0})
      check_with_options(clustered<double>(count, step));
    check_with_options(coarse<double>(count));
    rectangle_set<double> set = coarse<double>(count);
    for (const double scale : {0.1, 1.0 / 3, 1e-3, 1e5}) {
      rectangle_set<double> scaled = set;
      for (cv::Rect2d& r : scaled.boxes)
        r = cv::Rect2d((r.x + 0.7) * scale, (r.y - 3) * scale, r.width * scale, r.height * scale);
      check_with_options(scaled);
    }
  }
}

TEST_CASE("NMSBoxes of hostile rectangles of doubles") {
  const std::vector<double> positions = {0,
                                         -0.0,
                                         1,
                                         -1,
                                         0.1,
                                         5,
                                         1e-320,
                                         1e9,
                                         1e18,
                                         1e300,
                                         -1e308,
                                         nan_of_double,
                                         infinity_of_double,
                                         -infinity_of_double,
                                         0x1p31};
  const std::vector<double> sides = {0,
                                     -0.0,
                                     1,
                                     1e-8,
                                     1e-9,
                                     1e-170,
                                     0.1,
                                     10,
                                     1e9,
                                     1e18,
                                     1e200,
                                     -1,
                                     -1e-8,
                                     nan_of_double,
                                     infinity_of_double,
                                     -infinity_of_double,
                                     0x1.8p-26,
                                     0x1p26};
  for (int round = 0; round < 40; ++round) {
    check_with_options(of_values<double>(40, positions, sides, few_scores));
    check_with_options(of_values<double>(40, {0, 1, 2.5}, {0, 1, 2, 3.25, -1}, hostile_scores));
    check_with_options(of_values<double>(40, {0, 1e-9, 1e-7}, {0, 1e-8, 2e-8, 1e-6}, few_scores));
    check_with_options(
        of_values<double>(40, {0, 1, 1e9, 1e9 + 0.5}, {1e-7, 1, 1.5, 1e9}, few_scores));
  }
  rectangle_set<double> set = clustered<double>(300, 0);
  for (const double bad : {nan_of_double, infinity_of_double, -3.0, 1e300}) {
    set.boxes[77].width = bad;
    check_with_options(set);
  }
}

TEST_CASE("NMSBoxes takes the fast way where it may") {
  const auto numbers = [](const auto& set) {
    return detail::numbers_of(set.boxes, detail::candidates_of(set.scores, 0, 0));
  };
  CHECK(numbers(clustered<int>(500, 1)) == detail::rectangle_numbers::floats);
  CHECK(numbers(clustered<double>(500, 1)) == detail::rectangle_numbers::floats);
  CHECK(numbers(clustered<double>(500, 0)) == detail::rectangle_numbers::nearly_doubles);
  rectangle_set<int> wide = clustered<int>(500, 1);
  wide.boxes[3] = cv::Rect(0, 0, 4000, 4000);
  CHECK(numbers(wide) == detail::rectangle_numbers::doubles);
  wide.boxes[3].width = -1;
  CHECK(numbers(wide) == detail::rectangle_numbers::none);

  // Doubles: nearly always, and not where an overlap is next to the threshold.
  int fast = 0;
  std::vector<index_t> kept;
  for (int round = 0; round < 50; ++round) {
    const auto set = clustered<double>(1000, 0);
    fast += detail::kept_by_nms(set.boxes, set.scores, detail::candidates_of(set.scores, 0, 0),
                                0.45, kept);
  }
  CHECK(fast >= 45);
  const rectangle_set<double> next_to = {{{0.1, 0.1, 0.3, 0.3}, {0.1, 0.1, 0.3, 0.15}},
                                         {0.9f, 0.8f}};
  CHECK_FALSE(detail::kept_by_nms(next_to.boxes, next_to.scores, {0, 1}, 0.5, kept));
  check_nms(next_to, 0, 0.5f);
}

#if CV_VERSION_MAJOR > 4 || (CV_VERSION_MAJOR == 4 && CV_VERSION_MINOR >= 7)
namespace {

template <class T>
void check_batched(const rectangle_set<T>& set, int classes, int first_class = 0) {
  std::vector<int> class_ids;
  for (std::size_t i = 0; i < set.boxes.size(); ++i)
    class_ids.push_back(first_class + below(classes));
  for (const float threshold : {0.0f, 0.45f, 0.7f, 1.0f})
    for (const float eta : {1.0f, 0.9f})
      for (const int top_k : {0, 20}) {
        std::vector<int> theirs, ours{-1};
        cv::dnn::NMSBoxesBatched(set.boxes, set.scores, class_ids, 0.2f, threshold, theirs, eta,
                                 top_k);
        opencv::NMSBoxesBatched(set.boxes, set.scores, class_ids, 0.2f, threshold, ours, eta,
                                top_k);
        CAPTURE(set.boxes.size());
        CAPTURE(threshold);
        CAPTURE(eta);
        CAPTURE(top_k);
        CHECK(ours == theirs);
      }
}

}  // namespace

TEST_CASE("NMSBoxesBatched") {
  for (const int count : {0, 1, 2, 17, 100, 1000}) {
    for (const int classes : {1, 3, 80}) {
      check_batched(clustered<int>(count, 1), classes);
      check_batched(coarse<int>(count), classes);
      check_batched(clustered<double>(count, 0), classes);
      check_batched(clustered<double>(count, 0.1), classes, -2);
      check_batched(coarse<double>(count), classes);
    }
  }
  for (int round = 0; round < 50; ++round) {
    // Negative coordinates: classes meet. Negative ones, empty and inverted rectangles.
    check_batched(of_values<int>(60, {-30, -9, -1, 0, 4}, {0, 1, 10, 11, -10}, few_scores), 3);
    check_batched(of_values<int>(60, {-30, -9, -1, 0, 4}, {0, 1, 10, 11, -10}, few_scores), 5, -2);
    check_batched(of_values<double>(60, {-30.5, -9, 0.1}, {0, 1, 10.25, -10}, hostile_scores), 4,
                  -1);
    check_batched(of_values<double>(60, {-3, 1e9, 1e300, nan_of_double}, {1, 7, 1e9}, few_scores),
                  4);
    check_batched(of_values<double>(60, {0, 1, infinity_of_double, -infinity_of_double},
                                    {1, 7, nan_of_double, infinity_of_double}, few_scores),
                  4);
  }
}
#endif

TEST_CASE("softNMSBoxes") {
  for (const int count : {0, 1, 2, 17, 150}) {
    check_soft_with_options(clustered<int>(count, 1));
    check_soft_with_options(coarse<int>(count));
  }
  constexpr int most = std::numeric_limits<int>::max();
  for (int round = 0; round < 10; ++round) {
    check_soft_with_options(of_values<int>(40, {0, 1, 2, 3}, {0, 1, 10, 11, -10}, few_scores));
    check_soft_with_options(of_values<int>(40, {0, -5, 100, most - 5}, {0, 1, 10, 46341, most},
                                           {-1, 0.0f, -0.0f, 1e-45f, 0.5f, 0.5f, 7, 3e38f}));
  }
}

TEST_CASE("errors") {
  const std::vector<cv::Rect> boxes{{0, 0, 2, 2}, {1, 1, 2, 2}};
  const std::vector<cv::Rect2d> doubles{{0, 0, 2, 2}, {1, 1, 2, 2}};
  const std::vector<float> scores{0.5f, 0.25f};
  std::vector<int> indices{7};
  std::vector<float> updated{3};
  const auto refused = [&](const std::vector<float>& given, float score_threshold, float threshold,
                           float eta) {
    std::vector<int> theirs;
    CHECK_THROWS_AS(cv::dnn::NMSBoxes(boxes, given, score_threshold, threshold, theirs, eta),
                    cv::Exception);
    CHECK_THROWS_AS(opencv::NMSBoxes(boxes, given, score_threshold, threshold, indices, eta),
                    std::invalid_argument);
    CHECK_THROWS_AS(opencv::NMSBoxes(doubles, given, score_threshold, threshold, indices, eta),
                    std::invalid_argument);
    CHECK(indices == std::vector<int>{7});
  };
  refused({0.5f}, 0, 0.5f, 1);
  refused(scores, -0.1f, 0.5f, 1);
  refused(scores, nan_of_float, 0.5f, 1);
  refused(scores, 0, -0.1f, 1);
  refused(scores, 0, nan_of_float, 1);
  refused(scores, 0, 0.5f, 0);
  refused(scores, 0, 0.5f, -1);
  refused(scores, 0, 0.5f, nan_of_float);

  using cv::dnn::SoftNMSMethod;
  const auto soft_refused = [&](const std::vector<float>& given, float score_threshold,
                                float threshold, float sigma, SoftNMSMethod method) {
    CHECK_THROWS_AS(opencv::softNMSBoxes(boxes, given, updated, score_threshold, threshold, indices,
                                         0, sigma, method),
                    std::invalid_argument);
    CHECK(indices == std::vector<int>{7});
    CHECK(updated == std::vector<float>{3});
  };
  const auto gaussian = SoftNMSMethod::SOFTNMS_GAUSSIAN;
  soft_refused({0.5f}, 0, 0.5f, 1, gaussian);
  soft_refused(scores, -1, 0.5f, 1, gaussian);
  soft_refused(scores, 0, -1, 1, gaussian);
  soft_refused(scores, 0, 0.5f, -1, gaussian);
  soft_refused(scores, 0, 0.5f, 0, gaussian);
  soft_refused({0.5f, nan_of_float}, 0, 0.5f, 1, gaussian);
  soft_refused({0.5f, infinity_of_float}, 0, 0.5f, 1, gaussian);
  soft_refused(scores, 0, 0.5f, 1, static_cast<SoftNMSMethod>(3));

  CHECK(message_of([] {
          std::vector<int> kept;
          opencv::NMSBoxes(std::vector<cv::Rect>{{0, 0, 1, 1}}, {0.5f, 1}, 0, 0.5f, kept);
        }) == "vecdet::opencv::NMSBoxes: scores.size() is 2, expected 1, the number of boxes");
  CHECK(message_of([] {
          std::vector<int> kept;
          opencv::NMSBoxes(std::vector<cv::Rect>{}, {}, 0, -0.5f, kept);
        }) == "vecdet::opencv::NMSBoxes: nms_threshold is -0.5, expected 0 or more");
}

TEST_CASE("errors of NMSBoxesBatched") {
  CHECK(
      message_of([] {
        std::vector<int> kept;
        opencv::NMSBoxesBatched(std::vector<cv::Rect>{{0, 0, 1, 1}}, {0.5f}, {1, 2}, 0, 0.5f, kept);
      }) ==
      "vecdet::opencv::NMSBoxesBatched: class_ids.size() is 2, expected 1, the number of boxes");
  CHECK(message_of([] {
          std::vector<int> kept;
          opencv::NMSBoxesBatched(std::vector<cv::Rect>{{0, 0, 1 << 20, 1}}, {0.5f}, {4000}, 0,
                                  0.5f, kept);
        }) ==
        "vecdet::opencv::NMSBoxesBatched: class_ids[0] is 4000, expected a class whose rectangles "
        "still fit an int when moved by it");
  CHECK(
      message_of([] {
        std::vector<int> kept;
        opencv::NMSBoxesBatched(std::vector<cv::Rect>{{2147483647, 0, 2, 1}}, {0.5f}, {0}, 0, 0.5f,
                                kept);
      }) ==
      "vecdet::opencv::NMSBoxesBatched: bboxes[0] is 2147483649, expected corners that fit an int");
  std::vector<int> kept;
  const std::vector<cv::Rect2d> two{{0, 0, 9, 9}, {1, 0, 9, 9}};
  opencv::NMSBoxesBatched(two, {0.5f, 0.75f}, {0, 1}, 0, 0.5f, kept);
  CHECK(kept == std::vector<int>{1, 0});
  opencv::NMSBoxesBatched(two, {0.5f, 0.75f}, {1, 1}, 0, 0.5f, kept);
  CHECK(kept == std::vector<int>{1});
}

TEST_CASE("corners and rectangles") {
  const std::vector<cv::Rect> integers{{1, 2, 3, 4}, {-5, 0, 10, 20}, {0, 0, 12, 10}};
  using corners = std::array<float, 4>;
  CHECK(opencv::corners(integers) ==
        std::vector<corners>{{1, 2, 4, 6}, {-5, 0, 5, 20}, {0, 0, 12, 10}});
  CHECK(opencv::rectangles<int>(opencv::corners(integers)) == integers);
  CHECK(opencv::rectangles<double>(opencv::corners<double>(integers)) ==
        std::vector<cv::Rect2d>{{1, 2, 3, 4}, {-5, 0, 10, 20}, {0, 0, 12, 10}});
  CHECK(opencv::rectangles<int>(std::vector<float>{0.5f, 1.5f, 9.6f, -0.4f}) ==
        std::vector<cv::Rect>{{0, 2, 10, -2}});
  CHECK(opencv::corners(std::vector<cv::Rect2f>{{0.5f, 1, 2, 0.25f}}) ==
        std::vector<corners>{{0.5f, 1, 2.5f, 1.25f}});
  // The sum is not rounded twice, and does not wrap around.
  CHECK(opencv::corners<double>(std::vector<cv::Rect>{{2147483647, 0, 2147483647, 1}})[0][2] ==
        4294967294.0);
  CHECK(opencv::corners(std::vector<cv::Rect>{}).empty());

  // In vecdet's own functions.
  const std::vector<float> scores{0.5f, 0.75f, 0.25f};
  CHECK(nms(opencv::corners(integers), scores, 0.3) == std::vector<index_t>{1, 0, 2});
  std::vector<float> ious(9);
  pairwise_iou(opencv::corners(integers), opencv::corners(integers),
               matrix_view<float>(ious.data(), 3, 3));
  CHECK(ious[1] == doctest::Approx(12.0 / 200));
  const std::vector<cv::Rect2f> floats{{1, 2, 3, 4}};
  std::vector<float> converted(4);
  convert_boxes(floats, box_format::xyxy, converted);
  CHECK(converted == std::vector<float>{1, 2, 4, 6});

  CHECK(message_of([] {
          opencv::corners(std::vector<cv::Rect>{{1, 1, 1, 1}, {1 << 24, 0, 1, 1}});
        }) ==
        "vecdet::opencv::corners: rectangles[1] is 16777217, expected a corner that the result's "
        "type represents exactly");
  CHECK(message_of([] {
          opencv::rectangles<int>(std::vector<float>{0, 0, nan_of_float, 1});
        }) ==
        "vecdet::opencv::rectangles: boxes[0] is nan, expected corners and sides that fit the "
        "rectangles' integers");
  CHECK(message_of([] {
          opencv::rectangles<int>(std::vector<double>{-2e9, 0, 2e9, 1});
        }) ==
        "vecdet::opencv::rectangles: boxes[0] is 4000000000, expected corners and sides that fit "
        "the rectangles' integers");
}

namespace {

/// As OpenCV's NMSBoxes computes it.
double their_overlap(const cv::RotatedRect& a, const cv::RotatedRect& b) {
  std::vector<cv::Point2f> points;
  const int kind = cv::rotatedRectangleIntersection(a, b, points);
  if (points.empty() || kind == cv::INTERSECT_NONE) return 0;
  if (kind == cv::INTERSECT_FULL) return 1;
  const double area = cv::contourArea(points);
  return area / (static_cast<double>(a.size.area()) + static_cast<double>(b.size.area()) - area);
}

double exact_overlap(const cv::RotatedRect& a, const cv::RotatedRect& b) {
  const std::vector<cv::RotatedRect> one{a}, other{b};
  return reference::rotated_iou(
      reference::load_rotated_box(opencv::matrix(one), 0, angle_convention::opencv),
      reference::load_rotated_box(opencv::matrix(other), 0, angle_convention::opencv));
}

/// Clusters of rotated rectangles. OpenCV's overlaps of all pairs are right and not close to any of
/// `thresholds`; others are left out and counted.
struct turned_set {
  std::vector<cv::RotatedRect> boxes;
  std::vector<float> scores;
  int left_out = 0;

  turned_set(int count, double right_angles, const std::vector<float>& thresholds) {
    std::vector<cv::RotatedRect> centres;
    for (int i = 0; i < 1 + count / 20; ++i)
      centres.emplace_back(cv::Point2f(at(0, 900), at(0, 500)), cv::Size2f(at(8, 200), at(8, 200)),
                           at(-180, 180));
    while (static_cast<int>(boxes.size()) < count) {
      const cv::RotatedRect& centre = one_of(centres);
      const auto near = [&](float value, float size) { return value + size * at(-0.2, 0.2); };
      const cv::RotatedRect box(cv::Point2f(near(centre.center.x, centre.size.width),
                                            near(centre.center.y, centre.size.height)),
                                cv::Size2f(near(centre.size.width, centre.size.width),
                                           near(centre.size.height, centre.size.height)),
                                uniform(0, 1) < right_angles
                                    ? 90.0f * static_cast<float>(below(9) - 4)
                                    : near(centre.angle, 50));
      const bool is_right = std::all_of(boxes.begin(), boxes.end(), [&](const auto& other) {
        const double exact = exact_overlap(box, other);
        return std::abs(their_overlap(box, other) - exact) < 1e-4 &&
               std::none_of(thresholds.begin(), thresholds.end(), [&](float threshold) {
                 return std::abs(exact - static_cast<double>(threshold)) < 2e-4;
               });
      });
      if (!is_right) {
        ++left_out;
        continue;
      }
      boxes.push_back(box);
      scores.push_back(static_cast<float>(uniform(0, 1) < 0.3 ? 0.125 * below(9) : uniform(0, 1)));
    }
  }
  static float at(double low, double high) { return static_cast<float>(uniform(low, high)); }
};

}  // namespace

TEST_CASE("NMSBoxes of rotated rectangles") {
  // Those of eta: 0.9 * 0.9 and so on.
  std::vector<float> thresholds{0.2f, 0.45f, 0.7f, 0.9f};
  while (thresholds.back() > 0.5f) thresholds.push_back(thresholds.back() * 0.95f);
  int left_out = 0, all = 0, kept = 0;
  for (const int count : {0, 1, 2, 15, 16, 17, 100, 400})
    for (const double right_angles : {0.0, 0.5}) {
      const turned_set set(count, right_angles, thresholds);
      left_out += set.left_out;
      all += count;
      const auto compare = [&](float score_threshold, float threshold, float eta, int top_k) {
        std::vector<int> theirs, ours{-1};
        cv::dnn::NMSBoxes(set.boxes, set.scores, score_threshold, threshold, theirs, eta, top_k);
        opencv::NMSBoxes(set.boxes, set.scores, score_threshold, threshold, ours, eta, top_k);
        CAPTURE(count);
        CAPTURE(threshold);
        CAPTURE(eta);
        CAPTURE(top_k);
        CHECK(ours == theirs);
        kept += static_cast<int>(ours.size());
      };
      for (const float threshold : {0.2f, 0.45f, 0.7f, 0.9f, 1.0f, 1.5f, infinity_of_float})
        for (const float score_threshold : {0.0f, 0.25f, 0.5f})
          for (const int top_k : {0, 1, 7, 50}) compare(score_threshold, threshold, 1, top_k);
      compare(0, 0.9f, 0.95f, 0);
      compare(0.25f, 0.45f, 0.95f, 9);
    }
  MESSAGE(left_out << " rectangles left out beside " << all << ", " << kept
                   << " kept in all calls");
  CHECK(all > 1000);
  CHECK(kept > 10000);
}

TEST_CASE("NMSBoxes of rotated rectangles: a wrong overlap of OpenCV, hostile numbers, errors") {
  // The second one is inside the first, and their IoU is 0.25.
  const std::vector<cv::RotatedRect> nested{{{50, 50}, {40, 40}, 30}, {{50, 50}, {20, 20}, 30}};
  CHECK(their_overlap(nested[0], nested[1]) == 1);
  std::vector<int> kept;
  opencv::NMSBoxes(nested, {0.75f, 0.5f}, 0, 0.5f, kept);
  CHECK(kept == std::vector<int>{0, 1});
  opencv::NMSBoxes(nested, {0.75f, 0.5f}, 0, 0.2f, kept);
  CHECK(kept == std::vector<int>{0});
  const std::vector<cv::RotatedRect> bad{
      {{50, 50}, {40, 40}, 30},           {{nan_of_float, 50}, {40, 40}, 30},
      {{50, 50}, {-40, 40}, 30},          {{50, 50}, {40, infinity_of_float}, 30},
      {{50, 50}, {40, 40}, nan_of_float}, {{50, 50}, {40, 40}, 30}};
  for (const float eta : {1.0f, 0.9f}) {
    opencv::NMSBoxes(bad, {0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f}, 0, 0.75f, kept, eta);
    CHECK(kept == std::vector<int>{0, 1, 2, 3, 4});
  }
  CHECK(message_of([] {
          std::vector<int> indices;
          opencv::NMSBoxes(std::vector<cv::RotatedRect>(1), {0.5f, 1}, 0, 0.5f, indices);
        }) == "vecdet::opencv::NMSBoxes: scores.size() is 2, expected 1, the number of boxes");
  CHECK(message_of([] {
          std::vector<int> indices;
          opencv::NMSBoxes(std::vector<cv::RotatedRect>(1), {0.5f}, 0, 0.5f, indices, 0);
        }) == "vecdet::opencv::NMSBoxes: eta is 0, expected above 0");
}

TEST_CASE("rotated rectangles as rows and back") {
  std::vector<cv::RotatedRect> rectangles{{{10, 20}, {30, 40}, 50}, {{1, 2}, {3, 4}, -90}};
  const std::vector<cv::RotatedRect>& known = rectangles;
  const matrix_view<const float> rows = opencv::matrix(known);
  CHECK((rows.rows() == 2 && rows.cols() == 5 && rows.data() == &rectangles[0].center.x));
  const std::vector<float> numbers{10, 20, 30, 40, 50, 1, 2, 3, 4, -90};
  CHECK(std::equal(numbers.begin(), numbers.end(), rows.data()));
  CHECK(opencv::matrix(std::vector<cv::RotatedRect>{}).rows() == 0);
  opencv::matrix(rectangles)(1, 4) = 45;
  CHECK(rectangles[1].angle == 45);
  // OpenCV's corners are those of its convention.
  std::vector<float> corners(16);
  convert_rotated_boxes(rows, rotated_format::cxcywhr, rotated_format::xyxyxyxy,
                        angle_convention::opencv, matrix_view<float>(corners.data(), 2, 8));
  for (int i = 0; i < 2; ++i) {
    cv::Point2f points[4];  // bottom left first, then clockwise
    rectangles[static_cast<std::size_t>(i)].points(points);
    for (int k = 0; k < 4; ++k) {
      const auto at = static_cast<std::size_t>(8 * i + 2 * k);
      CHECK(corners[at] == doctest::Approx(points[(k + 1) % 4].x).epsilon(1e-5));
      CHECK(corners[at + 1] == doctest::Approx(points[(k + 1) % 4].y).epsilon(1e-5));
    }
  }
  const float third = 1.0471976f;  // of a half turn
  const struct {
    angle_convention angles;
    float given, degrees;
  } turns[] = {{angle_convention::opencv, 60, 60},
               {angle_convention::torchvision, 60, -60},
               {angle_convention::detectron2, 60, -60},
               {angle_convention::ultralytics, third, 60},
               {angle_convention::mmcv, third, 60},
               {angle_convention::mmcv_counter_clockwise, third, -60}};
  for (const auto& turn : turns) {
    const float box[] = {10, 20, 30, 40, turn.given};
    const auto found = opencv::rotated_rectangles({box, 1, 5}, turn.angles);
    CHECK(found.size() == 1);
    CHECK((found[0].center == cv::Point2f(10, 20) && found[0].size == cv::Size2f(30, 40)));
    CHECK(found[0].angle == doctest::Approx(turn.degrees).epsilon(1e-6));
    const float upright[] = {10, 20, 30, 40, 0};
    CHECK(!std::signbit(opencv::rotated_rectangles({upright, 1, 5}, turn.angles)[0].angle));
  }
  CHECK(message_of([] {
          const float box[4] = {};
          opencv::rotated_rectangles({box, 1, 4}, angle_convention::opencv);
        }) ==
        "vecdet::opencv::rotated_rectangles: boxes.cols() is 4, expected 5, the numbers of a "
        "rotated box");
}

TEST_CASE("images and matrices") {
  cv::Mat picture(40, 50, CV_8UC3);
  cv::randu(picture, 0, 256);
  const byte_image whole = opencv::image(picture);
  CHECK(whole.data == picture.data);
  CHECK((whole.height == 40 && whole.width == 50 && whole.stride == 150));
  const cv::Mat region = picture(cv::Rect(7, 9, 20, 30));
  const byte_image part = opencv::image(region);
  CHECK(part.data == picture.ptr<unsigned char>(9) + 21);
  CHECK((part.height == 30 && part.width == 20 && part.stride == 150));

  // The letterbox of OpenCV's own functions, of a region of a larger image.
  constexpr int side = 64;
  cv::Mat input({1, 3, side, side}, CV_32F, cv::Scalar(-1));
  letterbox_workspace workspace;
  letterbox({&part, 1}, {input.ptr<float>(), input.total()}, {side, side}, letterbox_params::yolo(),
            workspace);
  cv::Mat resized, padded;
  const int width = 43, left = 10;  // 20 * 64 / 30, and half of the rest
  cv::resize(region, resized, cv::Size(width, side), 0, 0, cv::INTER_LINEAR);
  cv::copyMakeBorder(resized, padded, 0, 0, left, side - width - left, cv::BORDER_CONSTANT,
                     cv::Scalar::all(114));
  const cv::Mat blob = cv::dnn::blobFromImage(padded, 1 / 255.0, cv::Size(), cv::Scalar(), true);
  CHECK(cv::norm(blob.reshape(1, 1), input.reshape(1, 1), cv::NORM_INF) < 1e-7);

  const matrix_view<const float> numbers = opencv::matrix(input);
  CHECK((numbers.rows() == 3 * side && numbers.cols() == side && numbers.stride() == side));
  CHECK(numbers.data() == input.ptr<float>());
  const cv::Mat plane(10, 12, CV_32F);
  const matrix_view<const float> columns = opencv::matrix(plane.colRange(2, 5));
  CHECK((columns.rows() == 10 && columns.cols() == 3 && columns.stride() == 12));
  CHECK(columns.data() == plane.ptr<float>() + 2);
  const int no_boxes[] = {1, 0, 6};
  CHECK(opencv::matrix(cv::Mat(3, no_boxes, CV_32F)).rows() == 0);

  CHECK(message_of([] { opencv::image(cv::Mat()); }) ==
        "vecdet::opencv::image: mat is empty, expected an image: cv::imread() returns an empty one "
        "for a file that it cannot read");
  CHECK(message_of([] { opencv::image(cv::Mat(4, 4, CV_8UC1)); }) ==
        "vecdet::opencv::image: mat.type() is CV_8UC1, expected CV_8UC3, three bytes per pixel");
  CHECK(message_of([] { opencv::image(cv::Mat(4, 4, CV_32FC3)); }) ==
        "vecdet::opencv::image: mat.type() is CV_32FC3, expected CV_8UC3, three bytes per pixel");
  CHECK(message_of([] {
          opencv::image(cv::Mat(std::vector<int>{2, 4, 4}, CV_8UC3));
        }) == "vecdet::opencv::image: mat.dims is 3, expected 2");
  CHECK(message_of([] { opencv::matrix(cv::Mat(4, 4, CV_64F)); }) ==
        "vecdet::opencv::matrix: mat.type() is CV_64FC1, expected CV_32FC1, a float per element");
  CHECK(message_of([] { opencv::matrix(cv::Mat()); }) ==
        "vecdet::opencv::matrix: mat.dims is 0, expected 2 or more");
  const cv::Range ranges[] = {cv::Range::all(), cv::Range(0, 2), cv::Range(0, 2)};
  const cv::Mat cut = cv::Mat(std::vector<int>{2, 4, 4}, CV_32F)(ranges);
  CHECK_THROWS_WITH(opencv::matrix(cut),
                    "vecdet::opencv::matrix: mat.isContinuous() is false, expected true if there "
                    "are more than two dimensions");
}
