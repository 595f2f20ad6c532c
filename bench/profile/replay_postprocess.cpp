// SPDX-License-Identifier: Apache-2.0
// Replays postprocess with each detector's default parameters, on outputs like its heads', and what
// follows in a two-stage detector: the box head's detections and balanced samples.
#include "replay_inputs.hpp"
#include "replay_levels.hpp"
#include <vecdet/balanced_sample.hpp>
#include <vecdet/box_head.hpp>
#include <vecdet/postprocess.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace {

using namespace vecdet;

template <class T>
struct operands {
  std::vector<float> anchors;
  std::vector<index_t> level_sizes;
  std::vector<T> logits, deltas, centerness;
  std::vector<image_size> sizes;
  postprocess_workspace workspace;
};

/// Five levels, each with a quarter of the anchors of the one before, as a pyramid has.
std::vector<index_t> pyramid_levels(index_t anchors) {
  std::vector<index_t> sizes;
  for (int level = 0; level < 4; ++level) {
    sizes.push_back(anchors * 3 / 4);
    anchors -= sizes.back();
  }
  sizes.push_back(anchors);
  return sizes;
}

template <class T>
profile::replay_call make_call(const profile::entry& e, execution policy) {
  const std::size_t last = e.shape.size() - 1;
  const index_t images = last == 1 ? 1 : e.shape[0];  // one image has no dimension of its own
  const index_t anchors = e.shape[last - 1], classes = e.shape[last];
  const index_t rows = images * anchors;
  const bool is_fcos = e.variant == "fcos", is_ssd = e.variant == "ssd";
  const auto data = std::make_shared<operands<T>>();
  data->anchors = profile::anchors(anchors);
  if (!is_ssd) data->level_sizes = pyramid_levels(anchors);
  const std::vector<index_t> labels = profile::labels_like_training(rows, classes);
  data->logits = bench::head_logits<T>(labels, classes);
  data->deltas = bench::head_deltas<T>(rows);
  data->sizes.assign(static_cast<std::size_t>(images), image_size::height_width(800, 800));
  if (is_fcos) {
    data->centerness.assign(static_cast<std::size_t>(rows), T(0.0f));
    for (T& distance : data->deltas)  // half of the anchor's size to each side, more or less
      distance = T(static_cast<compute_type<T>>(0.5f + static_cast<float>(distance)));
  }
  if (is_ssd) {  // background rows are sure to be so
    for (std::size_t i = 0; i < labels.size(); ++i)
      data->logits[i * static_cast<std::size_t>(classes)] = T(labels[i] < 0 ? 4.0f : 0.0f);
  }
  const head_outputs<T> outputs{{data->logits.data(), rows, classes},
                                boxes_view<const T>(data->deltas),
                                vector_view<const T>(data->centerness)};
  const postprocess_params params = is_fcos              ? postprocess_params::fcos()
                                    : is_ssd             ? postprocess_params::ssd()
                                    : e.variant == "rpn" ? postprocess_params::rpn()
                                                         : postprocess_params::retinanet();
  return [=] {
    postprocess(outputs, boxes_view<const float>(data->anchors),
                vector_view<const index_t>(data->level_sizes),
                vector_view<const image_size>(data->sizes), params, data->workspace, policy);
  };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
  const bool is_rpn = e.variant == "rpn";
  const bool known =
      e.variant == "retinanet" || e.variant == "fcos" || e.variant == "ssd" || is_rpn;
  if (is_rpn && !e.shape.empty() && e.shape.back() != 1) return {};
  if (!known || e.shape.size() < 2 || e.shape.size() > 3) return {};
  return profile::for_logit_type(
      e.type, [&](auto number) { return make_call<decltype(number)>(e, policy); });
}

template <class T>
profile::replay_call make_box_head_call(const profile::entry& e, execution policy) {
  const index_t classes = e.shape[1];
  const index_t rows =
      profile::exact_count(e, e.shape[0], static_cast<double>(classes) * sizeof(T));
  const auto data = std::make_shared<operands<T>>();
  data->anchors = profile::anchors(rows);
  data->level_sizes = {0, rows};  // one image
  data->logits = bench::head_logits<T>(profile::labels_like_training(rows, classes), classes);
  for (index_t i = 0; i < rows; ++i)
    data->logits[static_cast<std::size_t>(i * classes)] = T(static_cast<compute_type<T>>(4));
  data->deltas = bench::head_deltas<T>(rows * classes);
  data->sizes = {image_size::height_width(800, 800)};
  return [=] {
    postprocess_box_head(box_head_outputs<T>{{data->logits.data(), rows, classes},
                                             boxes_view<const T>(data->deltas)},
                         boxes_view<const float>(data->anchors),
                         vector_view<const index_t>(data->level_sizes),
                         vector_view<const image_size>(data->sizes), {}, data->workspace, policy);
  };
}

profile::replay_call make_box_head(const profile::entry& e, execution policy) {
  if (!e.variant.empty() || e.shape.size() != 2) return {};
  return profile::for_logit_type(
      e.type, [&](auto number) { return make_box_head_call<decltype(number)>(e, policy); });
}

profile::replay_call make_sample(const profile::entry& e, execution policy) {
  const bool is_wide = e.type == "i64";
  if (!is_wide && e.type != "i32") return {};
  if (!e.variant.empty() || e.shape.size() != 2) return {};
  struct sample_operands {
    std::vector<index_t> labels, offsets;
    std::vector<std::int32_t> narrow;
    balanced_sample_workspace workspace;
  };
  const auto data = std::make_shared<sample_operands>();
  const index_t images = e.shape[0], count = profile::exact_count(e, e.shape[1], is_wide ? 8 : 4);
  data->labels = profile::labels_like_training(count, 20);
  data->narrow.assign(data->labels.begin(), data->labels.end());
  for (index_t k = 0; k <= images; ++k) data->offsets.push_back(count / images * k);
  data->offsets.back() = count;
  return [=] {
    sample_balanced(is_wide ? labels_view(data->labels) : labels_view(data->narrow), data->offsets,
                    {}, data->workspace, policy);
  };
}

const profile::replay_registration registered[] = {
    {"postprocess", make},
    {"postprocess_box_head", make_box_head},
    {"sample_balanced", make_sample},
};

}  // namespace
