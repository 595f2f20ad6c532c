// SPDX-License-Identifier: Apache-2.0
// From the raw outputs of a RetinaNet to its detections. The inputs are files written by
// numpy.save(...):
//   logits.npy   (anchors, classes)   float32, all levels concatenated, before the sigmoid
//   deltas.npy   (anchors, 4)         float32
// Other runtimes provide the same memory: for ONNX Runtime's Ort::Value it is
// GetTensorData<float>().
//
//   postprocess_npy logits.npy deltas.npy <image height> <image width>
#include <vecdet/vecdet.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// A two-dimensional float32 matrix in C order.
std::vector<float> load(const std::string& path, vecdet::index_t& rows, vecdet::index_t& columns) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin =
      bytes.find('\n') + 1;  // the header is a Python dictionary and a newline
  const std::string header = bytes.substr(0, begin);
  long long r = 0, c = 0;
  const std::size_t shape = header.find("'shape': (");
  if (shape == std::string::npos || header.find("'<f4'") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos ||
      std::sscanf(header.c_str() + shape, "'shape': (%lld, %lld)", &r, &c) != 2 || r < 0 || c < 0 ||
      bytes.size() - begin != static_cast<std::size_t>(r * c) * sizeof(float)) {
    throw std::runtime_error(path + ": expected a .npy file of float32, two dimensions, C order");
  }
  rows = r;
  columns = c;
  std::vector<float> values(static_cast<std::size_t>(r * c));
  bytes.copy(reinterpret_cast<char*>(values.data()), bytes.size() - begin, begin);
  return values;
}

/// Parses all of `text`: std::stoll also accepts "640x", and its error does not quote the text.
vecdet::index_t pixels_of(const std::string& side, const std::string& text) {
  std::istringstream stream(text);
  vecdet::index_t pixels = 0;
  if (!(stream >> pixels) || !(stream >> std::ws).eof() || pixels < 1)
    throw std::invalid_argument("the image " + side + " is \"" + text +
                                "\", expected a whole number of pixels");
  return pixels;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5)
    throw std::runtime_error("usage: postprocess_npy logits.npy deltas.npy height width");
  const vecdet::index_t height = pixels_of("height", argv[3]), width = pixels_of("width", argv[4]);
  vecdet::index_t anchors = 0, classes = 0, boxes = 0, four = 0;
  const std::vector<float> logits = load(argv[1], anchors, classes);
  const std::vector<float> deltas = load(argv[2], boxes, four);

  // The feature maps of a ResNet with a pyramid: strides 8 to 128, sizes rounded up.
  std::vector<vecdet::grid_size> features;
  std::vector<vecdet::index_t> level_sizes;
  for (vecdet::index_t stride = 8; stride <= 128; stride *= 2) {
    features.push_back({(height + stride - 1) / stride, (width + stride - 1) / stride});
    level_sizes.push_back(features.back().height * features.back().width * 9);
  }
  const auto shapes = vecdet::anchor_shapes::retinanet();
  std::vector<float> anchor_boxes(
      static_cast<std::size_t>(4 * vecdet::count_anchors(shapes, features)));
  vecdet::make_anchors(shapes, {height, width}, features, anchor_boxes);

  const vecdet::head_outputs<float> outputs{
      vecdet::matrix_view<const float>(logits.data(), anchors, classes), deltas};
  const std::vector<vecdet::image_size> images{
      vecdet::image_size::height_width(static_cast<double>(height), static_cast<double>(width))};
  vecdet::postprocess_workspace workspace;  // reuse it: it grows only once
  const vecdet::detections_view found =
      vecdet::postprocess(outputs, anchor_boxes, level_sizes, images,
                          vecdet::postprocess_params::retinanet(), workspace);
  for (vecdet::index_t i = 0; i < found.scores.size(); ++i) {
    std::printf("class %lld  score %.3f  box %.1f %.1f %.1f %.1f\n",
                static_cast<long long>(found.labels[i]), static_cast<double>(found.scores[i]),
                static_cast<double>(found.boxes(i, 0)), static_cast<double>(found.boxes(i, 1)),
                static_cast<double>(found.boxes(i, 2)), static_cast<double>(found.boxes(i, 3)));
  }
} catch (const std::exception& error) {  // vecdet's errors name sizes that do not fit
  std::cerr << error.what() << "\n";
  return 1;
}
