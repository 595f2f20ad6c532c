// SPDX-License-Identifier: Apache-2.0
// Raw outputs of YOLO models, merging of crowds, and letterboxes.
#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/letterbox.hpp>
#include <vecdet/merging.hpp>
#include <vecdet/postprocess_yolo.hpp>

#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

/// Some 1 box in 17 has a score above 0.25, of 80 classes.
struct raw_output {
  postprocess_yolo_params params;
  std::int64_t boxes, numbers;
  std::vector<float> output;

  raw_output(bool by_rows, std::int64_t box_count)
      : params(by_rows ? postprocess_yolo_params::v5() : postprocess_yolo_params::v8()),
        boxes(box_count),
        numbers(by_rows ? 85 : 84),
        output(uniform<float>(boxes * numbers, 0.0f, 0.2f)) {
    const std::vector<float> corners = clustered_boxes(boxes);
    for (std::int64_t b = 0; b < boxes; ++b) {
      const auto at = [&](std::int64_t k) -> float& {
        return output[static_cast<std::size_t>(by_rows ? b * numbers + k : k * boxes + b)];
      };
      const float* const box = corners.data() + 4 * b;
      for (int k = 0; k < 2; ++k) {
        at(k) = (box[k] + box[k + 2]) / 2;
        at(k + 2) = box[k + 2] - box[k];
      }
      if (b % 17 != 0) continue;
      if (by_rows) at(4) = 0.9f;
      at(numbers - 80 + b % 80) = 0.3f + 0.006f * static_cast<float>(b % 101);
    }
  }
  yolo_outputs<float> x() const {
    const bool by_rows = params.layout == yolo_layout::rows;
    return {{output.data(), by_rows ? boxes : numbers, by_rows ? numbers : boxes}, 1};
  }
};

struct crowd {
  std::vector<float> boxes, scores;

  explicit crowd(std::int64_t count)
      : boxes(clustered_boxes(count)), scores(uniform<float>(count, 0.05f, 1.0f)) {}
  boxes_view<const float> b() const { return boxes; }
  vector_view<const float> s() const { return scores; }
};

struct picture {
  std::vector<std::uint8_t> pixels;
  byte_image image;
  std::vector<float> input;

  picture(std::int64_t height, std::int64_t width)
      : pixels(static_cast<std::size_t>(3 * height * width)),
        image{pixels.data(), height, width, 0},
        input(3 * 640 * 640) {
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  }
  picture(const picture&) = delete;
  picture& operator=(const picture&) = delete;
  vector_view<const byte_image> images() const { return {&image, 1}; }
};

const problems added{
    {"postprocess_yolo/channels/f32/1x8400x80", make<raw_output>(false, 8400),
     VECDET_GATE_CALL(
         postprocess_yolo(d.x(), {}, d.params, own<postprocess_workspace>(), sequential))},
    {"postprocess_yolo/objectness/f32/1x25200x80", make<raw_output>(true, 25200),
     VECDET_GATE_CALL(
         postprocess_yolo(d.x(), {}, d.params, own<postprocess_workspace>(), sequential))},
    {"merge_boxes/greedy/f32/5000", make<crowd>(5000),
     VECDET_GATE_CALL(merge_boxes(d.b(), d.s(), {}, merge_params::sahi_greedy_nmm(),
                                  own<merge_workspace>(), sequential))},
    {"merge_boxes/transitive/f32/5000", make<crowd>(5000),
     VECDET_GATE_CALL(merge_boxes(d.b(), d.s(), {}, merge_params::sahi_nmm(),
                                  own<merge_workspace>(), sequential))},
    {"letterbox/f32/1x720x1280x640", make<picture>(720, 1280),
     VECDET_GATE_CALL(letterbox(d.images(), d.input, {640, 640}, letterbox_params::yolo(),
                                own<letterbox_workspace>(), sequential))},
};

}  // namespace
}  // namespace vecdet::gate
