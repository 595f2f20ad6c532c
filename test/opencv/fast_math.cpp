// SPDX-License-Identifier: Apache-2.0
// vecdet/opencv.hpp in a file compiled with -ffast-math: OpenCV's results bit for bit, and an error
// for rectangles with NaN or infinity.
#include <vecdet/opencv.hpp>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <opencv2/core.hpp>
#include <opencv2/dnn.hpp>

#if !defined(__FAST_MATH__)
#error "compile this file with -ffast-math"
#endif

namespace {

int failures = 0;

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

template <class Rectangle>
bool is_refused(const Rectangle& rectangle) {
  std::vector<int> kept{7};
  try {
    vecdet::opencv::NMSBoxes(std::vector<Rectangle>{Rectangle(), rectangle}, {0.5f, 0.25f}, 0, 0.5f,
                             kept);
  } catch (const std::invalid_argument& error) {
    return std::strcmp(error.what(),
                       "vecdet::opencv::NMSBoxes: bboxes[1] is NaN or infinite, expected finite "
                       "numbers under -ffast-math") == 0 &&
           kept == std::vector<int>{7};
  }
  return false;
}

}  // namespace

int main() {
  std::mt19937 generator(3);
  const auto below = [&](unsigned bound) { return static_cast<int>(generator() % bound); };
  for (int round = 0; round < 300; ++round) {
    std::vector<cv::Rect> integers;
    std::vector<cv::Rect2d> doubles;
    std::vector<float> scores;
    const double scale = round % 2 == 0 ? 0.1 : 1.0 / 3;
    for (int i = 0; i < 100; ++i) {
      const cv::Rect r(below(40), below(40), below(25) - 2, below(25) - 2);
      integers.push_back(r);
      doubles.emplace_back(r.x * scale, r.y * scale, r.width * scale, r.height * scale);
      scores.push_back(static_cast<float>(below(30)) / 32);
    }
    for (const float threshold : {0.0f, 0.3f, 0.5f, 0.8f}) {
      for (const float eta : {1.0f, 0.9f}) {
        std::vector<int> theirs, ours;
        cv::dnn::NMSBoxes(integers, scores, 0.1f, threshold, theirs, eta);
        vecdet::opencv::NMSBoxes(integers, scores, 0.1f, threshold, ours, eta);
        check(ours == theirs, "integers");
        cv::dnn::NMSBoxes(doubles, scores, 0.1f, threshold, theirs, eta);
        vecdet::opencv::NMSBoxes(doubles, scores, 0.1f, threshold, ours, eta);
        check(ours == theirs, "doubles");
      }
      std::vector<int> theirs, ours;
      std::vector<float> their_scores, our_scores;
      cv::dnn::softNMSBoxes(integers, scores, their_scores, 0.1f, threshold, theirs);
      vecdet::opencv::softNMSBoxes(integers, scores, our_scores, 0.1f, threshold, ours);
      check(ours == theirs && our_scores.size() == their_scores.size() &&
                std::memcmp(our_scores.data(), their_scores.data(),
                            our_scores.size() * sizeof(float)) == 0,
            "soft");
    }
  }
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    check(is_refused(cv::Rect2d(bad, 0, 1, 1)), "NaN and infinity are refused");
    const auto angle = static_cast<float>(bad);
    check(is_refused(cv::RotatedRect({0, 0}, {1, 1}, angle)),
          "NaN and infinite angles are refused");
  }
  std::printf("%d failures\n", failures);
  return failures != 0;
}
