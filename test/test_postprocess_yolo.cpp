// SPDX-License-Identifier: Apache-2.0
// Raw outputs of YOLO models, bit-identical to the scalar reference, in every layout and with every
// option; a case computed by hand; special scores; and every documented error.
#include "support/class_lists.hpp"
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/box_ops.hpp>
#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/reference/postprocess_yolo.hpp>
#include <vecdet/rotated_boxes.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

const image_size square = image_size::height_width(640, 640);

struct raw_output {
  index_t images, boxes, numbers;
  std::vector<std::vector<std::vector<float>>> rows;  ///< of each image and box
  std::vector<letterbox_transform> transforms;

  /// About `share` of the boxes have a score above 0.25.
  raw_output(index_t image_count, index_t box_count, index_t classes,
             const postprocess_yolo_params& params, double share, std::uint64_t seed)
      : images(image_count), boxes(box_count) {
    random_generator generator(seed);
    const bool is_scored = params.scores == yolo_scores::score_and_class;
    const bool has_objectness = params.scores == yolo_scores::objectness;
    numbers = 4 + (is_scored ? 2 : has_objectness + classes) + (params.rotated ? 1 : params.extras);
    for (index_t i = 0; i < images; ++i) {
      rows.emplace_back();
      for (index_t b = 0; b < boxes; ++b) {
        std::vector<float> row;
        const double x = generator.uniform(0, 600), y = generator.uniform(0, 600);
        const double w = generator.uniform(20, 120), h = generator.uniform(20, 120);
        const bool is_object = generator.chance(share);
        for (const double number : {x, y, params.model_format == box_format::xyxy ? x + w : w,
                                    params.model_format == box_format::xyxy ? y + h : h})
          row.push_back(static_cast<float>(number));
        // Sixteenths, so that many scores are equal.
        const auto score = [&] {
          const double s = is_object ? generator.uniform(0.2, 1) : generator.uniform(0, 0.24);
          return static_cast<float>(generator.chance(0.5) ? std::floor(s * 16) / 16 : s);
        };
        if (has_objectness) row.push_back(score());
        if (is_scored) {
          row.push_back(score());
          row.push_back(static_cast<float>(generator.below(classes)));
        }
        for (index_t c = 0; c < classes && !is_scored; ++c)
          row.push_back(generator.chance(3.0 / static_cast<double>(classes)) ? score() : 0.125f);
        for (index_t k = 0; k < params.extras; ++k)
          row.push_back(static_cast<float>(generator.uniform(0, 640)));
        if (params.rotated) row.push_back(static_cast<float>(generator.uniform(-4, 7)));
        rows.back().push_back(row);
      }
      transforms.push_back(letterbox_transform::centred(
          image_size::height_width(generator.uniform(100, 2000), generator.uniform(100, 2000)),
          square));
    }
  }

  /// The tensor in a layout, with rows `gap` numbers apart.
  template <class T>
  std::vector<T> tensor(yolo_layout layout, index_t gap = 0) const {
    const bool by_rows = layout == yolo_layout::rows;
    const index_t rows_per_image = by_rows ? boxes : numbers, cols = by_rows ? numbers : boxes;
    std::vector<T> t(static_cast<std::size_t>(images * rows_per_image * (cols + gap)), to<T>(7));
    for (index_t i = 0; i < images; ++i)
      for (index_t b = 0; b < boxes; ++b)
        for (index_t k = 0; k < numbers; ++k)
          t[static_cast<std::size_t>((i * rows_per_image + (by_rows ? b : k)) * (cols + gap) +
                                     (by_rows ? k : b))] =
              to<T>(static_cast<double>(rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(
                  b)][static_cast<std::size_t>(k)]));
    return t;
  }
  template <class T>
  yolo_outputs<T> outputs(const std::vector<T>& tensor, yolo_layout layout, index_t gap = 0) const {
    const bool by_rows = layout == yolo_layout::rows;
    const index_t cols = by_rows ? numbers : boxes;
    return {
        matrix_view<const T>(tensor.data(), images * (by_rows ? boxes : numbers), cols, cols + gap),
        images};
  }
};

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void check_equal(const raw_output& raw, const detections_view& found,
                 const postprocess_yolo_params& params, bool is_moved) {
  REQUIRE(found.offsets.size() == raw.images + 1);
  const bool has_corners = params.rotated_result_format == rotated_format::xyxyxyxy;
  const index_t extras = params.rotated ? has_corners ? 8 : 5 : params.extras;
  REQUIRE(found.extras.cols() == extras);
  for (index_t i = 0; i < raw.images; ++i) {
    const auto image = static_cast<std::size_t>(i);
    const auto expected = reference::postprocess_yolo(
        raw.rows[image], is_moved ? &raw.transforms[image] : nullptr, params);
    REQUIRE(found.offsets[i + 1] - found.offsets[i] == static_cast<index_t>(expected.size()));
    bool same = true;
    for (std::size_t d = 0; d < expected.size(); ++d) {
      const index_t at = found.offsets[i] + static_cast<index_t>(d);
      same = same && found.labels[at] == expected[d].label &&
             found.sources[at] == expected[d].source &&
             same_bits(found.scores[at], expected[d].score);
      std::vector<float> box(expected[d].box, expected[d].box + 4), extra = expected[d].extras;
      if (params.rotated) {
        const matrix_view<const float> turned(expected[d].extras.data(), 1, 5);
        const auto convert = [&](rotated_format to, std::vector<float>& out) {
          convert_rotated_boxes(
              turned, rotated_format::cxcywhr, to, angle_convention::ultralytics,
              matrix_view<float>(out.data(), 1, static_cast<index_t>(out.size())));
        };
        convert(rotated_format::xyxy, box);
        convert_boxes(boxes_view<const float>(box), box_format::xyxy, params.result_format, box);
        if (has_corners) {
          extra.resize(8);
          convert(rotated_format::xyxyxyxy, extra);
        }
      }
      for (int k = 0; k < 4; ++k)
        same = same && same_bits(found.boxes(at, k), box[static_cast<std::size_t>(k)]);
      for (index_t k = 0; k < extras; ++k)
        same = same && same_bits(found.extras(at, k), extra[static_cast<std::size_t>(k)]);
    }
    CHECK(same);
  }
}

void check_model(const postprocess_yolo_params& params, index_t images, index_t boxes,
                 index_t classes, double share, std::uint64_t seed) {
  CAPTURE(boxes);
  CAPTURE(classes);
  const raw_output raw(images, boxes, classes, params, share, seed);
  postprocess_workspace workspace;
  for_each_isa([&](isa) {
    for (const index_t gap : {0, 3}) {
      const auto tensor = raw.tensor<float>(params.layout, gap);
      for (const threading policy : {threading::sequential, threading::parallel}) {
        const bool is_moved = gap == 0;
        check_equal(
            raw,
            postprocess_yolo(raw.outputs(tensor, params.layout, gap),
                             is_moved ? vector_view<const letterbox_transform>(raw.transforms)
                                      : vector_view<const letterbox_transform>(),
                             params, workspace, policy),
            params, is_moved);
      }
    }
  });
}

/// Every preset, for outputs without extras.
std::vector<postprocess_yolo_params> all_models() {
  std::vector<postprocess_yolo_params> models{
      postprocess_yolo_params::v5(), postprocess_yolo_params::v8(), postprocess_yolo_params::v10(),
      postprocess_yolo_params::rt_detr()};
  for (auto& params : models) params.extras = 0;
  return models;
}

}  // namespace

TEST_CASE("postprocess_yolo: every model is bit-identical to the reference") {
  std::uint64_t seed = 1;
  for (const auto& params : all_models()) {
    for (const index_t boxes : {0, 1, 15, 16, 17, 63, 64, 65, 130, 300})
      check_model(params, 2, boxes, 7, 0.4, ++seed);
    for (const index_t classes : {1, 2, 16, 33, 80})
      check_model(params, 3, 200, classes, 0.3, ++seed);
    check_model(params, 1, 9000, 3, 0.05, ++seed);
  }
}

TEST_CASE("postprocess_yolo: options") {
  std::uint64_t seed = 100;
  for (auto params : all_models()) {
    if (params.scores != yolo_scores::score_and_class) {
      params.multi_label = true;
      check_model(params, 2, 300, 20, 0.4, ++seed);
      check_model(params, 1, 9000, 20, 0.1, ++seed);
      params.max_candidates = 100;
      check_model(params, 2, 3000, 20, 0.5, ++seed);
    }
    params.class_agnostic = true;
    params.result_format = box_format::xywh;
    params.iou_threshold = 0.3;
    check_model(params, 2, 300, 5, 0.4, ++seed);
    params.multi_label = false;
    params.result_format = box_format::cxcywh;
    params.max_candidates = 70;
    params.max_detections = 20;
    check_model(params, 2, 12000, 5, 0.9, ++seed);
    params.score_threshold = 0;
    params.extras = 32;
    check_model(params, 2, 200, 5, 0.4, ++seed);
    params.extras = 51;
    params.keypoint_size = 3;
    check_model(params, 2, 200, 1, 0.4, ++seed);
    params.extras = 8;
    params.keypoint_size = 2;
    check_model(params, 1, 200, 3, 0.4, ++seed);
    params.model_format = box_format::xywh;
    check_model(params, 1, 200, 3, 0.4, ++seed);
    params.max_candidates = 0;
    check_model(params, 2, 200, 3, 0.4, ++seed);
  }
}

TEST_CASE("postprocess_yolo: rotated boxes equal the reference") {
  std::uint64_t seed = 700;
  for (auto params : {postprocess_yolo_params::v8_obb(), postprocess_yolo_params::v26_obb()}) {
    for (const index_t boxes : {0, 1, 17, 130, 400}) check_model(params, 2, boxes, 15, 0.4, ++seed);
    check_model(params, 1, 9000, 3, 0.05, ++seed);
    params.extras = 0;
    params.rotated_result_format = rotated_format::xyxyxyxy;
    params.result_format = box_format::xywh;
    params.suppress = true;
    params.iou_threshold = 0.3;
    params.max_detections = 20;
    check_model(params, 2, 300, 3, 0.4, ++seed);
    params.rotated_result_format = rotated_format::cxcywhr;
    params.class_agnostic = true;
    params.multi_label = params.scores == yolo_scores::classes;
    check_model(params, 2, 300, 15, 0.6, ++seed);
    params.class_agnostic = false;
    const std::vector<index_t> wanted{0, 2}, groups{4, 1, 4};
    params.classes = wanted;
    params.class_groups = groups;
    check_model(params, 2, 300, 3, 0.6, ++seed);
  }
}

TEST_CASE("postprocess_yolo: rotated boxes by hand; wrong presets") {
  // Two classes; boxes 1 and 2 overlap, and box 2 is of the other class.
  std::vector<float> tensor{100, 200, 202, 100, 300, 300, 40,  40,     40, 20, 20,
                            20,  .9f, .8f, 0,   0,   0,   .7f, -0.25f, 2,  2};
  const yolo_outputs<float> outputs{matrix_view<const float>(tensor.data(), 7, 3), 1};
  const std::vector<letterbox_transform> transforms{
      {0.5, 0.5, 10, 20, image_size::height_width(900, 900)}};
  postprocess_workspace workspace;
  auto params = postprocess_yolo_params::v8_obb();
  params.class_count = 2;
  for_each_isa([&](isa) {
    const auto found = postprocess_yolo(outputs, transforms, params, workspace);
    REQUIRE(found.scores.size() == 3);
    REQUIRE(found.extras.cols() == 5);
    // pi - 0.25 is in the second half, and 2 is, too: sides are exchanged.
    CHECK(found.extras(0, 0) == 180);
    CHECK(found.extras(0, 1) == 160);
    CHECK(found.extras(0, 2) == 40);
    CHECK(found.extras(0, 3) == 80);
    CHECK(found.extras(0, 4) == doctest::Approx(1.5707963 - 0.25));
    CHECK(found.extras(1, 4) == doctest::Approx(2 - 1.5707963));
    const double c = std::cos(0.25), s = std::sin(0.25);
    CHECK(found.boxes(0, 0) == doctest::Approx(180 - (80 * c + 40 * s) / 2));
    CHECK(found.boxes(0, 3) == doctest::Approx(160 + (80 * s + 40 * c) / 2));
    params.class_agnostic = true;
    CHECK(postprocess_yolo(outputs, transforms, params, workspace).scores.size() == 2);
    params.class_agnostic = false;
  });
  const auto fails = [&](const postprocess_yolo_params& wrong, const char* message) {
    CHECK_THROWS_WITH_AS(postprocess_yolo(outputs, transforms, wrong, workspace),
                         doctest::Contains(message), std::invalid_argument);
  };
  // The angle is no score.
  fails(postprocess_yolo_params::v8(),
        "number 6 of box 0 of image 0 of outputs.boxes_and_scores is -0.25");
  fails(postprocess_yolo_params::v8(), "for angles, use the preset of rotated boxes, v8_obb()");
  tensor[12] = 1.5f;
  fails(postprocess_yolo_params::v8_obb(), "is it one of masks or key points");
  tensor[12] = .9f;
  const std::vector<float> ends(3 * 7);
  CHECK_THROWS_WITH_AS(
      postprocess_yolo(yolo_outputs<float>{{ends.data(), 3, 7}, 1}, {},
                       postprocess_yolo_params::v10(), workspace),
      doctest::Contains("outputs.boxes_and_scores.cols() is 7, expected 6 if rotated boxes, "
                        "whose preset is v26_obb(), are not meant"),
      std::invalid_argument);
  fails(postprocess_yolo_params::v26_obb(),
        "outputs.boxes_and_scores.cols() is 3, expected 4 + score + class + angle");
  params.class_count = 3;
  fails(params, "params.class_count is 3, expected 2");
  params = postprocess_yolo_params::v8_obb();
  params.extras = 1;
  fails(params, "params.extras is 1, expected 0 if params.rotated is set");
  params = postprocess_yolo_params::v8_obb();
  params.keypoint_size = 2;
  fails(params, "params.keypoint_size is 2");
  params = postprocess_yolo_params::v8_obb();
  params.normalised = true;
  fails(params, "params.normalised is true, expected false if params.rotated is set");
  params = postprocess_yolo_params::v8_obb();
  params.model_format = box_format::xyxy;
  fails(params, "params.model_format is 0, expected cxcywh if params.rotated is set");
  params = postprocess_yolo_params::v8_obb();
  params.rotated_result_format = rotated_format::xyxy;
  fails(params, "params.rotated_result_format is 3, expected cxcywhr or xyxyxyxy");
  params = postprocess_yolo_params::v8_obb();
  const std::vector<letterbox_transform> uneven{{1, 2, 0, 0, square}};
  CHECK_THROWS_WITH_AS(postprocess_yolo(outputs, uneven, params, workspace),
                       doctest::Contains("transforms[0] is 2, expected the same scale"),
                       std::invalid_argument);
}

TEST_CASE("postprocess_yolo: wanted classes, thresholds and groups of classes") {
  random_generator generator(500);
  for (auto params : all_models()) {
    for (int k = 0; k < 12; ++k) {
      for (const index_t classes : {1, 9, 40}) {
        const class_lists lists(0, classes, generator);
        lists.give(params);
        params.suppress = true;
        params.iou_threshold = 0.4;
        params.multi_label = params.scores != yolo_scores::score_and_class && generator.chance(0.4);
        params.max_candidates = generator.chance(0.3) ? 40 : 30000;
        check_model(params, 2, 400, classes, 0.4, 500 + static_cast<std::uint64_t>(k));
      }
    }
    // More candidates than the memory holds at once.
    const class_lists lists(0, 5, generator);
    lists.give(params);
    params.score_threshold = 0.01;
    params.max_candidates = 60;
    check_model(params, 1, 12000, 5, 0.9, 600);
  }
}

TEST_CASE("postprocess_yolo: options per class by hand") {
  // Three classes and four boxes in the same place. Classes 0 and 1 form a group.
  const std::vector<float> output{
      100, 101, 100, 101,  // cx
      100, 100, 100, 100,  // cy
      50,  50,  50,  50,   // w
      50,  50,  50,  50,   // h
      .9f, .1f, .1f, .3f,  // class 0
      .1f, .8f, .1f, .4f,  // class 1
      .1f, .1f, .7f, .1f   // class 2
  };
  const std::vector<index_t> groups{4, 4, -1}, wanted{2, 1, 2};
  const std::vector<double> thresholds{.95, .5, .75};
  postprocess_workspace workspace;
  const auto labels = [&](const postprocess_yolo_params& params) {
    const auto found =
        postprocess_yolo(yolo_outputs<float>{{output.data(), 7, 4}, 1}, {}, params, workspace);
    return std::vector<index_t>(found.labels.begin(), found.labels.end());
  };
  auto params = postprocess_yolo_params::v8();
  CHECK(labels(params) == std::vector<index_t>{0, 1, 2});
  params.class_groups = groups;
  CHECK(labels(params) == std::vector<index_t>{0, 2});
  params.class_groups = {};
  params.classes = wanted;
  CHECK(labels(params) == std::vector<index_t>{1, 2});
  params.class_thresholds = thresholds;
  CHECK(labels(params) == std::vector<index_t>{1});
}

TEST_CASE("postprocess_yolo: a number that is no probability in a class that is not wanted") {
  std::vector<float> output{8, 8, 2, 2, .9f, .1f};  // one box, two classes
  const std::vector<index_t> wanted{0};
  auto params = postprocess_yolo_params::v8();
  params.classes = wanted;
  postprocess_workspace workspace;
  const auto call = [&] {
    return postprocess_yolo(yolo_outputs<float>{{output.data(), 6, 1}, 1}, {}, params, workspace);
  };
  for (const bool is_multi : {false, true}) {
    params.multi_label = is_multi;
    output[5] = .1f;
    CHECK(call().labels.size() == 1);
    output[5] = 105;
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("number 5 of box 0 of image 0"),
                         std::invalid_argument);
  }
}

TEST_CASE("postprocess_yolo: lists and an output without elements, but with many columns") {
  const std::vector<index_t> wanted{0};
  auto params = postprocess_yolo_params::v10();
  params.scores = yolo_scores::classes;
  params.classes = wanted;
  postprocess_workspace workspace;
  const matrix_view<const float> nothing(nullptr, 0, index_t{1} << 42);
  CHECK(postprocess_yolo(yolo_outputs<float>{nothing, 0}, {}, params, workspace).labels.empty());
}

TEST_CASE("postprocess_yolo: a class that is in no list of a model without a number of classes") {
  const std::vector<float> output{0, 0, 9, 9, .9f, 1, 20, 20, 29, 29, .8f, 2, 0, 0, 5, 5, .1f, 7};
  const std::vector<double> thresholds{.5, .6};
  const std::vector<index_t> groups{1, 1}, wanted{1};
  postprocess_workspace workspace;
  const auto call = [&](const postprocess_yolo_params& params) {
    return postprocess_yolo(yolo_outputs<float>{{output.data(), 3, 6}, 1}, {}, params, workspace);
  };
  for (const bool by_group : {false, true}) {
    auto params = postprocess_yolo_params::v10();
    params.suppress = by_group;
    if (by_group)
      params.class_groups = groups;
    else
      params.class_thresholds = thresholds;
    CHECK_THROWS_WITH_AS(call(params),
                         doctest::Contains("the class of box 1 of image 0 is 2, expected "),
                         std::invalid_argument);
    params.classes = wanted;  // others do not matter
    REQUIRE(call(params).labels.size() == 1);
    CHECK(call(params).labels[0] == 1);
  }
}

TEST_CASE("postprocess_yolo: rows of per-class scores, as in a transposed YOLOv8 output") {
  postprocess_yolo_params rows = postprocess_yolo_params::v8();
  rows.extras = 0;
  rows.layout = yolo_layout::rows;
  check_model(rows, 2, 500, 80, 0.3, 7);
}

TEST_CASE("postprocess_yolo: bfloat16 equals the same numbers in float") {
  for (auto params : all_models()) {
    params.extras = 3;
    raw_output raw(2, 400, 9, params, 0.3, 11);
    for (auto& image : raw.rows)
      for (auto& row : image)
        for (float& x : row) x = static_cast<float>(to<bfloat16>(static_cast<double>(x)));
    for (const bool is_multi : {false, true}) {
      params.multi_label = is_multi && params.scores != yolo_scores::score_and_class;
      const auto tensor = raw.tensor<bfloat16>(params.layout);
      postprocess_workspace workspace;
      for_each_isa([&](isa) {
        check_equal(
            raw,
            postprocess_yolo(raw.outputs(tensor, params.layout), raw.transforms, params, workspace),
            params, true);
      });
    }
  }
}

TEST_CASE("postprocess_yolo: a YOLOv8 output by hand") {
  // Two classes and four boxes: the second overlaps the first in the same class (IoU 0.81), the
  // third in another class, and the fourth's scores are below the threshold.
  const std::vector<float> output{
      110, 110, 110, 300,  // cx
      100, 105, 105, 300,  // cy
      100, 100, 100, 50,   // w
      100, 100, 100, 50,   // h
      .9f, .8f, .1f, .2f,  // class 0
      .1f, .3f, .7f, .25f  // class 1
  };
  // A picture of 1280 x 960 in an input of 640 x 640: scale 0.5, 80 pixels above it.
  const std::vector<letterbox_transform> transforms{
      letterbox_transform::centred(image_size::height_width(960, 1280), square)};
  CHECK(transforms[0].scale_x == 0.5);
  CHECK(transforms[0].pad_x == 0);
  CHECK(transforms[0].pad_y == 80);
  postprocess_workspace workspace;
  const auto found =
      postprocess_yolo(yolo_outputs<float>{{output.data(), 6, 4}, 1}, transforms,
                       postprocess_yolo_params::v8(), workspace, threading::sequential);
  REQUIRE(found.scores.size() == 2);
  CHECK(found.scores[0] == 0.9f);
  CHECK(found.labels[0] == 0);
  CHECK(found.sources[1] == 2);
  CHECK(found.labels[1] == 1);
  const float boxes[] = {120, 0, 320, 140, 120, 0, 320, 150};
  for (index_t k = 0; k < 8; ++k) CHECK(found.boxes(k / 4, k % 4) == boxes[k]);
}

TEST_CASE("letterbox_transform: odd padding goes to the right and below") {
  // 641 x 480 into 640: scale 640 / 641, 479 rows, 161 rows of padding, 80 of them above.
  const auto t = letterbox_transform::centred(image_size::height_width(480, 641), square);
  CHECK(t.pad_x == 0);
  CHECK(t.pad_y == 80);
  CHECK(letterbox_transform::centred(image_size::height_width(641, 480), square).pad_x == 80);
  CHECK(letterbox_transform::top_left(image_size::height_width(480, 641), square).pad_y == 0);
  for (const double bad : {0.0, -1.0, std::nan(""), 1e39}) {
    CHECK_THROWS_AS(letterbox_transform::centred(image_size::height_width(1, bad), square),
                    std::invalid_argument);
    CHECK_THROWS_AS(letterbox_transform::top_left(square, image_size::height_width(bad, 1)),
                    std::invalid_argument);
  }
}

TEST_CASE("postprocess_yolo: NaN scores never pass, infinite ones and NaN boxes do") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (auto params : all_models()) {
    params.result_format = box_format::xyxy;
    raw_output raw(1, 150, 21, params, 0.3, 12);
    random_generator generator(13);
    for (auto& row : raw.rows[0])
      for (std::size_t k = 0; k < row.size(); ++k)
        if (generator.chance(0.05))
          row[k] = generator.chance(0.5) ? nan : generator.chance(0.5) ? infinity : -infinity;
    const auto tensor = raw.tensor<float>(params.layout);
    postprocess_workspace workspace;
    for_each_isa([&](isa) {
      const auto found =
          postprocess_yolo(raw.outputs(tensor, params.layout), {}, params, workspace);
      const auto expected = reference::postprocess_yolo(raw.rows[0], nullptr, params);
      REQUIRE(found.sources.size() == static_cast<index_t>(expected.size()));
      for (index_t i = 0; i < found.sources.size(); ++i) {
        CHECK(found.scores[i] > 0.25f);
        CHECK(found.sources[i] == expected[static_cast<std::size_t>(i)].source);
        CHECK(found.labels[i] == expected[static_cast<std::size_t>(i)].label);
      }
    });
  }
}

TEST_CASE("postprocess_yolo: scores outside [0, 1] throw if the number of extras is not given") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (auto params : all_models()) {
    const bool is_scored = params.scores == yolo_scores::score_and_class;
    const bool has_objectness = params.scores == yolo_scores::objectness;
    const raw_output raw(2, 215, 21, params, 0.4, 31);
    params.extras = postprocess_yolo_params::unknown_extras;
    postprocess_workspace workspace;
    // Boxes of full blocks, of a block's rest, and the last; in rows, only found boxes count.
    for (const std::size_t box : {3u, 64u, 128u, 200u, 214u}) {
      for (const float bad : {-0.1f, -infinity, 1.1f, infinity, 0.0f}) {
        raw_output changed = raw;
        std::vector<float>& row = changed.rows[1][box];
        const std::size_t first = has_objectness ? 5 : 4;
        if (params.layout == yolo_layout::rows) row[4] = row[first] = 0.9f;
        row[is_scored ? 4 : first + 20] = bad;
        const auto tensor = changed.tensor<float>(params.layout);
        for (const bool is_multi : {false, true}) {
          if (is_multi && is_scored) continue;
          params.multi_label = is_multi;
          for_each_isa([&](isa) {
            for (const threading policy : {threading::sequential, threading::parallel}) {
              const auto call = [&] {
                return postprocess_yolo(changed.outputs(tensor, params.layout), {}, params,
                                        workspace, policy);
              };
              if (bad >= 0 && bad <= 1) {
                CHECK(call().extras.cols() == 0);
                continue;
              }
              const std::string place = "number " + std::to_string(is_scored ? 4 : first + 20) +
                                        " of box " + std::to_string(box) + " of image 1";
              CHECK_THROWS_WITH_AS(call(), doctest::Contains(place.c_str()), std::invalid_argument);
              CHECK_THROWS_WITH_AS(call(), doctest::Contains("extras="), std::invalid_argument);
            }
          });
        }
      }
    }
  }
}

TEST_CASE(
    "postprocess_yolo: an objectness outside [0, 1] throws if the number of extras is not given") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool is_multi : {false, true}) {
    postprocess_yolo_params params = postprocess_yolo_params::v5();
    params.extras = 0;
    const raw_output raw(2, 215, 21, params, 0.4, 33);
    params.multi_label = is_multi;
    postprocess_workspace workspace;
    // The product of a great objectness and the scores is a probability, or below the threshold.
    for (const float score : {0.3f, 0.01f}) {
      for (const float bad : {3.0f, 1.1f, infinity, -0.1f, -infinity}) {
        raw_output changed = raw;
        std::vector<float>& row = changed.rows[1][200];
        std::fill(row.begin() + 5, row.end(), std::isinf(bad) ? 0.0f : score);
        row[4] = bad;
        const auto tensor = changed.tensor<float>(params.layout);
        const auto call = [&](index_t extras) {
          params.extras = extras;
          return postprocess_yolo(changed.outputs(tensor, params.layout), {}, params, workspace);
        };
        for_each_isa([&](isa) {
          CHECK_THROWS_WITH_AS(call(postprocess_yolo_params::unknown_extras),
                               doctest::Contains("number 4 of box 200 of image 1"),
                               std::invalid_argument);
          CHECK(call(0).extras.cols() == 0);
        });
      }
    }
  }
}

TEST_CASE(
    "postprocess_yolo: every row above the threshold is checked, also beside many better ones") {
  constexpr index_t boxes = 6000, numbers = 9;
  std::vector<float> rows(boxes * numbers, 0.9f);
  float* const last = rows.data() + (boxes - 1) * numbers;
  last[5] = -7;
  last[8] = 0.5f;
  auto params = postprocess_yolo_params::v5();
  params.max_candidates = 1;
  postprocess_workspace workspace;
  const yolo_outputs<float> outputs{matrix_view<const float>(rows.data(), boxes, numbers), 1};
  for_each_isa([&](isa) {
    for (const threading policy : {threading::sequential, threading::parallel})
      CHECK_THROWS_WITH_AS(postprocess_yolo(outputs, {}, params, workspace, policy),
                           doctest::Contains("number 5 of box 5999"), std::invalid_argument);
  });
}

TEST_CASE("postprocess_yolo: -0, NaN and numbers within the margin are not outside [0, 1]") {
  for (auto params : all_models()) {
    const std::size_t last = params.scores == yolo_scores::score_and_class ? 4 : 24;
    raw_output raw(1, 215, 21, params, 0.4, 35);
    for (std::size_t box = 0; box < 215; ++box)
      for (std::size_t k = 4; k <= last; ++k) {
        const float x = raw.rows[0][box][k];
        if (x < 0.25f)
          raw.rows[0][box][k] = box % 3 == 0 ? -0.0f : box % 3 == 1 ? -0.001f : -std::nanf("");
        if (x > 0.95f) raw.rows[0][box][k] = 1.001f;
      }
    const auto tensor = raw.tensor<float>(params.layout);
    params.extras = postprocess_yolo_params::unknown_extras;
    postprocess_workspace workspace;
    for_each_isa([&](isa) {
      CHECK(postprocess_yolo(raw.outputs(tensor, params.layout), {}, params, workspace)
                .scores.size() > 0);
    });
  }
}

TEST_CASE("postprocess_yolo: numbers of classes that models with extras have") {
  CHECK(detail::likely_extras(16) == 1);
  for (const index_t scores : {33, 112}) CHECK(detail::likely_extras(scores) == 32);
  CHECK(detail::likely_extras(52) == 51);
  for (const index_t scores : {1, 15, 17, 80}) CHECK(detail::likely_extras(scores) == 0);
}

TEST_CASE("postprocess_yolo: bad arguments throw errors that name them") {
  const std::vector<float> numbers(2 * 84 * 50);
  yolo_outputs<float> outputs{{numbers.data(), 2 * 84, 50}, 2};
  std::vector<letterbox_transform> transforms(
      2, letterbox_transform{1, 1, 0, 0, image_size::height_width(480, 640)});
  const auto good = transforms;
  postprocess_yolo_params params;
  postprocess_workspace workspace;
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(postprocess_yolo(outputs, transforms, params, workspace),
                         doctest::Contains(message), std::invalid_argument);
    params = {};
    transforms = good;
    outputs = {{numbers.data(), 2 * 84, 50}, 2};
  };
  params.score_threshold = 25;
  fails("vecdet::postprocess_yolo: params.score_threshold is 25, expected a number in [0, 1]");
  params.iou_threshold = -1;
  fails("params.iou_threshold is -1");
  params.max_candidates = -1;
  fails("params.max_candidates is -1");
  params.max_detections = -1;
  fails("params.max_detections is -1");
  params.extras = -2;
  fails("params.extras is -2, expected 0 to 2^31 - 1, or unknown_extras");
  for (const index_t extras : {index_t{1} << 31, std::numeric_limits<index_t>::max()}) {
    params.extras = extras;
    fails("params.extras is ");
  }
  params.keypoint_size = 4;
  fails("params.keypoint_size is 4, expected 0, 2 or 3");
  params.extras = 7;
  params.keypoint_size = 3;
  fails("params.extras is 7, expected a multiple of params.keypoint_size");
  params.class_count = 79;
  fails("params.class_count is 79, expected 80, the number of scores of a box");
  params.class_count = -1;
  fails("params.class_count is -1, expected 0 or more");
  params = postprocess_yolo_params::v10();
  params.class_count = 1;
  fails("params.class_count is 1, expected 0 if params.scores is score_and_class");
  const std::vector<index_t> too_great{0, 80}, negative{-1}, groups(80), few_groups(79);
  const std::vector<double> few_thresholds(79, 0.5);
  std::vector<double> bad_thresholds(80, 0.5);
  bad_thresholds[7] = std::nan("");
  params.classes = too_great;
  fails("params.classes[1] is 80, expected a class from 0 to 79");
  params.classes = negative;
  fails("params.classes[0] is -1, expected a class from 0 to 79");
  params = postprocess_yolo_params::v10();
  params.classes = negative;
  outputs.images = 0;
  outputs.boxes_and_scores = {};
  transforms = {};
  fails("params.classes[0] is -1, expected 0 or more");
  params.class_thresholds = few_thresholds;
  fails("params.class_thresholds.size() is 79, expected 0 or 80, the number of classes");
  params.class_thresholds = bad_thresholds;
  fails("params.class_thresholds[7] is nan, expected a number in [0, 1]");
  params.class_groups = few_groups;
  fails("params.class_groups.size() is 79, expected 0 or 80, the number of classes");
  params.class_groups = groups;
  params.class_agnostic = true;
  fails("params.class_groups.size() is 80, expected 0 if params.class_agnostic is true");
  params.class_groups = groups;
  params.suppress = false;
  fails("params.class_groups.size() is 80, expected 0 if params.suppress is false");
  params.scores = yolo_scores::objectness;
  fails("params.layout is channels, expected rows");
  params = postprocess_yolo_params::v10();
  params.multi_label = true;
  fails("params.multi_label is true");
  params = postprocess_yolo_params::v10();
  fails("outputs.boxes_and_scores.cols() is 50, expected 4 + score + class + params.extras");
  params.extras = 80;
  fails("outputs.boxes_and_scores.rows() / outputs.images is 84");
  outputs.images = 5;
  fails("outputs.boxes_and_scores.rows() is 168");
  outputs.images = -1;
  fails("outputs.images is -1");
  outputs.images = 0;
  fails("outputs.boxes_and_scores.rows() is 168");
  transforms.pop_back();
  fails("transforms.size() is 1, expected 0 or the number of images");
  transforms[1].scale_y = 0;
  fails("transforms[1] is 0, expected scales and sides above 0 that fit a float");
  transforms[1].size.width = std::nan("");
  fails("transforms[1] is nan");
  transforms[0].pad_x = std::numeric_limits<double>::infinity();
  fails("transforms[0] is inf, expected padding that fits a float");
  CHECK(postprocess_yolo(outputs, transforms, params, workspace).scores.empty());
}

TEST_CASE("postprocess_yolo: no images") {
  postprocess_workspace workspace;
  const auto found =
      postprocess_yolo(yolo_outputs<float>{{}, 0}, {}, postprocess_yolo_params::v8(), workspace);
  CHECK(found.scores.empty());
  REQUIRE(found.offsets.size() == 1);
  CHECK(found.offsets[0] == 0);
}
