// SPDX-License-Identifier: Apache-2.0
// Detections of a box head against a step by step transcription of torchvision's
// postprocess_detections; and every documented error.
#include "support/exact_boxes.hpp"
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/box_head.hpp>
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/reference/nms.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

template <class T>
struct head_problem {
  index_t classes = 7;
  std::vector<index_t> offsets{0, 120, 120, 200};
  std::vector<image_size> sizes{image_size::height_width(150, 180),
                                image_size::height_width(100, 100),
                                image_size::height_width(170, 160)};
  std::vector<T> logits, deltas;
  std::vector<float> proposals = random_boxes<float>(200, 5, 200);
  box_head_params params;
  postprocess_workspace workspace;

  head_problem() {
    random_generator generator(3);
    for (index_t i = 0; i < 200 * classes; ++i) logits.push_back(to<T>(1.5 * generator.normal()));
    for (index_t i = 0; i < 4 * 200 * classes; ++i) deltas.push_back(to<T>(generator.normal()));
  }
  detections_view run(threading policy = threading::parallel) {
    const box_head_outputs<T> outputs{
        {logits.data(), static_cast<index_t>(logits.size()) / classes, classes}, deltas};
    return postprocess_box_head(outputs, boxes_view<const float>(proposals), offsets,
                                vector_view<const image_size>(sizes), params, workspace, policy);
  }
};

struct detection {
  double score;
  std::vector<float> box;
  index_t label;
};

/// For one image: all candidates, their boxes, NMS, the best.
template <class T>
std::vector<detection> expected_of(const head_problem<T>& p, std::size_t image) {
  std::vector<float> boxes, scores;
  std::vector<index_t> labels;
  std::vector<double> exact_scores;
  for (index_t row = p.offsets[image]; row < p.offsets[image + 1]; ++row) {
    const T* const x = p.logits.data() + row * p.classes;
    double sum = 0;
    for (index_t c = 0; c < p.classes; ++c) sum += std::exp(static_cast<double>(x[c]));
    for (index_t c = 1; c < p.classes; ++c) {
      const double score = std::exp(static_cast<double>(x[c])) / sum;
      if (!(score > p.params.score_threshold)) continue;
      const reference::box decoded = reference::clip_box(
          reference::decode_box(
              reference::load_box(boxes_view<const T>(p.deltas), row * p.classes + c),
              reference::load_box(boxes_view<const float>(p.proposals), row),
              weights_of(p.params.coder), as_reference(p.params.coder.clamp),
              p.params.coder.size_limit),
          p.sizes[image].width, p.sizes[image].height);
      if (decoded.width() < p.params.min_size || decoded.height() < p.params.min_size) continue;
      for (const double v : {decoded.x1, decoded.y1, decoded.x2, decoded.y2})
        boxes.push_back(static_cast<float>(v));
      scores.push_back(static_cast<float>(score));
      exact_scores.push_back(score);
      labels.push_back(c);
    }
  }
  std::vector<detection> out;
  for (const index_t i :
       reference::nms(boxes_view<const float>(boxes), vector_view<const float>(scores),
                      nms_params::torchvision(p.params.iou_threshold),
                      {vector_view<const index_t>(labels), {}})) {
    if (static_cast<index_t>(out.size()) == p.params.max_detections) break;
    const auto k = static_cast<std::size_t>(i);
    out.push_back({exact_scores[k],
                   {boxes.begin() + static_cast<std::ptrdiff_t>(4 * k),
                    boxes.begin() + static_cast<std::ptrdiff_t>(4 * k + 4)},
                   labels[k]});
  }
  return out;
}

template <class T>
void check_head(head_problem<T>& p) {
  for_each_isa([&](isa) {
    const detections_view result = p.run();
    REQUIRE(result.offsets.size() == 4);
    for (std::size_t image = 0; image < 3; ++image) {
      const auto expected = expected_of(p, image);
      const index_t first = result.offsets[static_cast<index_t>(image)];
      REQUIRE(result.offsets[static_cast<index_t>(image) + 1] - first ==
              static_cast<index_t>(expected.size()));
      CHECK(expected.empty() == (image == 1));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const index_t at = first + static_cast<index_t>(i);
        CHECK(result.labels[at] == expected[i].label);
        CHECK(static_cast<double>(result.scores[at]) ==
              doctest::Approx(expected[i].score).epsilon(2e-6));
        for (std::size_t k = 0; k < 4; ++k)
          CHECK(std::abs(result.boxes(at, static_cast<index_t>(k)) - expected[i].box[k]) < 2e-4f);
      }
    }
  });
}

}  // namespace

TEST_CASE_TEMPLATE("box head: torchvision's steps", T, float, bfloat16) {
  head_problem<T> p;
  check_head(p);
  p.params.max_detections = 12;
  p.params.score_threshold = 0.2;
  p.params.min_size = 25;
  check_head(p);
  p.params = {};
  p.params.coder = {};
  check_head(p);
  p.params.coder.clamp = size_clamp::both;
  p.params.coder.size_limit = 0.1;
  check_head(p);
}

TEST_CASE("box head: a NaN row gives nothing") {
  head_problem<float> p;
  for (index_t c = 0; c < p.classes; ++c)
    p.logits[static_cast<std::size_t>(3 * p.classes + c)] =
        c == 2 ? std::numeric_limits<float>::quiet_NaN() : 9.0f;
  const auto all = [&](const detections_view& d) {
    std::vector<float> bits(d.boxes.data(), d.boxes.data() + 4 * d.boxes.size());
    bits.insert(bits.end(), d.scores.begin(), d.scores.end());
    for (const index_t label : d.labels) bits.push_back(static_cast<float>(label));
    return bits;
  };
  const auto with_nan = all(p.run(threading::sequential));
  head_problem<float> background;  // the row's class
  background.logits[static_cast<std::size_t>(3 * p.classes)] = 100;
  CHECK(all(background.run()) == with_nan);
  head_problem<float> with_row;
  CHECK(all(with_row.run()) != with_nan);
}

TEST_CASE("box head: errors") {
  const auto fails = [](const char* message, const auto& spoil) {
    head_problem<float> p;
    spoil(p);
    const std::string whole = std::string("vecdet::postprocess_box_head: ") + message;
    CHECK_THROWS_WITH_AS(p.run(), doctest::Contains(whole.c_str()), std::invalid_argument);
  };
  using problem = head_problem<float>;
  fails("outputs.logits.rows() is 199, expected 200, the number of proposals",
        [](problem& p) { p.logits.resize(p.logits.size() - 7); });
  fails("outputs.deltas.size() is 1399, expected 1400, proposals x classes",
        [](problem& p) { p.deltas.resize(p.deltas.size() - 4); });
  fails("image_offsets.size() is 3, expected 4, the number of images + 1",
        [](problem& p) { p.offsets.pop_back(); });
  fails("image_offsets[2] is 119", [](problem& p) { p.offsets[2] = 119; });
  fails("image_offsets[0] is 1", [](problem& p) { p.offsets[0] = 1; });
  fails("image_offsets[3] is 199", [](problem& p) { p.offsets[3] = 199; });
  fails("image_sizes[1] is 0", [](problem& p) { p.sizes[1].width = 0; });
  fails("params.score_threshold is 2", [](problem& p) { p.params.score_threshold = 2; });
  fails("params.iou_threshold is -1", [](problem& p) { p.params.iou_threshold = -1; });
  fails("params.max_detections is -1", [](problem& p) { p.params.max_detections = -1; });
  fails("params.min_size is -1", [](problem& p) { p.params.min_size = -1; });
  fails("params.coder.weight_y is 0", [](problem& p) { p.params.coder.weight_y = 0; });
  fails("params.coder.size_limit is -1", [](problem& p) { p.params.coder.size_limit = -1; });
}
