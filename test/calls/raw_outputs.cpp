// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/detr_postprocess.hpp>
#include <vecdet/letterbox.hpp>
#include <vecdet/merging.hpp>
#include <vecdet/yolo_postprocess.hpp>

namespace vecdet {
namespace test {
namespace {

std::tuple<boxes_view<const float>, vector_view<const float>, vector_view<const index_t>,
           vector_view<const index_t>>
parts(const yolo_detections_view& found) {
  return {found.boxes, found.scores, found.labels, found.offsets};
}

template <class T>
struct yolo_calls {
  index_t images, boxes, classes, extras;
  placed<T> numbers;
  placed<letterbox_transform> transforms;
  yolo_postprocess_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length, 3}, {2, 7, length}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 20}; }

  yolo_calls(operands& make, const problem& p)
      : images(p.shape[0]),
        boxes(p.shape[1]),
        classes(p.shape[2]),
        numbers(make.numbers<T>(images * boxes * (5 + classes + 1), 0.01, 0.6)),
        transforms(make.copy(std::vector<letterbox_transform>(
            static_cast<std::size_t>(images),
            letterbox_transform::centred(image_size::height_width(640, 640),
                                         image_size::height_width(640, 640))))) {}

  void list(call_list& c) {
    add(c, "channels", yolo_postprocess_params::v8());
    add(c, "objectness", yolo_postprocess_params::v5());
    add(c, "score_and_class", yolo_postprocess_params::v10());
    add(c, "rows", yolo_postprocess_params::rt_detr());
  }

  void add(call_list& c, const std::string& variant, const yolo_postprocess_params& params) {
    const bool is_scored = params.scores == yolo_scores::score_and_class;
    const index_t first = params.scores == yolo_scores::objectness ? 5 : 4;
    const index_t columns = first + (is_scored ? 2 : classes);
    const bool by_rows = params.layout == yolo_layout::rows;
    c.add("postprocess_yolo/" + variant, reads(numbers, transforms), [=](execution policy) {
      const yolo_outputs<T> outputs{
          matrix_view<const T>(numbers.data(), images * (by_rows ? boxes : columns),
                               by_rows ? columns : boxes),
          images};
      return parts(postprocess_yolo(outputs, transforms.in(), params, workspace, policy));
    });
  }
};

template <class T>
struct detr_calls {
  placed<index_t> labels;
  placed_matrix<T> logits;
  placed_boxes<T> boxes;
  placed<image_size> images;
  yolo_postprocess_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length, 4}, {2, 3, 1 + length}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 20}; }

  detr_calls(operands& make, const problem& p)
      : labels(make.labels(p.shape[0] * p.shape[1], p.shape[2])),
        logits(make.logits<T>(labels, p.shape[2])),
        boxes(make.numbers<T>(4 * p.shape[0] * p.shape[1], 0, 1)),
        images(make.images(p.shape[0])) {}

  void list(call_list& c) {
    add(c, "softmax", detr_postprocess_params::detr());
    add(c, "sigmoid", detr_postprocess_params::rt_detr());
  }
  void add(call_list& c, const std::string& variant, const detr_postprocess_params& params) {
    c.add("postprocess_detr/" + variant, reads(logits, boxes, images), [=](execution policy) {
      return parts(postprocess_detr(detr_outputs<T>{logits.in(), boxes.in()}, images.in(), params,
                                    workspace, policy));
    });
  }
};

template <class T>
struct merge_calls {
  placed_detections<T> found;
  merge_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows > 3000 ? rows / 12 : rows}; }

  merge_calls(operands& make, const problem& p)
      : found(make.detections<T>(p.exact_count(p.shape[0], 5 * sizeof(T)))) {}

  void list(call_list& c) {
    add(c, "greedy", merge_params::sahi_greedy_nmm());
    add(c, "transitive", merge_params::sahi_nmm());
  }
  void add(call_list& c, const std::string& variant, const merge_params& params) {
    c.add("merge_boxes/" + variant, reads(found.boxes, found.scores), [=](execution policy) {
      const auto merged =
          merge_boxes(found.boxes.in(), found.scores.in(), {}, params, workspace, policy);
      return std::make_tuple(merged.boxes, merged.scores, merged.members, merged.offsets);
    });
  }
};

template <class T>
struct letterbox_calls {
  index_t height, width;
  grid_size input;
  placed<std::uint8_t> pixels;
  std::vector<byte_image> images;
  placed<T> batch;
  letterbox_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, 5, length, 32}}; }
  static shape sized(index_t rows) { return {2, 60, rows / 60 + 1, 32}; }
  static bool takes(const problem& p) { return input_width(p) >= 1; }
  /// Does not stand in the shape.
  static index_t input_width(const problem& p) {
    if (p.bytes == 0) return 48;
    const double per_image = p.bytes / static_cast<double>(p.shape[0]);
    return std::llround((per_image - 3.0 * static_cast<double>(p.shape[1] * p.shape[2])) /
                        (12.0 * static_cast<double>(p.shape[3])));
  }

  letterbox_calls(operands& make, const problem& p)
      : height(p.shape[1]),
        width(p.shape[2]),
        input{p.shape[3], input_width(p)},
        pixels(make.room<std::uint8_t>(3 * height * width)),
        images(static_cast<std::size_t>(p.shape[0]), byte_image{pixels.data(), height, width, 0}),
        batch(make.room<T>(3 * p.shape[0] * input.height * input.width)) {
    std::uint32_t state = 1;
    for (std::uint8_t& pixel : pixels)
      pixel = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  }

  void list(call_list& c) {
    c.add("letterbox/", reads(pixels).writes(batch), [this](execution policy) {
      letterbox(vector_view<const byte_image>(images), batch, input, {}, workspace, policy);
    });
  }
};

const registered_family registered[] = {
    calls_of<yolo_calls, float, bfloat16>("yolo_postprocess"),
    calls_of<detr_calls, float, bfloat16>("yolo_postprocess/detr"),
    calls_of<merge_calls, float, bfloat16, double>("merge_boxes"),
    calls_of<letterbox_calls, float>("letterbox"),
};

}  // namespace
}  // namespace test
}  // namespace vecdet
