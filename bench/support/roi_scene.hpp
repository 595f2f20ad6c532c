// SPDX-License-Identifier: Apache-2.0
// Boxes on one feature map, like those of a pyramid's level: sides from 4 to 64 locations, with
// equal numbers in each octave.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/roi_align.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace vecdet::bench {

template <class T>
struct roi_scene {
  using real = compute_type<T>;
  index_t count, channels, side, rows, columns;
  feature_layout layout;
  std::vector<T> features, bins, grad, upstream;
  std::vector<real> boxes;
  roi_align_workspace workspace;

  roi_scene(index_t box_count, index_t channel_count, index_t map_side, index_t bins_rows,
            index_t bins_columns, feature_layout every_layout)
      : count(box_count),
        channels(channel_count),
        side(map_side),
        rows(bins_rows),
        columns(bins_columns),
        layout(every_layout) {
    features.resize(static_cast<std::size_t>(channels * side * side));
    bins.resize(static_cast<std::size_t>(count * channels * rows * columns));
    grad = features;
    upstream = bins;
    for (auto* numbers : {&features, &upstream})
      for (T& x : *numbers) x = T(static_cast<real>(next() * 2 - 1));
    const double longest = std::min(64.0, static_cast<double>(side));
    for (index_t i = 0; i < count; ++i) {
      const double w = std::min(longest, 4 * std::exp2(4 * next()));
      const double h = std::min(longest, 4 * std::exp2(4 * next()));
      const double x = next() * (static_cast<double>(side) - w);
      const double y = next() * (static_cast<double>(side) - h);
      for (const double v : {x, y, x + w, y + h}) boxes.push_back(static_cast<real>(v));
    }
  }

  roi_boxes<real> all_boxes() const { return {boxes_view<const real>(boxes.data(), count)}; }
  feature_view<T> map(std::vector<T>& numbers) const {
    return {numbers.data(), 1, channels, side, side, layout};
  }
  feature_view<T> box_features(std::vector<T>& numbers) const {
    return {numbers.data(), count, channels, rows, columns, layout};
  }
  void forward(const roi_align_params& params, threading policy) {
    roi_align(map(features), all_boxes(), box_features(bins), params, workspace, policy);
  }
  void backward(const roi_align_params& params, threading policy) {
    roi_align_grad(box_features(upstream), all_boxes(), map(grad), params, workspace, policy);
  }

 private:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  std::uint64_t state_ = 1;
};

}  // namespace vecdet::bench
