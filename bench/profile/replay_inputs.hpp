// SPDX-License-Identifier: Apache-2.0
// Inputs of any recorded size, like those of a detector in training: what a recorded problem does
// not tell, such as labels or scores, is made up alike for all replays.
#pragma once

#include "../support/planes.hpp"
#include "../support/scene.hpp"
#include "replay.hpp"
#include <vecdet/dtype.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace vecdet {
namespace profile {

/// Labels of which one in a thousand is foreground, and three in a hundred are ignored.
inline std::vector<index_t> labels_like_training(index_t rows, index_t classes) {
  std::vector<index_t> labels(static_cast<std::size_t>(rows), -1);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (i % 1000 == 550) labels[i] = static_cast<index_t>(i / 1000) % classes;
    if (i % 100 < 3) labels[i] = -2;
  }
  return labels;
}

/// RetinaNet's anchors, from the first on again where more are asked for.
inline std::vector<float> anchors(index_t count) {
  static const std::vector<float> all = bench::retinanet_anchors();
  std::vector<float> some;
  some.reserve(static_cast<std::size_t>(4 * count));
  while (static_cast<index_t>(some.size()) < 4 * count) {
    const std::size_t n = std::min(all.size(), static_cast<std::size_t>(4 * count) - some.size());
    some.insert(some.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return some;
}

/// Bytes of one recorded call: where a name does not say which operands there were, these do.
inline double call_bytes(const entry& e) {
  return e.bytes / static_cast<double>(std::max<std::uint64_t>(e.count, 1));
}

/// How many rows, of so many bytes each, a recorded call had on average, where the name's count is
/// rounded.
inline index_t exact_count(const entry& e, index_t rounded, double bytes_of_row) {
  const auto exact = static_cast<index_t>(std::llround(call_bytes(e) / bytes_of_row));
  return rounded_count(exact) == rounded ? exact : rounded;
}

/// The number that follows `prefix` in a variant, as 0.05 in "threshold0.05"; none in others.
template <class Number>
std::optional<Number> number_after(const std::string& prefix, const std::string& variant) {
  if (variant.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  std::istringstream text(variant.substr(prefix.size()));
  text.imbue(std::locale::classic());
  Number number{};
  if (!(text >> number) || !text.eof()) return std::nullopt;
  return number;
}

/// The ground truth of `images` pictures, with `class_count` classes from `first_class` on.
struct pictures {
  std::vector<float> boxes;
  std::vector<index_t> classes, offsets{0};
  ground_truth truth;

  pictures(index_t images, index_t first_class, index_t class_count) {
    const bench::picture picture = bench::built_in_picture();
    for (index_t n = 0; n < images; ++n) {
      boxes.insert(boxes.end(), picture.boxes.begin(), picture.boxes.end());
      for (const index_t id : picture.classes) classes.push_back(first_class + id % class_count);
      offsets.push_back(static_cast<index_t>(classes.size()));
    }
    truth.boxes = boxes;
    truth.classes = classes;
    truth.image_offsets = offsets;
  }
  pictures(const pictures&) = delete;
  pictures& operator=(const pictures&) = delete;
};

/// make(T()) for the element type that the name stands for; an empty call for other names.
template <class Make>
replay_call for_logit_type(const std::string& type, const Make& make) {
  if (type == "f32") return make(float());
  if (type == "bf16") return make(bfloat16());
  return {};
}
template <class Make>
replay_call for_type(const std::string& type, const Make& make) {
  if (type == "f64") return make(double());
  return for_logit_type(type, make);
}

}  // namespace profile
}  // namespace vecdet
