// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/quantised_outputs.hpp>

#include <cstdint>
#include <limits>

namespace vecdet::test {
namespace {

/// Integers whose numbers are `number(i, j)`, rounded.
template <class T, class Number>
placed_matrix<T> quantised_numbers(operands& make, index_t rows, index_t cols,
                                   const Number& number) {
  placed_matrix<T> to = make.matrix<T>(rows, cols);
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < cols; ++j)
      to[i * to.stride + j] =
          static_cast<T>(std::llround(255 * number(i, j)) + std::numeric_limits<T>::min());
  return to;
}
/// From 0 to 1.
template <class T>
quantised_matrix<T> fractions(const placed_matrix<T>& stored) {
  return {stored.in(), 1.0 / 255, int{std::numeric_limits<T>::min()}};
}

template <class T>
struct quantised_yolo_calls {
  /// A model's output in one matrix, and the same scores in a matrix of their own.
  struct output {
    postprocess_yolo_params params;
    index_t images;
    placed_matrix<T> numbers, coordinates, scores;

    output(operands& make, const postprocess_yolo_params& model, const problem& p)
        : params(model),
          images(p.shape[0]),
          numbers(part(make, p, 0, columns(p))),
          coordinates(part(make, p, 0, 4)),
          scores(part(make, p, 4, columns(p))) {
      params.normalised = true;
      params.extras = 0;
    }
    index_t columns(const problem& p) const {
      return (params.scores == yolo_scores::objectness ? 5 : 4) + p.shape[2];
    }
    /// Numbers [first, last) of each box. In training one box in 17 has a score above the
    /// threshold.
    placed_matrix<T> part(operands& make, const problem& p, index_t first, index_t last) const {
      const index_t count = last - first, boxes = p.shape[1];
      const index_t period = make.in_training() ? 17 : 2;
      const bool has_objectness = params.scores == yolo_scores::objectness;
      const auto number = [period, p, has_objectness](index_t box, index_t k) {
        if (k < 4) return k < 2 ? static_cast<double>(box * (k + 37) % 97) / 97 : 0.05;
        if (k == 4 && has_objectness) return box % period == 0 ? 0.9 : 0.1;
        const bool is_best = (k - 4 - index_t{has_objectness}) == box % p.shape[2];
        return box % period == 0 && is_best ? 0.3 + 0.6 * static_cast<double>(box % 101) / 101
                                            : static_cast<double>(box * k % 40) / 255;
      };
      if (params.layout == yolo_layout::rows)
        return quantised_numbers<T>(make, images * boxes, count, [&](index_t i, index_t j) {
          return number(i % boxes, first + j);
        });
      return quantised_numbers<T>(make, images * count, boxes, [&](index_t i, index_t j) {
        return number(j, first + i % count);
      });
    }
  };
  output channels, objectness, rows;
  placed<letterbox_transform> transforms;
  placed_class_lists lists;
  postprocess_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length, 3}, {2, 7, length}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 20}; }

  quantised_yolo_calls(operands& make, const problem& p)
      : channels(make, postprocess_yolo_params::v8(), p),
        objectness(make, postprocess_yolo_params::v5(), p),
        rows(make, postprocess_yolo_params::rt_detr(), p),
        transforms(make.copy(std::vector<letterbox_transform>(
            static_cast<std::size_t>(p.shape[0]),
            letterbox_transform::centred(image_size::height_width(640, 640),
                                         image_size::height_width(640, 640))))),
        lists(make.class_lists(p.shape[2])) {}

  void list(call_list& c) {
    add(c, "channels", channels);
    add(c, "objectness", objectness);
    add(c, "rows", rows);
  }
  void add(call_list& c, const std::string& variant, const output& of) {
    add(c, variant, of, of.params, reads(of.numbers, transforms), false);
    add(c, variant + "/separate", of, of.params, reads(of.coordinates, of.scores, transforms),
        true);
    postprocess_yolo_params params = of.params;
    params.multi_label = true;
    lists.give_limits(params);
    add(c, variant + "/multi_label", of, params, reads(of.numbers, transforms, lists), false);
  }
  void add(call_list& c, const std::string& name, const output& of,
           const postprocess_yolo_params& params, const accesses& inputs, bool is_separate) {
    c.add("postprocess_yolo/" + name, inputs, [&of, params, is_separate, this](threading policy) {
      const detections_view found =
          is_separate
              ? postprocess_yolo(
                    separate_yolo_outputs<quantised_matrix<T>>{fractions(of.coordinates),
                                                               fractions(of.scores), of.images},
                    transforms.in(), params, workspace, policy)
              : postprocess_yolo(quantised_yolo_outputs<T>{fractions(of.numbers), of.images},
                                 transforms.in(), params, workspace, policy);
      return std::make_tuple(found.boxes, found.scores, found.labels, found.offsets, found.sources);
    });
  }
};

/// Logits from -8 to 8, most of them low, and boxes.
template <class T>
placed_matrix<T> quantised_logits(operands& make, index_t rows, index_t cols) {
  const index_t period = make.in_training() ? 997 : 11;
  return quantised_numbers<T>(make, rows, cols, [&](index_t i, index_t j) {
    const index_t at = i * cols + j;
    return static_cast<double>(at % period == 0 ? at % 256 : at * 7 % 60) / 255;
  });
}
template <class T>
quantised_matrix<T> logits_of(const placed_matrix<T>& stored) {
  return {stored.in(), 1.0 / 16, int{std::numeric_limits<T>::min()} + 128};
}

template <class T>
struct quantised_detr_calls {
  placed_matrix<T> logits, boxes;
  placed<image_size> images;
  postprocess_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length, 4}, {2, 3, 1 + length}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 20}; }

  quantised_detr_calls(operands& make, const problem& p)
      : logits(quantised_logits<T>(make, p.shape[0] * p.shape[1], p.shape[2])),
        boxes(quantised_numbers<T>(
            make, p.shape[0] * p.shape[1], 4,
            [](index_t i, index_t j) { return static_cast<double>((i + 3 * j) % 50) / 50; })),
        images(make.images(p.shape[0])) {}

  void list(call_list& c) {
    add(c, "softmax", postprocess_detr_params::detr());
    add(c, "sigmoid", postprocess_detr_params::rt_detr());
  }
  void add(call_list& c, const std::string& variant, const postprocess_detr_params& params) {
    c.add("postprocess_detr/" + variant, reads(logits, boxes, images),
          [this, params](threading policy) {
            const auto found =
                postprocess_detr(quantised_detr_outputs<T>{logits_of(logits), fractions(boxes)},
                                 images.in(), params, workspace, policy);
            return std::make_tuple(found.boxes, found.scores, found.labels, found.offsets);
          });
  }
};

template <class T>
struct quantised_topk_calls {
  placed_matrix<T> logits;
  double threshold, probability;
  filter_topk_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{1 + length / 7, length}, {length, 7}, {1 + length / 7, 91}};
  }
  static shape sized(index_t rows) { return {rows, 20}; }
  static bool takes(const problem& p) {
    const auto is_score = [&](const char* prefix) {
      const auto score = number_after<double>(prefix, p.variant, 0.05);
      return score >= 0 && score <= 1;
    };
    return is_score("threshold") && is_score("probability");
  }

  quantised_topk_calls(operands& make, const problem& p)
      : logits(quantised_logits<T>(make, p.shape[0], p.shape[1])),
        threshold(number_after<double>("threshold", p.variant, 0.05)),
        probability(number_after<double>("probability", p.variant, 0.05)) {}

  void list(call_list& c) {
    add(c, text_of("threshold", threshold), 1000, threshold, score_kind::logits);
    add(c, text_of("threshold", threshold) + "/half", 1 + logits.rows / 2, threshold,
        score_kind::logits);
    add(c, text_of("probability", probability), 1000, probability, score_kind::probabilities);
  }
  void add(call_list& c, const std::string& name, index_t k, double score, score_kind kind) {
    c.add("filter_topk/" + name, reads(logits), [this, score, k, kind](threading policy) {
      const auto found = filter_topk(logits_of(logits), score, k, workspace, policy, kind);
      return std::make_tuple(found.elements, found.logits);
    });
  }
};

const registered_family registered[] = {
    calls_of<quantised_yolo_calls, std::int8_t, std::uint8_t>("quantised_outputs/yolo"),
    calls_of<quantised_detr_calls, std::int8_t, std::uint8_t>("quantised_outputs/detr"),
    calls_of<quantised_topk_calls, std::int8_t, std::uint8_t>("quantised_outputs/topk"),
};

}  // namespace
}  // namespace vecdet::test
