// SPDX-License-Identifier: Apache-2.0
// From an image to the input of a YOLO model, from its output to detections, and merging of the
// detections of a sliced image.
#include "plain/masks.hpp"
#include "plain/postprocess_yolo.hpp"
#include "support/implementations.hpp"
#include "support/operands.hpp"
#include "support/scene.hpp"
#include <vecdet/letterbox.hpp>
#include <vecdet/merging.hpp>
#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/quantised_outputs.hpp>
#include <vecdet/yolo_masks.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t boxes = 8400, classes = 80;

/// The output of a YOLOv8 with `found` boxes with a score above 0.25, on some 20 objects.
struct yolo_output {
  std::vector<float> output, scores, limits;
  std::vector<index_t> wanted, groups;
  std::vector<std::int32_t> plain_groups;
  std::vector<double> thresholds;
  postprocess_yolo_params params = postprocess_yolo_params::v8();
  postprocess_workspace workspace;
  plain_yolo_memory plain_memory;

  /// With options per class, if `by_class`: half of the classes are wanted, two form a group.
  yolo_output(index_t found, bool by_class)
      : output(static_cast<std::size_t>((4 + classes) * boxes)) {
    for (index_t c = 0; c < classes; ++c) {
      const bool is_wanted = c % 4 < 2;
      if (is_wanted) wanted.push_back(c);
      thresholds.push_back(c % 3 == 0 ? 0.5 : 0.25);
      groups.push_back(by_class ? c / 2 : c);
      plain_groups.push_back(static_cast<std::int32_t>(groups.back()));
      limits.push_back(!by_class   ? 0.25f
                       : is_wanted ? static_cast<float>(thresholds.back())
                                   : std::numeric_limits<float>::infinity());
    }
    if (by_class) {
      params.classes = wanted;
      params.class_thresholds = thresholds;
      params.class_groups = groups;
    }
    const detections objects = clustered_detections(found, classes);
    for (std::size_t i = 0; i < output.size(); ++i)
      output[i] = 0.2f * static_cast<float>(i * 2654435761u % 65536) / 65536;
    for (index_t i = 0; i < boxes; ++i) {
      const auto set = [&](index_t k, float x) {
        output[static_cast<std::size_t>(k * boxes + i)] = x;
      };
      // Found boxes are spread over the output.
      const bool is_found = found > 0 && i % (boxes / std::max(found, index_t{1})) == 0 &&
                            i / (boxes / found) < found;
      if (!is_found) {
        for (index_t k = 0; k < 4; ++k) set(k, 20);
        continue;
      }
      const auto d = static_cast<std::size_t>(i / (boxes / found));
      const float* const box = objects.boxes.data() + 4 * d;
      for (index_t k = 0; k < 2; ++k) {
        set(k, (box[k] + box[k + 2]) / 2);
        set(k + 2, box[k + 2] - box[k]);
      }
      set(4 + objects.classes[d] % classes, 0.25f + 0.75f * objects.scores[d]);
    }
  }
  void detect(threading policy) {
    const auto result = postprocess_yolo(
        yolo_outputs<float>{{output.data(), 4 + classes, boxes}, 1}, {}, params, workspace, policy);
    scores.assign(result.scores.begin(), result.scores.end());
  }
  void detect_plain() {
    VECDET_PLAIN(plain_yolo)
    (output.data(), boxes, classes, 0.25f, limits.data(), plain_groups.data(), 0.7f, plain_memory);
    scores = plain_memory.found;
  }
};

/// The same output with coefficients, and prototypes.
struct segmented_output : yolo_output {
  static constexpr index_t channels = 32, map_side = 160, side = 640;
  std::vector<float> prototypes, coefficients;
  std::vector<std::int64_t> rectangles;
  std::vector<std::uint8_t> pixels;
  plain_masks_memory plain_masks;
  yolo_masks_workspace masks;

  explicit segmented_output(index_t found) : yolo_output(found, false) {
    random_generator random(1);
    for (index_t i = 0; i < channels * boxes; ++i)
      output.push_back(static_cast<float>(random.normal()));
    for (index_t i = 0; i < channels * map_side * map_side; ++i)
      prototypes.push_back(static_cast<float>(random.normal()));
  }
  void segment(threading policy) {
    const auto result =
        postprocess_yolo(yolo_outputs<float>{{output.data(), 4 + classes + channels, boxes}, 1},
                         feature_view<const float>(prototypes.data(), 1, channels, map_side,
                                                   map_side, feature_layout::nchw),
                         {}, params, {}, {side, side}, masks, policy);
    pixels.assign(result.masks.pixels.begin(), result.masks.pixels.end());
  }
  void segment_plain() {
    detect_plain();
    coefficients.clear();
    rectangles.clear();
    std::int64_t bytes = 0;
    const auto within = [](float x) {
      return static_cast<std::int64_t>(std::min(std::max(std::ceil(x), 0.0f), float{side}));
    };
    for (const std::int64_t source : plain_memory.sources) {
      const float* const own = output.data() + source;
      const float w = own[2 * boxes] / 2, h = own[3 * boxes] / 2;
      const std::int64_t x1 = within(own[0] - w), x2 = within(own[0] + w);
      const std::int64_t y1 = within(own[boxes] - h), y2 = within(own[boxes] + h);
      rectangles.insert(rectangles.end(), {x1, y1, x2, y2});
      bytes += (x2 - x1 + 7) / 8 * (y2 - y1);
      for (index_t c = 0; c < channels; ++c) coefficients.push_back(own[(4 + classes + c) * boxes]);
    }
    pixels.resize(static_cast<std::size_t>(bytes));
    VECDET_PLAIN(plain_masks_from_prototypes)
    (prototypes.data(), channels, map_side, map_side, coefficients.data(), rectangles.data(),
     static_cast<std::int64_t>(plain_memory.sources.size()), side, plain_masks, pixels.data());
  }
};

/// The same output as fractions of the input's size, quantised.
struct quantised_yolo_output : yolo_output {
  std::vector<std::uint8_t> stored;
  static constexpr float scale = 1.0f / 255;

  explicit quantised_yolo_output(index_t found) : yolo_output(found, false), stored(output.size()) {
    for (std::size_t i = 0; i < output.size(); ++i) {
      const double number = static_cast<double>(output[i]) / (i < 4 * boxes ? 640 : 1);
      stored[i] = static_cast<std::uint8_t>(std::min(std::max(255 * number + 0.5, 0.0), 255.0));
    }
    params.normalised = true;
  }
  void detect_quantised(threading policy) {
    const quantised_matrix<std::uint8_t> numbers({stored.data(), 4 + classes, boxes}, scale, 0);
    const auto result = postprocess_yolo(quantised_yolo_outputs<std::uint8_t>{numbers}, {}, params,
                                         workspace, policy);
    scores.assign(result.scores.begin(), result.scores.end());
  }
  void detect_plain_quantised() {
    VECDET_PLAIN(plain_quantised_yolo)
    (stored.data(), boxes, classes, 64, scale, 0.7f, plain_memory);  // 64 / 255 is above 0.25
    scores = plain_memory.found;
  }
};

struct crowd : nms_operands<float> {
  using nms_operands<float>::nms_operands;
  merge_workspace merging;
  std::vector<std::int64_t> owners;

  index_t merge(const merge_params& params, threading policy) {
    const auto merged = merge_boxes(b(), s(), {}, params, merging, policy);
    owners.assign(scores.size(), 0);
    for (index_t g = 0; g < merged.scores.size(); ++g)
      for (index_t m = merged.offsets[g]; m < merged.offsets[g + 1]; ++m)
        owners[static_cast<std::size_t>(merged.members[m])] = merged.members[merged.offsets[g]];
    return merged.scores.size();
  }
};

struct picture_operands {
  std::vector<std::uint8_t> pixels;
  std::vector<byte_image> images;
  std::vector<float> input;
  letterbox_workspace workspace;

  picture_operands() : pixels(3 * 1080 * 1920), input(3 * 640 * 640) {
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
    images.push_back({pixels.data(), 1080, 1920, 0});
  }
};

void register_yolo(index_t found, bool by_class) {
  const double scores = static_cast<double>(boxes * classes);
  register_with_plain(
      "postprocess_yolo/channels_found" + std::to_string(found) + (by_class ? "_by_class" : "") +
          "/f32/1x8400x80",
      {scores, scores * sizeof(float)},
      [=] { return std::make_shared<yolo_output>(found, by_class); },
      [](yolo_output& data, threading policy) { data.detect(policy); },
      [](yolo_output& data) { data.detect_plain(); }, &yolo_output::scores);
}

void register_segmentation(index_t found) {
  using operands = segmented_output;
  constexpr double numbers = boxes * (classes + operands::channels);
  constexpr double map = operands::channels * operands::map_side * operands::map_side;
  register_with_plain(
      "postprocess_yolo/masks_found" + std::to_string(found) + "/f32/1x8400x80x32x160x160",
      {boxes * classes, (numbers + map) * sizeof(float)},
      [=] { return std::make_shared<operands>(found); },
      [](operands& data, threading policy) { data.segment(policy); },
      [](operands& data) { data.segment_plain(); }, &operands::pixels);
}

void register_quantised_yolo(index_t found) {
  const double scores = static_cast<double>(boxes * classes);
  register_with_plain(
      "postprocess_yolo/channels_found" + std::to_string(found) + "/u8/1x8400x80", {scores, scores},
      [=] { return std::make_shared<quantised_yolo_output>(found); },
      [](quantised_yolo_output& data, threading policy) { data.detect_quantised(policy); },
      [](quantised_yolo_output& data) { data.detect_plain_quantised(); },
      &quantised_yolo_output::scores);
}

void register_merging(const std::string& variant, const merge_params& params, index_t count) {
  const std::string problem = "merge_boxes/" + variant + "/f32/" + std::to_string(count);
  const work amount{static_cast<double>(count), 20.0 * static_cast<double>(count)};
  const auto prepare = [=] { return std::make_shared<crowd>(clustered_detections(count)); };
  const auto call = [=](crowd& data, threading policy) { return data.merge(params, policy); };
  if (params.transitive) return register_vecdet(problem, amount, prepare, call);
  register_with_plain(
      problem, amount, prepare, call,
      [](crowd& data) {
        data.owners.resize(data.scores.size());
        return VECDET_PLAIN(plain_merge)(data.boxes.data(), data.scores.data(), data.b().size(),
                                         0.5f, data.owners.data());
      },
      &crowd::owners);
}

void register_letterbox() {
  register_with_plain(
      "letterbox/bgr/f32/1x1080x1920x640", {3.0 * 640 * 640, 3.0 * 1080 * 1920 + 12.0 * 640 * 640},
      [] { return std::make_shared<picture_operands>(); },
      [](picture_operands& data, threading policy) {
        letterbox(vector_view<const byte_image>(data.images), data.input, {640, 640},
                  letterbox_params::yolo(), data.workspace, policy);
      },
      [](picture_operands& data) {
        VECDET_PLAIN(plain_letterbox)(data.pixels.data(), 1080, 1920, 640, data.input.data());
      },
      &picture_operands::input);
}

const bool registered = [] {
  for (const index_t found : {0, 500}) {
    register_yolo(found, false);
    register_quantised_yolo(found);
  }
  register_yolo(500, true);
  register_segmentation(500);
  for (const index_t count : {1000, 20000}) {
    register_merging("greedy", merge_params::sahi_greedy_nmm(), count);
    register_merging("transitive", merge_params::sahi_nmm(), count);
  }
  register_letterbox();
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
