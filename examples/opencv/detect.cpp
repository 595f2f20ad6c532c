// SPDX-License-Identifier: Apache-2.0
// From a picture to drawn boxes with a YOLO model (YOLOv8 to v12 as ultralytics exports them) and
// OpenCV's network:
//
//   detect <model>.onnx <picture> <drawn picture>
//
// Prints each object's class, score, and x, y, width and height in pixels.
// examples/onnxruntime/stand_in.py writes a model and a picture to try.
#include <vecdet/letterbox.hpp>
#include <vecdet/opencv.hpp>
#include <vecdet/postprocess_yolo.hpp>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <opencv2/dnn.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

namespace {

constexpr int side = 640;  // of the model's input

void detect(const char* model, const char* picture, const char* drawn) {
  cv::dnn::Net net = cv::dnn::readNetFromONNX(model);
  cv::Mat pixels = cv::imread(picture);

  const vecdet::byte_image image = vecdet::opencv::image(pixels);
  cv::Mat input({1, 3, side, side}, CV_32F);
  vecdet::letterbox_workspace letterbox_workspace;
  const auto transforms =
      vecdet::letterbox({&image, 1}, {input.ptr<float>(), input.total()}, {side, side},
                        vecdet::letterbox_params::yolo(), letterbox_workspace);

  net.setInput(input);
  const cv::Mat output = net.forward();  // 1 x (4 + classes) x boxes

  vecdet::postprocess_workspace postprocess_workspace;
  const auto found = vecdet::postprocess_yolo(
      vecdet::yolo_outputs<float>{vecdet::opencv::matrix(output)}, transforms,
      vecdet::postprocess_yolo_params::v8(), postprocess_workspace);

  const std::vector<cv::Rect> boxes = vecdet::opencv::rectangles<int>(found.boxes);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto k = static_cast<vecdet::index_t>(i);
    const cv::Rect& box = boxes[i];
    std::printf("%d %.2f %d %d %d %d\n", static_cast<int>(found.labels[k]),
                static_cast<double>(found.scores[k]), box.x, box.y, box.width, box.height);
    cv::rectangle(pixels, box, cv::Scalar(0, 255, 255), 3);
    cv::putText(pixels, std::to_string(found.labels[k]), box.tl() + cv::Point(6, 18),
                cv::FONT_HERSHEY_SIMPLEX, 0.5, cv::Scalar(0, 255, 255));
  }
  if (!cv::imwrite(drawn, pixels)) throw std::runtime_error(std::string("cannot write ") + drawn);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: detect <model>.onnx <picture> <drawn picture>\n");
    return 2;
  }
  try {
    detect(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
