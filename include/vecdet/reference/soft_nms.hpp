// SPDX-License-Identifier: Apache-2.0
// Soft-NMS in plain scalars. Bodla, Singh, Chellappa, Davis: "Soft-NMS: improving object detection
// with one line of code", arXiv 1704.04503. The box with the greatest score is picked, again and
// again. Each pick multiplies the scores of the remaining boxes of its image and class by
//
//   hard       0           if IoU >= threshold, else 1
//   linear     1 - IoU     if IoU >= threshold, else 1
//   gaussian   exp(-IoU^2 / sigma)
//
// Boxes whose score is then below the floor are dropped. This is as in mmcv, with three exceptions:
// ties of scores are broken by lower index, whereas mmcv's order depends on its swaps; boxes with
// NaN scores are dropped; and a NaN overlap does not change a score.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/reference/nms.hpp>
#include <vecdet/soft_nms_method.hpp>
#include <vecdet/views.hpp>

#include <cmath>
#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

using vecdet::soft_nms_method;

/// A picked box and its reduced score.
template <class Real>
struct rescored {
  index_t index;
  Real score;
};

/// The factor by which an overlap reduces a score. Here and below, Params is soft_nms_params. It is
/// a template parameter, because including soft_nms.hpp would also include the kernels.
template <class Real, class Params>
Real soft_nms_decay(Real overlap, const Params& params) {
  if (std::isnan(overlap)) return 1;
  if (params.method == soft_nms_method::gaussian)
    return static_cast<Real>(
        std::exp(-static_cast<double>(overlap) * static_cast<double>(overlap) / params.sigma));
  if (!(overlap >= static_cast<Real>(params.iou_threshold))) return 1;
  return params.method == soft_nms_method::linear ? Real(1) - overlap : Real(0);
}

/// The picked boxes in the order of picking.
template <class T, class S, class Params>
std::vector<rescored<compute_type<value_of<S>>>> soft_nms(boxes_view<T> boxes,
                                                          vector_view<S> scores,
                                                          const Params& params,
                                                          const nms_groups& groups = {}) {
  using real = compute_type<value_of<T>>;
  using score_type = compute_type<value_of<S>>;
  nms_params overlap_params;
  overlap_params.plus_one = params.plus_one;

  std::vector<rescored<score_type>> remaining;
  std::vector<rescored<score_type>> picked;
  for (index_t i = 0; i < boxes.size(); ++i) {
    const score_type score = static_cast<score_type>(scores[i]);
    if (!std::isnan(score)) remaining.push_back({i, score});
  }
  while (!remaining.empty()) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < remaining.size(); ++k)
      if (remaining[k].score > remaining[best].score) best = k;
    const rescored<score_type> pick = remaining[best];
    picked.push_back(pick);

    std::vector<rescored<score_type>> left;
    for (std::size_t k = 0; k < remaining.size(); ++k) {
      rescored<score_type> other = remaining[k];
      if (k == best) continue;
      if (groups(other.index) == groups(pick.index)) {
        const real overlap = overlap_of(load_box<real>(boxes, pick.index),
                                        load_box<real>(boxes, other.index), overlap_params);
        other.score =
            rounded_product(other.score, static_cast<score_type>(soft_nms_decay(overlap, params)));
        if (!(other.score >= static_cast<score_type>(params.score_floor))) continue;
      }
      left.push_back(other);
    }
    remaining.swap(left);
  }
  return picked;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
