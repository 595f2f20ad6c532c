// SPDX-License-Identifier: Apache-2.0
// The loss of a DETR's decoder layer in plain scalar double; see set_loss.hpp for the formulas.
#pragma once

#include <vecdet/reference/box.hpp>
#include <vecdet/reference/focal_loss.hpp>
#include <vecdet/reference/iou_loss.hpp>
#include <vecdet/reference/query_matching.hpp>
#include <vecdet/reference/softmax.hpp>
#include <vecdet/reference/sum.hpp>
#include <vecdet/set_class_loss.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Constant added to the divisors of IoU and GIoU, so that boxes without area have IoU 0.
constexpr double set_loss_epsilon = 1e-16;

/// The box losses of a query's box and its ground-truth box, both as centre and size, and their
/// gradients with respect to the first.
struct set_pair_loss {
  double iou, l1, giou;
  box l1_grad, giou_grad;
};
inline set_pair_loss set_loss_of_pair(const double* predicted, const double* target) {
  const auto sign = [&](int k) {
    const double d = predicted[k] - target[k];
    return d > 0 ? 1.0 : d < 0 ? -1.0 : d;  // NaN stays
  };
  const box_loss by_corners = iou_loss(iou_kind::giou, corners_of_centre(predicted),
                                       corners_of_centre(target), set_loss_epsilon);
  const box& g = by_corners.grad;
  return {overlap_of_centres(predicted, target, set_loss_epsilon).iou,
          l1_distance(predicted, target),
          by_corners.loss,
          {sign(0), sign(1), sign(2), sign(3)},
          {g.x1 + g.x2, g.y1 + g.y2, (g.x2 - g.x1) / 2, (g.y2 - g.y1) / 2}};
}

struct set_loss_params {
  set_class_loss class_loss = set_class_loss::varifocal;
  double alpha = 0.75, gamma = 2, no_object_weight = 0.1;
  double class_weight = 1, l1_weight = 5, giou_weight = 2;
  double divisor = 1;  ///< of all sums, except that cross entropy has its own
};

/// A layer's outputs, and the box of each row: its index, or -1.
struct set_loss_layer {
  index_t rows, classes;
  std::vector<float> logits;
  std::vector<double> boxes;
  std::vector<index_t> matched;
};

/// The weighted losses of a layer and their gradients.
struct set_loss_result {
  double classification = 0, l1 = 0, giou = 0;
  std::vector<double> logits_grad, boxes_grad;
};

inline set_loss_result set_loss(const set_loss_layer& layer, const std::vector<double>& truth,
                                const std::vector<index_t>& labels, const set_loss_params& params) {
  const auto at = [](index_t i) { return static_cast<std::size_t>(i); };
  const bool softmax = params.class_loss == set_class_loss::cross_entropy;
  set_loss_result result;
  result.logits_grad.resize(layer.logits.size());
  result.boxes_grad.resize(layer.boxes.size());
  double row_weights = 0;
  for (const index_t k : layer.matched) row_weights += k >= 0 ? 1 : params.no_object_weight;
  const double class_scale = params.class_weight / (!softmax          ? params.divisor
                                                    : row_weights > 0 ? row_weights
                                                                      : 1);
  compensated_sum classification, l1, giou;
  for (index_t row = 0; row < layer.rows; ++row) {
    const index_t k = layer.matched[at(row)];
    double iou = 0;
    if (k >= 0) {
      const set_pair_loss pair =
          set_loss_of_pair(layer.boxes.data() + 4 * row, truth.data() + 4 * k);
      iou = pair.iou;
      l1.add(params.l1_weight / params.divisor * pair.l1);
      giou.add(params.giou_weight / params.divisor * pair.giou);
      store_box({result.boxes_grad.data(), layer.rows}, row,
                combine(params.l1_weight / params.divisor, pair.l1_grad,
                        params.giou_weight / params.divisor, pair.giou_grad));
    }
    const float* const x = layer.logits.data() + row * layer.classes;
    double* const grad = result.logits_grad.data() + row * layer.classes;
    const index_t label = k >= 0 ? labels[at(k)] : softmax ? layer.classes - 1 : -1;
    if (softmax) {
      const double weight = class_scale * (k >= 0 ? 1 : params.no_object_weight);
      const log_softmax log_p(vector_view<const float>(x, layer.classes));
      classification.add(-weight * log_p[label]);
      for (index_t c = 0; c < layer.classes; ++c)
        grad[c] = weight * (std::exp(log_p[c]) - (c == label ? 1 : 0));
      continue;
    }
    for (index_t c = 0; c < layer.classes; ++c) {
      const auto logit = static_cast<double>(x[c]);
      double loss, slope;
      if (params.class_loss == set_class_loss::focal) {
        loss = hard_focal_loss(logit, c == label, params.alpha, params.gamma);
        slope = hard_focal_loss_grad(logit, c == label, params.alpha, params.gamma);
      } else if (c == label) {
        loss = varifocal_loss(logit, iou);
        slope = varifocal_loss_grad(logit, iou);
      } else {
        loss = params.alpha *
               vanishing_product(std::pow(sigmoid(logit), params.gamma), softplus(logit));
        slope = params.alpha * constant_factor_grad(logit, params.gamma);
      }
      classification.add(vanishing_product(class_scale, loss));
      grad[c] = vanishing_product(class_scale, slope);
    }
  }
  result.classification = classification.value();
  result.l1 = l1.value();
  result.giou = giou.value();
  return result;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
