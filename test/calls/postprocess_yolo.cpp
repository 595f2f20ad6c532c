// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include "detections.hpp"
#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/yolo_masks.hpp>

namespace vecdet::test {
namespace {

/// A model's output, images x numbers x boxes or images x boxes x numbers, and its parameters.
template <class T>
struct yolo_output {
  postprocess_yolo_params params;
  index_t images, boxes, columns;
  placed<T> numbers;

  yolo_output(operands& make, const postprocess_yolo_params& model, index_t image_count,
              index_t box_count, index_t classes, index_t extras)
      : params(model), images(image_count), boxes(box_count) {
    const index_t first = params.scores == yolo_scores::objectness ? 5 : 4;
    const bool is_scored = params.scores == yolo_scores::score_and_class;
    columns = first + (is_scored ? 2 : classes) + extras + params.rotated;
    params.extras = extras;
    numbers = make.numbers<T>(images * boxes * columns, 0, 0.2);
    // In training one box in 17 has a score above the threshold.
    const index_t period = make.in_training() ? 17 : 2;
    for (index_t i = 0; i < images; ++i) {
      for (index_t b = 0; b < boxes; ++b) {
        const auto set = [&](index_t k, double x) {
          numbers[by_rows() ? (i * boxes + b) * columns + k : (i * columns + k) * boxes + b] =
              to<T>(x);
        };
        set(0, static_cast<double>(b * 37 % 600));
        set(1, static_cast<double>(b * 91 % 600));
        set(2, 20);
        set(3, 20 + static_cast<double>(b % 3));
        if (is_scored) set(5, static_cast<double>(b % classes));
        if (b % period != 0) continue;
        if (first == 5) set(4, 0.9);
        set(is_scored ? 4 : first + b % classes, 0.3 + 0.6 * static_cast<double>(b % 101) / 101);
      }
    }
  }

  bool by_rows() const { return params.layout == yolo_layout::rows; }
  yolo_outputs<T> view() const {
    return {matrix_view<const T>(numbers.data(), images * (by_rows() ? boxes : columns),
                                 by_rows() ? columns : boxes),
            images};
  }
};

template <class T>
struct yolo_calls {
  yolo_output<T> channels, objectness, score_and_class, rows;
  placed<letterbox_transform> transforms;
  placed_class_lists lists;
  postprocess_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length, 3}, {2, 7, length}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 20}; }

  yolo_calls(operands& make, const problem& p)
      : channels(output(make, postprocess_yolo_params::v8(), p)),
        objectness(output(make, postprocess_yolo_params::v5(), p)),
        score_and_class(output(make, postprocess_yolo_params::v10(), p)),
        rows(output(make, postprocess_yolo_params::rt_detr(), p)),
        transforms(make.copy(std::vector<letterbox_transform>(
            static_cast<std::size_t>(p.shape[0]),
            letterbox_transform::centred(image_size::height_width(640, 640),
                                         image_size::height_width(640, 640))))),
        lists(make.class_lists(p.shape[2])) {}

  static yolo_output<T> output(operands& make, const postprocess_yolo_params& params,
                               const problem& p) {
    return {make, params, p.shape[0], p.shape[1], p.shape[2], p.shape.size() > 3 ? p.shape[3] : 0};
  }

  void list(call_list& c) {
    add(c, "channels", channels);
    add(c, "objectness", objectness);
    add(c, "score_and_class", score_and_class);
    add(c, "rows", rows);
  }

  void add(call_list& c, const std::string& variant, const yolo_output<T>& of) {
    const accesses inputs = reads(of.numbers, transforms);
    add(c, variant, of, of.params, inputs);
    postprocess_yolo_params params = of.params;
    lists.give_limits(params);
    if (params.suppress) params.class_groups = lists.groups.in();
    add(c, variant + "/by_class", of, params, inputs.reads(lists));
  }
  void add(call_list& c, const std::string& name, const yolo_output<T>& of,
           const postprocess_yolo_params& params, const accesses& inputs) {
    c.add("postprocess_yolo/" + name, inputs, [&of, params, this](threading policy) {
      const detections_view found =
          postprocess_yolo(of.view(), transforms.in(), params, workspace, policy);
      return std::tuple_cat(
          parts(found),
          std::make_tuple(found.sources,
                          vector_view<const float>(found.extras.data(),
                                                   found.extras.rows() * found.extras.cols())));
    });
  }
};

/// Models of rotated boxes.
template <class T>
struct yolo_rotated_calls : yolo_calls<T> {
  yolo_output<T> rotated, ends;

  yolo_rotated_calls(operands& make, const problem& p)
      : yolo_calls<T>(make, p),
        rotated(yolo_calls<T>::output(make, postprocess_yolo_params::v8_obb(), p)),
        ends(yolo_calls<T>::output(make, postprocess_yolo_params::v26_obb(), p)) {
    ends.params.rotated_result_format = rotated_format::xyxyxyxy;
  }

  void list(call_list& c) {
    this->add(c, "rotated_channels", rotated);
    this->add(c, "rotated_score_and_class", ends);
  }
};

/// Calls with additional numbers per box, such as key points or mask coefficients.
template <class T>
struct yolo_extras_calls : yolo_calls<T> {
  using yolo_calls<T>::yolo_calls;
  static std::vector<shape> sweep(index_t length) { return {{2, length, 3, 6}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 3, 6}; }
};

/// Models for segmentation. Shapes are images x boxes x classes x prototypes x height x width of
/// the prototypes; the network's input has four times their sides.
template <class T>
struct yolo_masks_calls {
  grid_size map, input;
  yolo_output<T> channels, score_and_class;
  placed<T> prototypes;
  placed<letterbox_transform> transforms;
  yolo_masks_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{2, 9, 3, length, 20, 25}, {2, 9, 3, 4, 20, length}};
  }
  static shape sized(index_t rows) { return {2, rows / 2, 3, 5, 150, 150}; }
  static bool takes(const problem& p) { return p.shape[4] < 1 << 18 && p.shape[5] < 1 << 18; }

  yolo_masks_calls(operands& make, const problem& p)
      : map{p.shape[4], p.shape[5]},
        input{4 * map.height, 4 * map.width},
        channels(make, postprocess_yolo_params::v8(), p.shape[0], p.shape[1], p.shape[2],
                 p.shape[3]),
        score_and_class(make, postprocess_yolo_params::v10(), p.shape[0], p.shape[1], p.shape[2],
                        p.shape[3]),
        prototypes(make.numbers<T>(p.shape[0] * p.shape[3] * map.height * map.width, -1, 1)) {
    const auto size = image_size::height_width(static_cast<double>(input.height),
                                               static_cast<double>(input.width));
    transforms = make.copy(std::vector<letterbox_transform>(
        static_cast<std::size_t>(p.shape[0]), letterbox_transform::centred(size, size)));
  }

  void list(call_list& c) {
    add(c, "channels", channels);
    add(c, "score_and_class", score_and_class);
  }
  void add(call_list& c, const std::string& variant, const yolo_output<T>& of) {
    const std::string name = "postprocess_yolo/" + variant;
    c.add(name + "/masks", reads(of.numbers, prototypes, transforms),
          [&of, this](threading policy) { return run(of, transforms.in(), {}, {}, policy); });
    prototype_masks_params params;
    params.rule = mask_rule::cropped;
    params.pixels = mask_pixels::bytes;
    c.add(name + "/masks_in_input", reads(of.numbers, prototypes),
          [&of, params, this](threading policy) { return run(of, {}, params, input, policy); });
  }
  auto run(const yolo_output<T>& of, vector_view<const letterbox_transform> images,
           const prototype_masks_params& params, grid_size size, threading policy) {
    const feature_view<const T> maps(prototypes.data(), of.images, of.params.extras, map.height,
                                     map.width, feature_layout::nchw);
    const yolo_masks_view found =
        postprocess_yolo(of.view(), maps, images, of.params, params, size, workspace, policy);
    return std::tuple_cat(parts(found.detections), std::make_tuple(found.masks));
  }
};

const registered_family registered[] = {
    calls_of<yolo_calls, float, bfloat16>("postprocess_yolo"),
    calls_of<yolo_rotated_calls, float, bfloat16>("postprocess_yolo/rotated"),
    calls_of<yolo_extras_calls, float, bfloat16>("postprocess_yolo/extras"),
    calls_of<yolo_masks_calls, float, bfloat16>("postprocess_yolo/masks"),
};

}  // namespace
}  // namespace vecdet::test
