// SPDX-License-Identifier: Apache-2.0
// NMS of N x 6 detections, a format of YOLO's exporters and many files. Standard input has one
// detection per line: x1 y1 x2 y2 score class. Prints the kept rows, best first.
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

/// Parses all of `text`: std::stod also accepts "0.5x", and its error does not quote the text.
double threshold_of(const std::string& text) {
  std::istringstream stream(text);
  double threshold = 0;
  if (!(stream >> threshold) || !(stream >> std::ws).eof())
    throw std::invalid_argument("the IoU threshold is \"" + text + "\", expected a number");
  return threshold;
}

/// The framework whose results are reproduced: frameworks differ in thresholds, rounding and order.
vecdet::nms_params rule_of(const std::string& framework, double threshold) {
  if (framework == "torchvision") return vecdet::nms_params::torchvision(threshold);
  if (framework == "onnx") return vecdet::nms_params::onnx(threshold, vecdet::no_limit);
  if (framework == "mmcv") return vecdet::nms_params::mmcv(threshold);
  if (framework == "opencv") return vecdet::nms_params::opencv(threshold, 0.0);
  throw std::invalid_argument("\"" + framework +
                              "\" is unknown, expected torchvision, onnx, mmcv or opencv");
}

}  // namespace

int main(int argc, char** argv) try {
  const double threshold = argc > 1 ? threshold_of(argv[1]) : 0.5;
  const vecdet::nms_params rule = rule_of(argc > 2 ? argv[2] : "torchvision", threshold);

  std::vector<float> rows;
  for (float number; std::cin >> number;) rows.push_back(number);
  if (!std::cin.eof())
    throw std::runtime_error("after the first " + std::to_string(rows.size()) +
                             " numbers, expected another number");
  if (rows.size() % 6 != 0)
    throw std::runtime_error(std::to_string(rows.size()) +
                             " numbers, expected rows of x1 y1 x2 y2 score class");
  const auto count = static_cast<vecdet::index_t>(rows.size() / 6);
  const vecdet::matrix_view<const float> detections(rows.data(), count, 6);

  // One pass separates the columns; classes that are not integers are refused.
  std::vector<float> boxes(static_cast<std::size_t>(4 * count)), scores(boxes.size() / 4);
  std::vector<vecdet::index_t> classes(scores.size());
  vecdet::split_detections(detections, boxes, scores, classes);

  // Boxes of different classes do not suppress each other.
  const std::vector<vecdet::index_t> kept = vecdet::batched_nms(boxes, scores, classes, rule);
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
