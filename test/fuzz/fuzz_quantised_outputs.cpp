// SPDX-License-Identifier: Apache-2.0
// Quantised outputs for any shape, integers, scale and options, in one tensor and in two: results
// are bit-identical to those of the functions in float on the dequantised numbers, and the same
// inputs are errors.
#include "class_lists.hpp"
#include "outcome.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>

using namespace vecdet;
using fuzz::outcome;
using fuzz::outcome_of;

namespace {

/// A matrix of integers, and its numbers in float.
template <class T>
struct both_matrices {
  index_t rows, cols, stride;
  fuzz::tensor<T> stored;
  fuzz::tensor<float> dequantised;
  float scale;
  int zero_point;

  both_matrices(fuzz::input& in, index_t row_count, index_t col_count, double usual_scale)
      : rows(row_count),
        cols(col_count),
        stride(cols + in.one_of<index_t>({0, 0, 3})),
        stored(rows == 0 ? 0 : (rows - 1) * stride + cols),
        dequantised(stored.size()),
        scale(static_cast<float>(in.one_of(
            {usual_scale, usual_scale, in.tame(0.001, 1), 0x1p-126, 0x1p120, 1.0 / 256}))),
        zero_point(in.one_of<int>({0, 0, 1, in.byte()}) + std::numeric_limits<T>::min()) {
    // Byte by byte, then from few values, so that many are equal.
    const int fewest = in.byte(), step = in.byte() % 8;
    for (index_t i = 0; i < stored.size(); ++i) {
      const int byte = i < 400 ? in.byte() : (fewest + step * static_cast<int>(i % 31)) % 256;
      const int q = byte + std::numeric_limits<T>::min();
      stored.data()[i] = static_cast<T>(q);
      const volatile float difference = static_cast<float>(q - zero_point);
      dequantised.data()[i] = difference * scale;
    }
  }
  quantised_matrix<T> quantised() const {
    return {matrix_view<const T>(stored.data(), rows, cols, stride), scale, zero_point};
  }
  matrix_view<const float> floats() const { return {dequantised.data(), rows, cols, stride}; }
};

/// Compares quantised(outcome, policy) with dequantised(outcome).
template <class Quantised, class Float>
void compare(const char* what, const Quantised& quantised, const Float& dequantised) {
  fuzz::on_every_isa(what, [&](fuzz::results& results) {
    const outcome expected = outcome_of(dequantised);
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const outcome found = outcome_of([&](outcome& to) { quantised(to, policy); });
      if (!(found == expected)) fuzz::fail(std::string(what) + " differs from that of floats");
    }
    for (const float x : expected.floats) results.add(static_cast<double>(x));
    if (!expected.error.empty()) throw std::invalid_argument(expected.error);
  });
}

template <class T, class Other>
void yolo(fuzz::input& in) {
  postprocess_yolo_params params =
      in.one_of({postprocess_yolo_params::v8(), postprocess_yolo_params::v5(),
                 postprocess_yolo_params::rt_detr()});
  if (params.scores == yolo_scores::classes)
    params.layout = in.one_of({yolo_layout::channels, yolo_layout::rows});
  params.score_threshold = in.one_of({0.25, 0.0, 1.0, in.tame(0, 1), 64.0 / 255, -0.5});
  params.multi_label = in.flag();
  params.suppress = in.flag();
  params.normalised = in.flag();
  params.max_candidates = in.one_of<index_t>({30000, 0, 1, in.integer(0, 300)});
  params.extras = in.one_of<index_t>({0, postprocess_yolo_params::unknown_extras, 6});
  const index_t images = in.integer(0, 3), boxes = in.integer(0, 700), classes = in.integer(1, 40);
  const fuzz::class_lists lists(in, 0, classes);
  lists.give_limits(params);
  if (params.suppress) params.class_groups = lists.groups;
  const index_t numbers = 4 + (params.scores == yolo_scores::objectness ? 1 : 0) + classes +
                          std::max(params.extras, index_t{0});
  const bool by_rows = params.layout == yolo_layout::rows;
  const both_matrices<T> output(in, images * (by_rows ? boxes : numbers), by_rows ? numbers : boxes,
                                1.0 / 255);
  const std::vector<letterbox_transform> transforms(
      in.flag() ? static_cast<std::size_t>(images) : 0,
      letterbox_transform::centred(image_size::height_width(300, 400),
                                   image_size::height_width(640, 640)));
  postprocess_workspace workspace, float_workspace;
  compare(
      "a quantised output",
      [&](outcome& to, threading policy) {
        add_detections(to, postprocess_yolo(quantised_yolo_outputs<T>{output.quantised(), images},
                                            transforms, params, workspace, policy));
      },
      [&](outcome& to) {
        add_detections(to, postprocess_yolo(yolo_outputs<float>{output.floats(), images},
                                            transforms, params, float_workspace));
      });
  // Coordinates of another type and scale than the scores.
  const auto rows_of = [&](index_t count) { return images * (by_rows ? boxes : count); };
  const both_matrices<Other> coordinates(in, rows_of(4), by_rows ? 4 : boxes, 2.5);
  const both_matrices<T> scores(in, rows_of(numbers - 4), by_rows ? numbers - 4 : boxes, 1.0 / 255);
  compare(
      "a quantised output in two tensors",
      [&](outcome& to, threading policy) {
        add_detections(to, postprocess_yolo(separate_yolo_outputs{coordinates.quantised(),
                                                                  scores.quantised(), images},
                                            transforms, params, workspace, policy));
      },
      [&](outcome& to) {
        add_detections(to, postprocess_yolo(
                               separate_yolo_outputs{coordinates.floats(), scores.floats(), images},
                               transforms, params, float_workspace));
      });
}

template <class T>
void detr(fuzz::input& in) {
  postprocess_detr_params params =
      in.one_of({postprocess_detr_params::detr(), postprocess_detr_params::rt_detr()});
  params.score_threshold = in.one_of({0.5, 0.0, 1.0, in.tame(0, 1)});
  params.max_detections = in.one_of<index_t>({300, 0, 1, in.integer(0, 30)});
  const index_t images = in.integer(0, 3), queries = in.integer(0, 60), classes = in.integer(0, 99);
  const fuzz::class_lists lists(in, 0, classes - (params.softmax ? 1 : 0));
  lists.give_limits(params);
  const both_matrices<T> logits(in, images * queries, classes, 0.05);
  const both_matrices<T> boxes(in, images * queries, 4, 1.0 / 255);
  std::vector<float> packed;
  for (index_t i = 0; i < boxes.rows; ++i)
    for (index_t k = 0; k < 4; ++k) packed.push_back(boxes.floats()(i, k));
  const std::vector<image_size> sizes(static_cast<std::size_t>(images),
                                      image_size::height_width(300, 400));
  const vector_view<const image_size> all_sizes(sizes);
  postprocess_workspace workspace, float_workspace;
  compare(
      "a quantised DETR",
      [&](outcome& to, threading policy) {
        add_detections(
            to, postprocess_detr(quantised_detr_outputs<T>{logits.quantised(), boxes.quantised()},
                                 all_sizes, params, workspace, policy));
      },
      [&](outcome& to) {
        add_detections(to, postprocess_detr(detr_outputs<float>{logits.floats(), packed}, all_sizes,
                                            params, float_workspace));
      });
}

template <class T>
void topk(fuzz::input& in) {
  const double threshold = in.one_of({0.05, 0.0, 1.0, 0.5, in.tame(0, 1)});
  const index_t k = in.one_of<index_t>({1000, 1, 0, 10, in.integer(0, 400)});
  const score_kind kind = in.one_of({score_kind::logits, score_kind::probabilities});
  const index_t rows = in.integer(0, 300), cols = in.integer(0, 600);
  const both_matrices<T> logits(in, rows, cols, 0.05);
  filter_topk_workspace workspace, float_workspace;
  const auto add = [](outcome& to, const filter_topk_result& found) {
    to.add(found.logits);
    to.add(found.elements);
  };
  compare(
      "quantised top-k",
      [&](outcome& to, threading policy) {
        add(to, filter_topk(logits.quantised(), threshold, k, workspace, policy, kind));
      },
      [&](outcome& to) {
        add(to,
            filter_topk(logits.floats(), threshold, k, float_workspace, threading::parallel, kind));
      });
}

template <class T, class Other>
void any_function(fuzz::input& in) {
  switch (in.byte() % 4) {
    case 0:
      return detr<T>(in);
    case 1:
      return topk<T>(in);
    default:
      return yolo<T, Other>(in);
  }
}

}  // namespace

void fuzz::target(input& in) {
  in.flag() ? any_function<std::int8_t, std::uint8_t>(in)
            : any_function<std::uint8_t, std::int8_t>(in);
}
