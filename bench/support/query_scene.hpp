// SPDX-License-Identifier: Apache-2.0
// Outputs of a DETR's decoder layer in training: most queries predict some ground-truth box, more
// or less precisely, with a higher logit for its class.
#pragma once

#include <vecdet/detr_outputs.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/query_matching.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace vecdet::bench {

struct query_scene {
  static constexpr index_t classes = 80;
  index_t images, queries, boxes;  ///< queries and boxes per image
  std::vector<float> logits, predicted, truth;
  std::vector<float> grads;  ///< those of the logits, then those of the boxes
  std::vector<index_t> labels, offsets{0}, matches;

  query_scene(index_t image_count, index_t query_count, index_t box_count)
      : images(image_count),
        queries(query_count),
        boxes(box_count),
        grads(static_cast<std::size_t>(images * queries * (classes + 4))),
        matches(static_cast<std::size_t>(images * boxes)) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 1);
    std::uniform_real_distribution<float> place(0.1f, 0.9f), size(0.05f, 0.4f);
    for (index_t n = 0; n < images; ++n) {
      for (index_t k = 0; k < boxes; ++k) {
        truth.insert(truth.end(), {place(random), place(random), size(random), size(random)});
        labels.push_back((n + 7 * k) % (classes - 1));  // the last column may be no class
      }
      offsets.push_back((n + 1) * boxes);
      for (index_t q = 0; q < queries; ++q) {
        const index_t near = n * boxes + q % boxes;
        for (index_t c = 0; c < classes; ++c)
          logits.push_back(normal(random) - (c == labels[static_cast<std::size_t>(near)] ? 1 : 4));
        for (index_t k = 0; k < 4; ++k)
          predicted.push_back(std::max(
              0.01f, truth[static_cast<std::size_t>(4 * near + k)] + 0.1f * normal(random)));
      }
    }
  }

  detr_outputs<float> outputs() const {
    return {{logits.data(), images * queries, classes}, predicted};
  }
  ground_truth known() const { return {truth, labels, offsets}; }
  float* logits_grad() { return grads.data(); }
  float* boxes_grad() { return grads.data() + images * queries * classes; }
  void match() {
    query_match_workspace workspace;
    const detr_outputs<float> layer = outputs();
    match_queries<float>({&layer, 1}, known(), matches, {}, workspace);
  }
};

}  // namespace vecdet::bench
