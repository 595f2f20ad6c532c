// SPDX-License-Identifier: Apache-2.0
// Data of the benchmarks: counts, known anchors, statistics, and identical numbers everywhere.
#include "../bench/support/coco_scene.hpp"
#include "../bench/support/scene.hpp"
#include "support/data.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;

namespace {

/// FNV-1a of the elements' bytes.
template <class T>
std::uint64_t hash(const std::vector<T>& values) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const T& value : values) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    for (const unsigned char byte : bytes) h = (h ^ byte) * 0x100000001b3u;
  }
  return h;
}

std::vector<float> box_at(const std::vector<float>& boxes, std::ptrdiff_t i) {
  return {boxes.begin() + 4 * i, boxes.begin() + 4 * i + 4};
}

using floats = std::vector<float>;

}  // namespace

TEST_CASE("scene: RetinaNet's anchors") {
  const floats anchors = bench::retinanet_anchors();
  CHECK(anchors.size() == 4 * 120087);
  CHECK(box_at(anchors, 0) == floats{-23, -11, 23, 11});
  CHECK(box_at(anchors, 3) == floats{-16, -16, 16, 16});
  CHECK(box_at(anchors, 9) == floats{-15, -11, 31, 11});
  // The last cell of the coarsest level, torchvision's stride 800 / 7 = 114, size 512 * 2^(2/3).
  CHECK(box_at(anchors, 120086) == floats{684 - 287, 684 - 574, 684 + 287, 684 + 574});
}

TEST_CASE("scene: SSD300's priors") {
  const floats priors = bench::ssd300_priors();
  CHECK(priors.size() == 4 * 8732);
  CHECK(box_at(priors, 0) == floats{4, 4, 21, 21});
  CHECK(box_at(priors, 8731) == floats{150, 150, static_cast<float>(261 / std::sqrt(2.0)),
                                       static_cast<float>(261 * std::sqrt(2.0))});
  CHECK(box_at(bench::corners_of_centres(priors), 0) == floats{-6.5f, -6.5f, 14.5f, 14.5f});
}

TEST_CASE("scene: the built-in picture") {
  const bench::picture picture = bench::built_in_picture();
  CHECK(picture.size() == 8);
  const bench::assignment assigned = bench::assign(bench::retinanet_anchors(), picture, 91);
  MESSAGE("foreground of the built-in picture: " << assigned.foreground);
  CHECK(assigned.foreground > 50);
  CHECK(assigned.foreground < 500);
  for (const float coordinate : picture.boxes) CHECK((coordinate >= 0 && coordinate <= 800));
}

TEST_CASE("scene: a picture from a COCO file") {
  const std::string file = "coco100/instances_val2014_100.json";
  if (!test::has_data(file, "scene: a picture of a COCO file")) return;
  const bench::picture picture = bench::typical_picture(test::data_path(file));
  CHECK(picture.size() == 8);
  CHECK(std::fmax(picture.width, picture.height) == 800);
  const bench::assignment assigned = bench::assign(bench::retinanet_anchors(), picture, 91);
  MESSAGE("foreground of a real picture: " << assigned.foreground);
  CHECK(assigned.foreground > 20);
}

TEST_CASE("scene: head outputs and detections") {
  const std::vector<index_t> labels = {-1, 3, -2, -1};
  const auto logits = bench::head_logits<float>(labels, 1000);
  double sum = 0;
  for (const float logit : logits) sum += static_cast<double>(logit);
  CHECK(sum / static_cast<double>(logits.size()) == doctest::Approx(-4.595).epsilon(0.02));

  const bench::detections clustered = bench::clustered_detections(5000);
  CHECK(clustered.boxes.size() == 20000);
  CHECK(clustered.scores.size() == 5000);
  for (std::size_t i = 0; i < clustered.scores.size(); ++i) {
    CHECK((clustered.scores[i] > 0 && clustered.scores[i] < 1));
    CHECK(clustered.boxes[4 * i] <= clustered.boxes[4 * i + 2]);
    CHECK((clustered.classes[i] >= 0 && clustered.classes[i] < 91));
  }
}

TEST_CASE("scene: the same numbers with every compiler") {
  CHECK(hash(bench::retinanet_anchors()) == 0x1c7507bbb5b1ec85u);
  CHECK(hash(bench::ssd300_priors()) == 0xe711d5ba0a2a34a1u);
  CHECK(hash(bench::built_in_picture().boxes) == 0x183f49eee89082efu);
  CHECK(hash(bench::head_logits<float>({-1, 5, 90, -2}, 91)) == 0xfc9b561cbf562797u);
  CHECK(hash(bench::head_logits<bfloat16>({-1, 5, 90, -2}, 91)) == 0x80656c5e6815d880u);
  CHECK(hash(bench::head_deltas<float>(100)) == 0x413eba034ef40c2fu);
  const bench::detections clustered = bench::clustered_detections(20000);
  CHECK(hash(clustered.boxes) == 0x599f31d94ccc39adu);
  CHECK(hash(clustered.scores) == 0xe1c1a90a6afbcb1cu);
  CHECK(hash(clustered.classes) == 0xf63be706989cfaebu);
}
