// SPDX-License-Identifier: Apache-2.0
// Times vecdet's functions on OpenCV's types against OpenCV's own, on one thread, in turn, and
// checks that both have the same results:
//
//   nms_boxes     NMSBoxes of clustered rectangles
//   letterbox     a picture of 1920 x 1080 as a network's input of 640 x 640, against cv::resize,
//                 cv::copyMakeBorder and cv::dnn::blobFromImage
//   detect        everything in detect.cpp but the network and the files: the letterbox, and the
//                 detections in an output of 84 x 8400, against a loop over the boxes and NMSBoxes
//                 per class
#include <vecdet/keep_memory.hpp>
#include <vecdet/letterbox.hpp>
#include <vecdet/opencv.hpp>
#include <vecdet/postprocess_yolo.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>  // clock_gettime
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <opencv2/core.hpp>
#include <opencv2/dnn.hpp>
#include <opencv2/imgproc.hpp>

namespace {

constexpr int side = 640, boxes_in_output = 8400, classes = 80;
constexpr float score_threshold = 0.25f, iou_threshold = 0.45f;

std::mt19937 generator(1);
double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(generator);
}

struct detection {
  cv::Rect2d box;
  float score;
  int label;
};

bool is_before(const detection& a, const detection& b) {
  return std::tie(b.score, a.label, a.box.x, a.box.y) <
         std::tie(a.score, b.label, b.box.x, b.box.y);
}

/// The processor's time for a call on this thread.
template <class Call>
double microseconds(const Call& call) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  };
  const double start = now();
  call();
  return now() - start;
}

/// Runs both in turn and prints the medians.
template <class Theirs, class Ours>
void compare(const std::string& name, int rounds, const Theirs& theirs, const Ours& ours) {
  std::vector<double> times[2];
  for (int round = 0; round < rounds; ++round) {
    times[0].push_back(microseconds(theirs));
    times[1].push_back(microseconds(ours));
  }
  double medians[2];
  for (int k = 0; k < 2; ++k) {
    const auto middle = times[k].begin() + rounds / 2;
    std::nth_element(times[k].begin(), middle, times[k].end());
    medians[k] = *middle;
  }
  std::printf("%-16s %10.1f %10.1f %9.1f\n", name.c_str(), medians[0], medians[1],
              medians[0] / medians[1]);
}

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s: the results differ\n", what);
  std::exit(1);
}

/// About 20 rectangles around each object.
void compare_nms(int count) {
  std::vector<cv::Rect> objects, boxes;
  std::vector<float> scores;
  for (int i = 0; i <= count / 20; ++i)
    objects.emplace_back(cv::Point2d(uniform(0, 1800), uniform(0, 1000)),
                         cv::Size2d(uniform(16, 200), uniform(16, 200)));
  for (int i = 0; i < count; ++i) {
    cv::Rect box = objects[generator() % objects.size()];
    const int width = box.width, height = box.height;
    box.x += static_cast<int>(width * uniform(-0.15, 0.15));
    box.y += static_cast<int>(height * uniform(-0.15, 0.15));
    box.width += static_cast<int>(width * uniform(-0.15, 0.15));
    box.height += static_cast<int>(height * uniform(-0.15, 0.15));
    boxes.push_back(box);
    scores.push_back(static_cast<float>(uniform(score_threshold, 1)));
  }
  std::vector<int> theirs, ours;
  compare(
      "nms_boxes/" + std::to_string(count), 101,
      [&] { cv::dnn::NMSBoxes(boxes, scores, score_threshold, iou_threshold, theirs); },
      [&] { vecdet::opencv::NMSBoxes(boxes, scores, score_threshold, iou_threshold, ours); });
  check(ours == theirs, "nms_boxes");
}

/// The steps around the network with OpenCV's functions.
struct opencv_steps {
  cv::Mat input;
  double scale = 1;
  int left = 0, top = 0;

  void letterbox(const cv::Mat& picture) {
    scale = std::min(static_cast<double>(side) / picture.cols,
                     static_cast<double>(side) / picture.rows);
    const cv::Size size(cvRound(picture.cols * scale), cvRound(picture.rows * scale));
    left = cvRound((side - size.width) / 2.0 - 0.1);
    top = cvRound((side - size.height) / 2.0 - 0.1);
    cv::Mat resized, padded;
    cv::resize(picture, resized, size, 0, 0, cv::INTER_LINEAR);
    cv::copyMakeBorder(resized, padded, top, side - size.height - top, left,
                       side - size.width - left, cv::BORDER_CONSTANT, cv::Scalar::all(114));
    cv::dnn::blobFromImage(padded, input, 1 / 255.0, cv::Size(), cv::Scalar(), true);
  }

  std::vector<detection> detections(const cv::Mat& output) const {
    cv::Mat rows;
    cv::transpose(cv::Mat(classes + 4, boxes_in_output, CV_32F, output.data), rows);
    std::vector<std::vector<cv::Rect2d>> boxes(classes);
    std::vector<std::vector<float>> scores(classes);
    for (int i = 0; i < boxes_in_output; ++i) {
      const float* const row = rows.ptr<float>(i);
      const float* const best = std::max_element(row + 4, row + 4 + classes);
      if (!(*best > score_threshold)) continue;
      const auto label = static_cast<std::size_t>(best - row - 4);
      boxes[label].emplace_back(row[0] - row[2] / 2, row[1] - row[3] / 2, row[2], row[3]);
      scores[label].push_back(*best);
    }
    std::vector<detection> found;
    std::vector<int> kept;
    for (std::size_t label = 0; label < classes; ++label) {
      cv::dnn::NMSBoxes(boxes[label], scores[label], score_threshold, iou_threshold, kept);
      for (const int i : kept) {
        const cv::Rect2d& box = boxes[label][static_cast<std::size_t>(i)];
        found.push_back(
            {{(box.x - left) / scale, (box.y - top) / scale, box.width / scale, box.height / scale},
             scores[label][static_cast<std::size_t>(i)],
             static_cast<int>(label)});
      }
    }
    return found;
  }
};

/// The same with vecdet's.
struct vecdet_steps {
  cv::Mat input{std::vector<int>{1, 3, side, side}, CV_32F};
  vecdet::letterbox_workspace letterbox_workspace;
  vecdet::postprocess_workspace postprocess_workspace;
  vecdet::vector_view<const vecdet::letterbox_transform> transforms;

  void letterbox(const cv::Mat& picture) {
    const vecdet::byte_image image = vecdet::opencv::image(picture);
    transforms = vecdet::letterbox({&image, 1}, {input.ptr<float>(), input.total()}, {side, side},
                                   vecdet::letterbox_params::yolo(), letterbox_workspace,
                                   vecdet::threading::sequential);
  }

  std::vector<detection> detections(const cv::Mat& output) {
    auto params = vecdet::postprocess_yolo_params::v8();
    params.iou_threshold = static_cast<double>(iou_threshold);
    const auto found = vecdet::postprocess_yolo(
        vecdet::yolo_outputs<float>{vecdet::opencv::matrix(output)}, transforms, params,
        postprocess_workspace, vecdet::threading::sequential);
    const std::vector<cv::Rect2d> boxes = vecdet::opencv::rectangles<double>(found.boxes);
    std::vector<detection> detections;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const auto k = static_cast<vecdet::index_t>(i);
      detections.push_back({boxes[i], found.scores[k], static_cast<int>(found.labels[k])});
    }
    return detections;
  }
};

/// An output with 30 objects, each found by 20 boxes.
cv::Mat output_of_network() {
  cv::Mat output(std::vector<int>{1, classes + 4, boxes_in_output}, CV_32F);
  const auto number = [&](int k, int box) -> float& { return output.ptr<float>(0, k)[box]; };
  for (int i = 0; i < boxes_in_output; ++i) {
    for (int k = 0; k < 4; ++k) number(k, i) = static_cast<float>(uniform(20, 620));
    for (int k = 4; k < classes + 4; ++k) number(k, i) = static_cast<float>(uniform(0, 0.01));
  }
  for (int object = 0; object < 30; ++object) {
    const double centre[] = {uniform(50, 590), uniform(190, 450), uniform(10, 60), uniform(10, 60)};
    const int label = static_cast<int>(generator() % classes);
    for (int box = 0; box < 20; ++box) {
      const int i = static_cast<int>(generator() % boxes_in_output);
      for (int k = 0; k < 4; ++k)
        number(k, i) = static_cast<float>(centre[k] + centre[k % 2 + 2] * uniform(-0.1, 0.1));
      number(4 + label, i) = static_cast<float>(uniform(0.3, 1));
    }
  }
  return output;
}

void check_detections(std::vector<detection> theirs, std::vector<detection> ours) {
  check(theirs.size() == ours.size(), "detect");
  std::sort(theirs.begin(), theirs.end(), is_before);
  std::sort(ours.begin(), ours.end(), is_before);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const cv::Rect2d &a = theirs[i].box, &b = ours[i].box;
    check(theirs[i].label == ours[i].label && !(theirs[i].score < ours[i].score) &&
              std::abs(a.x - b.x) < 1e-2 && std::abs(a.y - b.y) < 1e-2 &&
              std::abs(a.width - b.width) < 1e-2 && std::abs(a.height - b.height) < 1e-2,
          "detect");
  }
}

}  // namespace

int main() {
  cv::setNumThreads(1);
  vecdet::keep_memory();
  std::printf("OpenCV %s\n%-16s %10s %10s %9s\n", CV_VERSION, "microseconds", "OpenCV", "vecdet",
              "times");
  for (const int count : {1000, 5000, 8400}) compare_nms(count);

  cv::Mat picture(1080, 1920, CV_8UC3);
  cv::randu(picture, 0, 256);
  cv::GaussianBlur(picture, picture, cv::Size(5, 5), 0);
  const cv::Mat output = output_of_network();
  opencv_steps theirs;
  vecdet_steps ours;
  compare(
      "letterbox", 101, [&] { theirs.letterbox(picture); }, [&] { ours.letterbox(picture); });
  check(cv::norm(theirs.input.reshape(1, 1), ours.input.reshape(1, 1), cv::NORM_INF) < 1e-6,
        "letterbox");

  std::vector<detection> their_detections, our_detections;
  compare(
      "detect", 101,
      [&] {
        theirs.letterbox(picture);
        their_detections = theirs.detections(output);
      },
      [&] {
        ours.letterbox(picture);
        our_detections = ours.detections(output);
      });
  check_detections(their_detections, our_detections);
}
