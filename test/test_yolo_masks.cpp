// SPDX-License-Identifier: Apache-2.0
// Detections with their masks in one call: those of the two calls, bit for bit, for batches,
// layouts, element types, quantised and separate outputs, with and without transforms; and every
// documented error.
#include "support/owned_masks.hpp"
#include "support/random.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/quantised_outputs.hpp>
#include <vecdet/yolo_masks.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr index_t images = 2, classes = 3, channels = 5, boxes = 40;
constexpr index_t map_height = 24, map_width = 40, input_height = 96, input_width = 160;
constexpr index_t columns = 4 + classes + channels;

/// A model's outputs: numbers x boxes per image. Every third box has a score.
template <class T>
struct model {
  std::vector<T> numbers, prototypes;
  std::vector<letterbox_transform> transforms;
  postprocess_yolo_params params = postprocess_yolo_params::v8();

  model() {
    random_generator random(3);
    const auto input = image_size::height_width(input_height, input_width);
    for (const auto& size : {image_size::height_width(60, 200), image_size::height_width(177, 91)})
      transforms.push_back(letterbox_transform::centred(size, input));
    for (index_t image = 0; image < images; ++image)
      for (index_t k = 0; k < columns; ++k)
        for (index_t box = 0; box < boxes; ++box) {
          double number = random.uniform(-1, 1);
          if (k < 4) number = random.uniform(20, k == 0 ? input_width : 90);
          if (k >= 4 && k < 4 + classes)
            number = box % 3 == 0 && k == 4 + box % classes ? random.uniform(0.3, 1) : 0.1;
          numbers.push_back(to<T>(number));
        }
    for (index_t i = 0; i < images * channels * map_height * map_width; ++i)
      prototypes.push_back(to<T>(random.normal()));
  }
  yolo_outputs<T> outputs() const {
    return {matrix_view<const T>(numbers.data(), images * columns, boxes), images};
  }
  feature_view<const T> maps() const {
    return {prototypes.data(), images, channels, map_height, map_width, feature_layout::nchw};
  }
};

/// Compares the call with the two that it stands for.
template <class Outputs, class T>
void check_calls(const Outputs& outputs, const model<T>& of, const postprocess_yolo_params& params,
                 bool has_transforms, const prototype_masks_params& mask_params) {
  yolo_masks_workspace workspace;
  postprocess_workspace of_detections;
  masks_workspace of_masks;
  vector_view<const letterbox_transform> transforms;
  std::vector<grid_size> sizes(1, grid_size{input_height, input_width});
  if (has_transforms) {
    transforms = of.transforms;
    sizes = {{60, 200}, {177, 91}};
  }
  postprocess_yolo_params with_extras = params;
  with_extras.extras = channels;
  const detections_view found =
      postprocess_yolo(outputs, transforms, with_extras, of_detections, threading::sequential);
  const owned_masks expected(masks_from_prototypes(of.maps(), found.extras, found.boxes,
                                                   found.offsets, sizes, mask_params, of_masks,
                                                   threading::sequential));
  CHECK(found.boxes.size() > 4);
  CHECK(found.offsets[1] > 0);
  CHECK(found.offsets[1] < found.offsets[2]);
  std::size_t count = 0;
  for (const std::uint8_t byte : expected.pixels) count += byte != 0;
  CHECK(count > 20);
  for (const threading& policy : {threading::sequential, threading::parallel}) {
    const yolo_masks_view all =
        postprocess_yolo(outputs, of.maps(), transforms, params, mask_params,
                         has_transforms ? grid_size{} : sizes[0], workspace, policy);
    CHECK((owned_masks(all.masks) == expected));
    CHECK(all.masks.kind == mask_params.pixels);
    REQUIRE(all.detections.boxes.size() == found.boxes.size());
    REQUIRE(all.detections.extras.cols() == channels);
    for (index_t i = 0; i < found.boxes.size(); ++i) {
      for (int k = 0; k < 4; ++k) CHECK(all.detections.boxes(i, k) == found.boxes(i, k));
      CHECK(all.detections.scores[i] == found.scores[i]);
      CHECK(all.detections.labels[i] == found.labels[i]);
      CHECK(all.detections.sources[i] == found.sources[i]);
      for (index_t k = 0; k < channels; ++k)
        CHECK(all.detections.extras(i, k) == found.extras(i, k));
    }
    for (index_t k = 0; k <= images; ++k) CHECK(all.detections.offsets[k] == found.offsets[k]);
  }
}

/// A call with transforms.
struct yolo_masks_call {
  model<float> of;
  prototype_masks_params mask_params;
  grid_size input_size;
  index_t map_images = images;

  void run() const {
    yolo_masks_workspace workspace;
    postprocess_yolo(of.outputs(),
                     feature_view<const float>(of.prototypes.data(), map_images, channels,
                                               map_height, map_width, feature_layout::nchw),
                     of.transforms, of.params, mask_params, input_size, workspace);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("yolo masks: those of the two calls", T, float, bfloat16) {
  const model<T> of;
  prototype_masks_params mask_params;
  for (const mask_pixels pixels : {mask_pixels::bits, mask_pixels::bytes}) {
    mask_params.pixels = pixels;
    mask_params.rule = mask_rule::native;
    check_calls(of.outputs(), of, of.params, true, mask_params);
    for (const mask_rule rule : {mask_rule::native, mask_rule::upsampled, mask_rule::cropped}) {
      mask_params.rule = rule;
      check_calls(of.outputs(), of, of.params, false, mask_params);
    }
  }
  postprocess_yolo_params params = of.params;
  params.extras = channels;
  params.max_detections = 5;
  params.multi_label = true;
  mask_params = {};
  check_calls(of.outputs(), of, params, true, mask_params);
}

TEST_CASE("yolo masks: quantised and separate outputs") {
  const model<float> of;
  constexpr index_t rest = columns - 4;
  std::vector<float> coordinates;
  std::vector<std::uint8_t> scores;
  for (index_t image = 0; image < images; ++image)
    for (index_t i = 0; i < columns * boxes; ++i) {
      const float number = of.numbers[static_cast<std::size_t>(image * columns * boxes + i)];
      if (i < 4 * boxes)
        coordinates.push_back(number);
      else
        scores.push_back(static_cast<std::uint8_t>(std::lround((number + 1) * 127)));
    }
  const matrix_view<const float> first(coordinates.data(), images * 4, boxes);
  const quantised_matrix<std::uint8_t> others(
      matrix_view<const std::uint8_t>(scores.data(), images * rest, boxes), 1.0 / 127, 127);
  check_calls(separate_yolo_outputs{first, others, images}, of, of.params, true, {});
}

TEST_CASE("yolo masks: no images and no detections") {
  model<float> of;
  yolo_masks_workspace workspace;
  of.params.score_threshold = 1;
  const yolo_masks_view none =
      postprocess_yolo(of.outputs(), of.maps(), of.transforms, of.params, {}, {}, workspace);
  CHECK(none.detections.boxes.size() == 0);
  CHECK(none.masks.size() == 0);
  const feature_view<const float> no_maps(nullptr, 0, channels, map_height, map_width,
                                          feature_layout::nchw);
  const yolo_masks_view empty =
      postprocess_yolo(yolo_outputs<float>{{}, 0}, no_maps, {}, of.params, {}, {}, workspace);
  CHECK(empty.masks.size() == 0);
}

TEST_CASE("yolo masks: errors") {
  CHECK_NOTHROW(yolo_masks_call().run());
  const auto fails = refusals();
  const auto check = [&](const std::string& message, const auto& change) {
    yolo_masks_call call;
    change(call);
    fails("vecdet::postprocess_yolo: " + message, [&] { call.run(); });
  };
  using call = yolo_masks_call;
  check("prototypes.images() is 1, expected 2, the number of images",
        [](call& c) { c.map_images = 1; });
  check("params.extras is 4, expected the number of prototypes",
        [](call& c) { c.of.params.extras = 4; });
  check("params.keypoint_size is 2, expected 0", [](call& c) { c.of.params.keypoint_size = 2; });
  check("params.rotated is true, expected false", [](call& c) { c.of.params.rotated = true; });
  check("params.normalised is true, expected false",
        [](call& c) { c.of.params.normalised = true; });
  check("params.result_format is xywh, expected xyxy",
        [](call& c) { c.of.params.result_format = box_format::xywh; });
  check("mask_params.rule is 7, expected a mask_rule",
        [](call& c) { c.mask_params.rule = static_cast<mask_rule>(7); });
  check("mask_params.pixels is 7, expected a mask_pixels",
        [](call& c) { c.mask_params.pixels = static_cast<mask_pixels>(7); });
  check("mask_params.rule is cropped, expected native",
        [](call& c) { c.mask_params.rule = mask_rule::cropped; });
  check("input_size.height is 96, expected 0", [](call& c) { c.input_size = {96, 160}; });
  check("input_size.width is 160, expected 0", [](call& c) { c.input_size = {0, 160}; });
  check("a side of input_size is 0, expected 1 to 2^20 pixels",
        [](call& c) { c.of.transforms.clear(); });
  check("transforms[1].size.width is ", [](call& c) { c.of.transforms[1].size.width = 3e6; });
  const auto input = image_size::height_width(input_height, input_width);
  check("transforms[1].pad_x is 0, expected the padding of a centred letterbox", [&](call& c) {
    letterbox_transform& transform = c.of.transforms[1];
    transform = letterbox_transform::top_left(transform.size, input);
  });
  check("transforms[0].pad_x is 30, expected", [](call& c) {
    c.of.transforms[0] = {1, 1, 30, 33, image_size::height_width(30, 100)};  // not enlarged
  });
}

TEST_CASE("yolo masks: letterboxes of all sizes are taken") {
  // Not less than a pixel of padding is lost to rounding.
  random_generator random(5);
  for (int i = 0; i < 2000; ++i) {
    const index_t stride = 1 + random.below(8);
    const grid_size map{8 + random.below(80), 8 + random.below(80)};
    const auto input = image_size::height_width(static_cast<double>(stride * map.height),
                                                static_cast<double>(stride * map.width));
    const auto size = image_size::height_width(static_cast<double>(4 + random.below(2000)),
                                               static_cast<double>(4 + random.below(2000)));
    const grid_size picture =
        detail::picture_in_letterbox(letterbox_transform::centred(size, input), 0, map);
    CHECK(static_cast<double>(picture.height) == size.height);
    CHECK(static_cast<double>(picture.width) == size.width);
  }
}
