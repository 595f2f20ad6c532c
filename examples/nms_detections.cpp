// SPDX-License-Identifier: Apache-2.0
// NMS of N x 6 detections, as YOLO's exporters and many files have them: a line each of standard
// input, x1 y1 x2 y2 score class. Prints the rows that are kept, best first.
//
//   nms_detections [IoU threshold] [torchvision | onnx | mmcv | opencv] < detections.txt
#include <vecdet/vecdet.hpp>

#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// All of `text`: std::stod takes "0.5x" as well, and does not name what it refuses.
double threshold_of(const std::string& text) {
  std::istringstream stream(text);
  double threshold = 0;
  if (!(stream >> threshold) || !(stream >> std::ws).eof())
    throw std::invalid_argument("the IoU threshold is \"" + text + "\", expected a number");
  return threshold;
}

/// Whose results are wanted: frameworks differ in thresholds, rounding and order.
vecdet::nms_params rule_of(const std::string& framework, double threshold) {
  if (framework == "torchvision") return vecdet::nms_params::torchvision(threshold);
  if (framework == "onnx") return vecdet::nms_params::onnx(threshold, vecdet::no_limit);
  if (framework == "mmcv") return vecdet::nms_params::mmcv(threshold);
  if (framework == "opencv") return vecdet::nms_params::opencv(threshold, 0.0);
  throw std::invalid_argument("\"" + framework +
                              "\" is none of torchvision, onnx, mmcv and opencv");
}

}  // namespace

int main(int argc, char** argv) try {
  const double threshold = argc > 1 ? threshold_of(argv[1]) : 0.5;
  const vecdet::nms_params rule = rule_of(argc > 2 ? argv[2] : "torchvision", threshold);

  std::vector<float> rows;
  for (float number; std::cin >> number;) rows.push_back(number);
  if (!std::cin.eof())
    throw std::runtime_error("what follows the first " + std::to_string(rows.size()) +
                             " numbers is none");
  if (rows.size() % 6 != 0)
    throw std::runtime_error(std::to_string(rows.size()) +
                             " numbers, expected rows of x1 y1 x2 y2 score class");
  const auto count = static_cast<vecdet::index_t>(rows.size() / 6);
  const vecdet::matrix_view<const float> detections(rows.data(), count, 6);

  // One pass takes the columns apart; classes that are no integers are refused.
  std::vector<float> boxes(static_cast<std::size_t>(4 * count)), scores(boxes.size() / 4);
  std::vector<vecdet::index_t> classes(scores.size());
  vecdet::split_detections(detections, boxes, scores, classes);

  vecdet::nms_groups groups;
  groups.classes = classes;  // boxes of different classes do not suppress each other
  vecdet::nms_workspace workspace;
  const auto kept =
      vecdet::batched_nms(vecdet::boxes_view<const float>(boxes),
                          vecdet::vector_view<const float>(scores), groups, rule, workspace);
  for (const vecdet::index_t i : kept) {
    for (vecdet::index_t k = 0; k < 6; ++k)
      std::printf("%g%c", static_cast<double>(detections(i, k)), k < 5 ? ' ' : '\n');
  }
  std::fprintf(stderr, "%lld of %lld kept\n", static_cast<long long>(kept.size()),
               static_cast<long long>(count));
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
