// SPDX-License-Identifier: Apache-2.0
// Softmax cross entropy in plain scalar double, and SSD's mining of rows: Liu et al.,
// arXiv 1512.02325, section 2.2.
#pragma once

#include <vecdet/reference/softmax.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The loss of one row of logits, and its gradient unless `grad` is empty.
inline double softmax_cross_entropy(vector_view<const float> x, index_t label,
                                    vector_view<double> grad = {}) {
  const log_softmax log_p(x);
  for (index_t c = 0; c < grad.size(); ++c) grad[c] = std::exp(log_p[c]) - (c == label ? 1 : 0);
  return -log_p[label];
}

/// The rows of one image that count, ascending: the foreground, whose labels are neither
/// `background` nor `ignore`, and `ratio` times as many background rows, those with the largest
/// losses. Ties are broken by lower index, and NaN is the largest.
inline std::vector<index_t> mined_rows(const std::vector<double>& losses,
                                       vector_view<const index_t> labels, index_t background,
                                       index_t ignore, index_t ratio) {
  std::vector<index_t> rows, negatives;
  for (index_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignore) continue;
    (labels[i] == background ? negatives : rows).push_back(i);
  }
  const auto key = [&](index_t i) {
    const double loss = losses[static_cast<std::size_t>(i)];
    return std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss;
  };
  const auto is_nan = [&](index_t i) { return std::isnan(losses[static_cast<std::size_t>(i)]); };
  std::stable_sort(negatives.begin(), negatives.end(), [&](index_t a, index_t b) {
    return is_nan(a) != is_nan(b) ? is_nan(a) : key(a) > key(b);
  });
  const auto most = static_cast<std::size_t>(ratio) * rows.size();
  if (negatives.size() > most) negatives.resize(most);
  rows.insert(rows.end(), negatives.begin(), negatives.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
