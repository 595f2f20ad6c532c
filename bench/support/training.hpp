// SPDX-License-Identifier: Apache-2.0
// Inputs of any size, like those of a detector in training.
#pragma once

#include "scene.hpp"
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vecdet::bench {

/// One label in a thousand is foreground, three in a hundred are ignored, the rest background.
inline std::vector<index_t> training_labels(index_t rows, index_t classes) {
  std::vector<index_t> labels(static_cast<std::size_t>(rows), -1);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (i % 1000 == 550) labels[i] = static_cast<index_t>(i / 1000) % classes;
    if (i % 100 < 3) labels[i] = -2;
  }
  return labels;
}

/// RetinaNet's anchors, repeated from the first one if more are requested.
inline std::vector<float> training_anchors(index_t count) {
  static const std::vector<float> all = retinanet_anchors();
  std::vector<float> some;
  some.reserve(static_cast<std::size_t>(4 * count));
  while (static_cast<index_t>(some.size()) < 4 * count) {
    const std::size_t n = std::min(all.size(), static_cast<std::size_t>(4 * count) - some.size());
    some.insert(some.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return some;
}

}  // namespace vecdet::bench
