// SPDX-License-Identifier: Apache-2.0
// Replays postprocessing of raw outputs with each model's default parameters, of which one box in
// 17 has a score above the threshold; merging of clustered detections; and letterboxes of images of
// one size.
#include "../support/operands.hpp"
#include "replay_inputs.hpp"
#include <vecdet/detr_postprocess.hpp>
#include <vecdet/letterbox.hpp>
#include <vecdet/merging.hpp>
#include <vecdet/yolo_postprocess.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

using namespace vecdet;

template <class T>
struct yolo_operands {
  std::vector<T> numbers, boxes;
  std::vector<letterbox_transform> transforms;
  std::vector<image_size> sizes;
  yolo_postprocess_workspace workspace;
};

template <class T>
T stored(double x) {
  return T(static_cast<compute_type<T>>(x));
}

template <class T>
profile::replay_call make_yolo_call(const profile::entry& e, const yolo_postprocess_params& preset,
                                    execution policy) {
  yolo_postprocess_params params = preset;
  const index_t images = e.shape[0], boxes = e.shape[1], classes = e.shape[2];
  params.extras = e.shape.size() > 3 ? e.shape[3] : 0;
  const index_t first = params.scores == yolo_scores::objectness ? 5 : 4;
  const bool is_scored = params.scores == yolo_scores::score_and_class;
  const index_t numbers = first + (is_scored ? 2 : classes) + params.extras;
  const bool by_rows = params.layout == yolo_layout::rows;
  const auto data = std::make_shared<yolo_operands<T>>();
  data->numbers.assign(static_cast<std::size_t>(images * boxes * numbers), stored<T>(0.0));
  for (index_t i = 0; i < images; ++i) {
    for (index_t b = 0; b < boxes; ++b) {
      const auto set = [&](index_t k, double x) {
        const index_t at = by_rows ? (i * boxes + b) * numbers + k : (i * numbers + k) * boxes + b;
        data->numbers[static_cast<std::size_t>(at)] = stored<T>(x);
      };
      const double x = static_cast<double>(b * 37 % 600), y = static_cast<double>(b * 91 % 600);
      for (index_t k = 0; k < 4; ++k) set(k, k == 0 ? x : k == 1 ? y : 20.0);
      if (b % 17 != 0) continue;
      const double score = 0.3 + 0.6 * static_cast<double>(b % 101) / 101;
      if (first == 5) set(4, 0.9);
      set(is_scored ? 4 : first + b % classes, score);
    }
  }
  const image_size size = image_size::height_width(640, 640);
  data->transforms.assign(static_cast<std::size_t>(images),
                          letterbox_transform::centred(size, size));
  const yolo_outputs<T> outputs{
      matrix_view<const T>(data->numbers.data(), images * (by_rows ? boxes : numbers),
                           by_rows ? numbers : boxes),
      images};
  return [=] { postprocess_yolo(outputs, data->transforms, params, data->workspace, policy); };
}

profile::replay_call make_yolo(const profile::entry& e, execution policy) {
  yolo_postprocess_params params = yolo_postprocess_params::v8();
  if (e.variant == "objectness") {
    params = yolo_postprocess_params::v5();
  } else if (e.variant == "score_and_class") {
    params = yolo_postprocess_params::v10();
  } else if (e.variant == "rows") {
    params = yolo_postprocess_params::rt_detr();
  } else if (e.variant != "channels") {
    return {};
  }
  if (e.shape.size() < 3 || e.shape[2] < 1) return {};
  return profile::for_logit_type(
      e.type, [&](auto number) { return make_yolo_call<decltype(number)>(e, params, policy); });
}

template <class T>
profile::replay_call make_detr_call(const profile::entry& e, execution policy) {
  const index_t images = e.shape[0], queries = e.shape[1], classes = e.shape[2];
  const index_t rows = images * queries;
  const auto data = std::make_shared<yolo_operands<T>>();
  data->numbers = bench::head_logits<T>(profile::labels_like_training(rows, classes), classes);
  data->boxes.assign(static_cast<std::size_t>(4 * rows), stored<T>(0.5));
  data->sizes.assign(static_cast<std::size_t>(images), image_size::height_width(640, 640));
  const auto params =
      e.variant == "softmax" ? detr_postprocess_params::detr() : detr_postprocess_params::rt_detr();
  const detr_outputs<T> outputs{{data->numbers.data(), rows, classes},
                                boxes_view<const T>(data->boxes)};
  return [=] {
    postprocess_detr(outputs, vector_view<const image_size>(data->sizes), params, data->workspace,
                     policy);
  };
}

profile::replay_call make_detr(const profile::entry& e, execution policy) {
  if ((e.variant != "softmax" && e.variant != "sigmoid") || e.shape.size() != 3) return {};
  return profile::for_logit_type(
      e.type, [&](auto number) { return make_detr_call<decltype(number)>(e, policy); });
}

template <class T>
profile::replay_call make_merge_call(const profile::entry& e, execution policy) {
  struct operands : bench::nms_operands<T> {
    using bench::nms_operands<T>::nms_operands;
    merge_workspace merging;
  };
  const index_t count = profile::exact_count(e, e.shape[0], 5.0 * sizeof(T));
  const auto data = std::make_shared<operands>(bench::clustered_detections(count));
  const merge_params params =
      e.variant == "transitive" ? merge_params::sahi_nmm() : merge_params::sahi_greedy_nmm();
  return [=] { merge_boxes(data->b(), data->s(), {}, params, data->merging, policy); };
}

profile::replay_call make_merge(const profile::entry& e, execution policy) {
  if ((e.variant != "greedy" && e.variant != "transitive") || e.shape.size() != 1) return {};
  return profile::for_type(
      e.type, [&](auto number) { return make_merge_call<decltype(number)>(e, policy); });
}

/// The name tells the input's height, and the bytes its width.
profile::replay_call make_letterbox(const profile::entry& e, execution policy) {
  if (!e.variant.empty() || e.type != "f32" || e.shape.size() != 4) return {};
  struct operands {
    std::vector<std::uint8_t> pixels;
    std::vector<byte_image> images;
    std::vector<float> batch;
    letterbox_workspace workspace;
  };
  const index_t count = e.shape[0], height = e.shape[1], width = e.shape[2];
  grid_size input{e.shape[3], 0};
  const double bytes_per_image = profile::call_bytes(e) / static_cast<double>(count);
  input.width = static_cast<index_t>(std::llround(
      (bytes_per_image - 3.0 * static_cast<double>(height) * static_cast<double>(width)) /
      (12.0 * static_cast<double>(input.height))));
  if (input.width < 1) return {};
  const auto data = std::make_shared<operands>();
  data->pixels.resize(static_cast<std::size_t>(3 * height * width));
  for (std::size_t i = 0; i < data->pixels.size(); ++i)
    data->pixels[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  data->images.assign(static_cast<std::size_t>(count),
                      byte_image{data->pixels.data(), height, width, 0});
  data->batch.resize(static_cast<std::size_t>(3 * count * input.height * input.width));
  return [=] {
    letterbox(vector_view<const byte_image>(data->images), data->batch, input, {}, data->workspace,
              policy);
  };
}

const profile::replay_registration registered[] = {
    {"postprocess_yolo", make_yolo},
    {"postprocess_detr", make_detr},
    {"merge_boxes", make_merge},
    {"letterbox", make_letterbox},
};

}  // namespace
