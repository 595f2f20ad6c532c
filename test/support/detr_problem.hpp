// SPDX-License-Identifier: Apache-2.0
// Outputs of a DETR's decoder layers and their ground truth, random.
#pragma once

#include "random.hpp"
#include "values.hpp"
#include <vecdet/detr_outputs.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::test {

/// A layer's outputs for images x queries.
template <class T>
struct random_layer {
  index_t rows, classes;
  std::vector<T> logits, boxes;

  random_layer(index_t row_count, index_t class_count, random_generator& generator)
      : rows(row_count), classes(class_count) {
    for (index_t i = 0; i < rows * classes; ++i)
      logits.push_back(to<T>(2 * generator.normal() - 2));
    for (index_t i = 0; i < 4 * rows; ++i)
      boxes.push_back(to<T>(generator.uniform(i % 4 < 2 ? 0.0 : 0.02, i % 4 < 2 ? 1 : 0.5)));
  }
  detr_outputs<T> view() const { return {{logits.data(), rows, classes}, boxes}; }
};

/// Ground-truth boxes: image i has counts[i] of them.
struct random_truth {
  std::vector<float> boxes;
  std::vector<index_t> classes, offsets{0};

  random_truth(const std::vector<index_t>& counts, index_t class_count,
               random_generator& generator) {
    for (const index_t count : counts) {
      for (index_t k = 0; k < count; ++k) {
        for (int i = 0; i < 4; ++i)
          boxes.push_back(
              static_cast<float>(generator.uniform(i < 2 ? 0.1 : 0.05, i < 2 ? 0.9 : 0.4)));
        classes.push_back(
            static_cast<index_t>(generator.uniform(0, static_cast<double>(class_count))));
      }
      offsets.push_back(offsets.back() + count);
    }
  }
  index_t size() const { return static_cast<index_t>(classes.size()); }
  ground_truth view() const { return {boxes, classes, offsets}; }
};

/// Four numbers of a list of boxes in double.
template <class T>
std::vector<double> four_of(const std::vector<T>& boxes, index_t i) {
  std::vector<double> four;
  for (index_t k = 4 * i; k < 4 * i + 4; ++k)
    four.push_back(static_cast<double>(boxes[static_cast<std::size_t>(k)]));
  return four;
}

}  // namespace vecdet::test
