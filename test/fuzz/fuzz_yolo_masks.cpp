// SPDX-License-Identifier: Apache-2.0
// Detections of any YOLO model for segmentation with their masks: those of the two calls, bit for
// bit. What both calls together require is refused, and letterboxes of whole pixels are taken.
#include "fuzz_input.hpp"
#include "outcome.hpp"
#include "support/random.hpp"
#include <vecdet/yolo_masks.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

using namespace vecdet;
using fuzz::outcome;
using fuzz::outcome_of;

namespace {

void add_masks(outcome& to, const masks_view& masks) {
  to.add(vector_view<const index_t>(masks.boxes.data(), 4 * masks.size()));
  to.add(masks.offsets);
  for (const std::uint8_t byte : masks.pixels) to.integers.push_back(byte);
}

/// A model's output and its prototypes: any numbers, or those of a usual model from a seed.
template <class T>
struct fuzzed_model {
  index_t images, boxes, numbers;
  bool by_rows;
  fuzz::tensor<T> output, prototypes;

  fuzzed_model(fuzz::input& in, index_t image_count, index_t box_count, index_t classes,
               index_t channels, const grid_size& map, bool is_scored, index_t map_images)
      : images(image_count),
        boxes(box_count),
        numbers(4 + (is_scored ? 2 : classes) + channels),
        by_rows(is_scored),
        output(0),
        prototypes(0) {
    const index_t map_numbers = map_images * channels * map.height * map.width;
    if (in.flag()) {
      output = in.numbers<T>(images * numbers * boxes);
      prototypes = in.numbers<T>(map_numbers);
      return;
    }
    test::random_generator random(in.bits<std::uint64_t>());
    const double extent = 4 * static_cast<double>(std::max(map.height, map.width));
    std::vector<T> values, maps;
    for (index_t i = 0; i < images * numbers * boxes; ++i) {
      const index_t k = by_rows ? i % numbers : i / boxes % numbers;
      const bool is_class = is_scored && k == 5;
      values.push_back(test::to<T>(k < 4      ? random.uniform(0, extent)
                                   : is_class ? static_cast<double>(random.below(classes))
                                   : k < numbers - channels ? random.uniform(0, 1)
                                                            : random.normal()));
    }
    for (index_t i = 0; i < map_numbers; ++i) maps.push_back(test::to<T>(random.normal()));
    output = fuzz::tensor<T>(values);
    prototypes = fuzz::tensor<T>(maps);
  }
  yolo_outputs<T> outputs() const {
    return {matrix_view<const T>(output.data(), images * (by_rows ? boxes : numbers),
                                 by_rows ? numbers : boxes),
            images};
  }
};

/// What is wrong with a call; nothing in most of them.
enum class flaw { none, extras, key_points, normalised, format, images, rule, height, width };

template <class T>
void fuzz_type(fuzz::input& in) {
  const int kind = in.byte() % 24;
  const flaw own = kind <= static_cast<int>(flaw::width) ? static_cast<flaw>(kind) : flaw::none;
  const index_t images = in.integer(0, 2), boxes = in.integer(0, 12), classes = in.integer(1, 4);
  const index_t channels = in.integer(0, 4);
  const grid_size map{in.integer(0, 20), in.integer(0, 24)};
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  const bool is_scored = in.flag();
  postprocess_yolo_params params =
      is_scored ? postprocess_yolo_params::v10() : postprocess_yolo_params::v8();
  params.score_threshold = in.one_of({0.25, 0.0, 0.5});
  params.suppress = in.flag();
  params.multi_label = !is_scored && in.flag();
  params.max_detections = in.one_of<index_t>({300, 5, 1});
  params.extras = in.flag() ? channels : postprocess_yolo_params::unknown_extras;
  if (own == flaw::extras) params.extras = channels + 1;
  if (own == flaw::key_points) params.keypoint_size = 2;
  params.normalised = own == flaw::normalised;
  if (own == flaw::format) params.result_format = box_format::cxcywh;
  prototype_masks_params mask_params;
  mask_params.pixels = in.one_of({mask_pixels::bits, mask_pixels::bytes});

  bool may_throw = false;
  std::vector<letterbox_transform> transforms;
  grid_size input_size;
  std::vector<grid_size> pictures;
  if (in.flag() && images > 0) {
    if (own == flaw::rule) mask_params.rule = mask_rule::cropped;
    if (own == flaw::height) input_size.height = 5;
    if (own == flaw::width) input_size.width = 5;
    const index_t stride = in.integer(1, 4);
    const auto input = image_size::height_width(static_cast<double>(stride * map.height),
                                                static_cast<double>(stride * map.width));
    const bool is_letterbox = map.height > 0 && map.width > 0 && in.byte() < 200;
    may_throw = !is_letterbox;
    for (index_t i = 0; i < images; ++i) {
      const auto size = image_size::height_width(static_cast<double>(in.integer(1, 300)),
                                                 static_cast<double>(in.integer(1, 300)));
      if (is_letterbox)
        transforms.push_back(letterbox_transform::centred(size, input));
      else
        transforms.push_back({in.tame(-0.1, 2), in.tame(0.1, 2), in.tame(-5, 40), in.tame(-5, 40),
                              image_size::height_width(in.tame(0, 300), size.width)});
      pictures.push_back({static_cast<index_t>(std::nearbyint(transforms.back().size.height)),
                          static_cast<index_t>(std::nearbyint(transforms.back().size.width))});
    }
  } else {
    mask_params.rule = in.one_of({mask_rule::native, mask_rule::upsampled, mask_rule::cropped});
    input_size = {in.integer(1, 200), in.integer(1, 200)};
    if (own == flaw::height) input_size.height = in.one_of<index_t>({0, -3});
    if (own == flaw::width) input_size.width = (index_t{1} << 20) + 1;
    pictures.push_back(input_size);
  }
  const index_t map_images = images + (own == flaw::images ? 1 : 0);
  const fuzzed_model<T> model(in, images, boxes, classes, channels, map, is_scored, map_images);
  const yolo_outputs<T> outputs = model.outputs();
  const feature_view<const T> maps(model.prototypes.data(), map_images, channels, map.height,
                                   map.width, feature_layout::nchw);
  const bool is_of_size = own == flaw::height || own == flaw::width;
  const bool is_refused = own != flaw::none && (own != flaw::rule || !transforms.empty()) &&
                          (!is_of_size || images > 0);

  postprocess_yolo_params with_extras = params;
  with_extras.extras = channels;
  yolo_masks_workspace workspace;
  postprocess_workspace of_detections;
  masks_workspace of_masks;
  fuzz::on_every_isa("detections with masks", [&](fuzz::results& results) {
    const outcome found = outcome_of([&](outcome& to) {
      const yolo_masks_view all = postprocess_yolo(outputs, maps, transforms, params, mask_params,
                                                   input_size, workspace, policy);
      add_detections(to, all.detections);
      add_masks(to, all.masks);
    });
    const outcome expected = outcome_of([&](outcome& to) {
      if (is_refused) throw std::invalid_argument("what both calls together require");
      const detections_view all =
          postprocess_yolo(outputs, transforms, with_extras, of_detections, policy);
      add_detections(to, all);
      add_masks(to, masks_from_prototypes(maps, all.extras, all.boxes, all.offsets, pictures,
                                          mask_params, of_masks, policy));
    });
    if (!found.error.empty()) {
      if (expected.error.empty() && !may_throw)
        fuzz::fail("a valid call is refused: " + found.error);
      throw std::invalid_argument(found.error);
    }
    if (!expected.error.empty()) fuzz::fail("a call is not refused: " + expected.error);
    if (!(found == expected)) fuzz::fail("detections with masks differ from those of two calls");
    for (const float x : found.floats) results.add(static_cast<double>(x));
    for (const index_t x : found.integers) results.add(static_cast<double>(x));
  });
}

}  // namespace

void fuzz::target(input& in) {
  if (in.flag())
    fuzz_type<float>(in);
  else
    fuzz_type<bfloat16>(in);
}
