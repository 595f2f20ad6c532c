// SPDX-License-Identifier: Apache-2.0
// Detections compared with expected ones, and the cases in which nothing is expected: softmax in
// float may order candidates differently than in double.
#pragma once

#include "fuzz_input.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace vecdet::fuzz {

/// The relative error of a softmax in float.
constexpr double softmax_within = 2e-6;

/// Whether any two of `found` have scores that may be ordered differently. For rows that differ,
/// equal softmax scores may differ in their last bits, and close ones may be equal or swap. Each of
/// `found` has a score and a label; row_of() returns its logits.
template <class Candidate, class RowOf>
bool any_close_scores(std::vector<Candidate> found, index_t classes, const RowOf& row_of) {
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  const auto same_logits = [&](const Candidate& a, const Candidate& b) {
    const auto *const x = row_of(a), *const y = row_of(b);
    if (static_cast<double>(x[a.label]) != static_cast<double>(y[b.label])) return false;
    return std::equal(x, x + classes, y, [](const auto& p, const auto& q) {
      return static_cast<double>(p) == static_cast<double>(q);
    });
  };
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::size_t k = i + 1; k < found.size(); ++k) {
      if (static_cast<double>(found[k].score) <
          static_cast<double>(found[i].score) * (1 - 2 * softmax_within))
        break;
      if (!same_logits(found[i], found[k])) return true;
    }
  }
  return false;
}

/// A few rows of few logits, which are any numbers or tame(), drawn by which().
template <class T, class Tame, class Which>
std::vector<std::vector<T>> some_rows(input& in, index_t classes, const Tame& tame,
                                      const Which& which) {
  std::vector<T> values;
  for (int i = 0; i < 6; ++i) values.push_back(in.byte() < 40 ? in.number<T>() : tame());
  std::vector<std::vector<T>> rows(static_cast<std::size_t>(in.integer(1, 12)));
  for (std::vector<T>& row : rows)
    for (index_t c = 0; c < classes; ++c) row.push_back(values[which()]);
  return rows;
}

/// The expected result of an image; none for an uncertain one.
struct expected_detections {
  bool certain = true;
  std::vector<float> boxes, scores;
  std::vector<index_t> labels;
};

/// Whether an image's detections are those, in the same order, with corners as near as `within`.
inline void check_image(const expected_detections& expected, index_t image,
                        const detections_view& found, double within) {
  if (!expected.certain) return;
  const index_t first = found.offsets[image], count = found.offsets[image + 1] - first;
  const auto differs = [&](const char* what, index_t i) {
    fail("detection " + std::to_string(i) + " of image " + std::to_string(image) + ": " + what +
         " differs from that of the steps on " + isa_name(active_isa()));
  };
  if (count != static_cast<index_t>(expected.scores.size())) differs("their number", count);
  for (index_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (found.labels[first + i] != expected.labels[at]) differs("the label", i);
    const auto score = static_cast<double>(expected.scores[at]);
    if (!(std::abs(static_cast<double>(found.scores[first + i]) - score) <= softmax_within * score))
      differs("the score", i);
    for (index_t k = 0; k < 4; ++k) {
      const auto exact = static_cast<double>(expected.boxes[4 * at + static_cast<std::size_t>(k)]);
      const auto actual = static_cast<double>(found.boxes(first + i, k));
      if (actual == exact || (std::isnan(actual) && std::isnan(exact))) continue;
      if (within == 0 || !(std::abs(actual - exact) <= within)) differs("the box", i);
    }
  }
}

}  // namespace vecdet::fuzz
