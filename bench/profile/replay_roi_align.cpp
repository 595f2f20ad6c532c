// SPDX-License-Identifier: Apache-2.0
// Replays RoIAlign with as many boxes on a map of 100 x 100, and of a pyramid on two such levels: a
// name tells no map.
#include "../support/roi_scene.hpp"
#include "replay_inputs.hpp"
#include <vecdet/multiscale_roi_align.hpp>

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vecdet;

/// What a variant says: "nhwc_aligned1_sampling2", "aligned0_adaptive".
struct variant_parts {
  bool is_known = false;
  feature_layout layout = feature_layout::nchw;
  roi_align_params params;

  explicit variant_parts(std::string variant) {
    const auto take = [&](const std::string& prefix) {
      const bool has = variant.compare(0, prefix.size(), prefix) == 0;
      if (has) variant.erase(0, prefix.size());
      return has;
    };
    if (take("nhwc_")) layout = feature_layout::nhwc;
    params.aligned = take("aligned1_");
    if (!params.aligned && !take("aligned0_")) return;
    if (variant == "adaptive") {
      is_known = true;
    } else {
      params.sampling_ratio = profile::number_after<index_t>("sampling", variant).value_or(0);
      is_known = params.sampling_ratio >= 1 && params.sampling_ratio <= 1024;
    }
  }
};

template <class T>
struct operands : bench::roi_scene<T> {
  static constexpr index_t side = 100;
  std::vector<T> other_features, other_grad;
  std::vector<double> scales{1, 0.5};
  std::vector<feature_view<const T>> levels;
  std::vector<feature_view<T>> grads;
  multiscale_roi_align_params params;

  operands(const profile::entry& e, index_t box_count, const variant_parts& variant)
      : bench::roi_scene<T>(box_count, e.shape[1], side, e.shape[2], e.shape[3], variant.layout),
        other_features(this->features),
        other_grad(this->grad),
        levels{this->map(this->features), this->map(other_features)},
        grads{this->map(this->grad), this->map(other_grad)} {
    params.scales = scales;
    params.sampling_ratio = variant.params.sampling_ratio;
    params.aligned = variant.params.aligned;
    params.canonical_size = 16;
    params.canonical_level = 1;
  }
};

template <class T>
profile::replay_call make_call(const profile::entry& e, const variant_parts& variant,
                               execution policy) {
  const double box_bytes = static_cast<double>(e.shape[1] * e.shape[2] * e.shape[3]) * sizeof(T);
  const auto data =
      std::make_shared<operands<T>>(e, profile::exact_count(e, e.shape[0], box_bytes), variant);
  const roi_align_params params = variant.params;
  if (e.function == "roi_align") return [=] { data->forward(params, policy); };
  if (e.function == "roi_align_grad") return [=] { data->backward(params, policy); };
  if (e.function == "multiscale_roi_align") {
    return [=] {
      multiscale_roi_align(vector_view<const feature_view<const T>>(data->levels),
                           data->all_boxes(), data->box_features(data->bins), data->params,
                           data->workspace, policy);
    };
  }
  return [=] {
    multiscale_roi_align_grad(data->box_features(data->upstream), data->all_boxes(),
                              vector_view<const feature_view<T>>(data->grads), data->params,
                              data->workspace, policy);
  };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  const variant_parts variant(e.variant);
  if (!variant.is_known || e.shape.size() != 4) return {};
  return profile::for_type(
      e.type, [&](auto number) { return make_call<decltype(number)>(e, variant, policy); });
}

const profile::replay_registration registered[] = {
    {"roi_align", make},
    {"roi_align_grad", make},
    {"multiscale_roi_align", make},
    {"multiscale_roi_align_grad", make},
};

}  // namespace
