// SPDX-License-Identifier: Apache-2.0
#include "regression_loss.hpp"

#include "terms.hpp"

#include <algorithm>
#include <cmath>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

template <plain_loss L, plain_output O>
inline float box_loss(plain_box d, plain_box anchor, plain_box target, float* grad, std::int64_t i,
                      float beta) {
  const plain_box a = centre_form(anchor);
  plain_box g;
  float loss;
  if constexpr (L == plain_loss::smooth_l1) {
    const plain_box t = encoded(centre_form(target), a);
    loss = smooth_l1<O>(d.x1 - t.x1, beta, &g.x1) + smooth_l1<O>(d.y1 - t.y1, beta, &g.y1) +
           smooth_l1<O>(d.x2 - t.x2, beta, &g.x2) + smooth_l1<O>(d.y2 - t.y2, beta, &g.y2);
  } else {
    const plain_box bounded = clamped(d), p = decoded(bounded, a);
    plain_box by;
    loss = iou_loss<L>(corners(p), target, by);
    g = {(by.x1 + by.x2) * a.x2, (by.y1 + by.y2) * a.y2,
         bounded.x2 == d.x2 ? 0.5f * (by.x2 - by.x1) * p.x2 : 0,
         bounded.y2 == d.y2 ? 0.5f * (by.y2 - by.y1) * p.y2 : 0};
  }
  if (O == plain_output::grad) store(g, grad, i);
  return loss;
}

}  // namespace

template <plain_loss L, plain_output O>
double plain_regression_loss_all(const float* deltas, const float* anchors, const float* targets,
                                 float* __restrict grad, std::int64_t count, float beta) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += box_loss<L, O>(load(deltas, i), load(anchors, i), load(targets, i), grad, i, beta);
  return sum;
}

template <plain_loss L, plain_output O>
double plain_regression_loss(const float* deltas, const float* anchors, const float* targets,
                             const std::int64_t* labels, float* grad, std::int64_t count,
                             float beta) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (labels[i] >= 0)
      sum += box_loss<L, O>(load(deltas, i), load(anchors, i), load(targets, i), grad, i, beta);
    else if (O == plain_output::grad)
      store({0, 0, 0, 0}, grad, i);
  }
  return sum;
}

template <plain_loss L, plain_output O>
double plain_regression_loss_matches(const float* deltas, const float* anchors, const float* truth,
                                     const std::int64_t* matches, const std::int64_t* labels,
                                     float* grad, std::int64_t count, float beta) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (labels[i] >= 0)
      sum +=
          box_loss<L, O>(load(deltas, i), load(anchors, i), load(truth, matches[i]), grad, i, beta);
    else if (O == plain_output::grad)
      store({0, 0, 0, 0}, grad, i);
  }
  return sum;
}

template <plain_loss L, plain_output O>
double plain_regression_loss_list(const float* deltas, const float* anchors, const float* targets,
                                  const std::int64_t* indices, std::int64_t selected, float* grad,
                                  std::int64_t count, float beta) {
  double sum = 0;
  if (O == plain_output::grad) std::fill(grad, grad + 4 * count, 0.0f);
  for (std::int64_t k = 0; k < selected; ++k) {
    const std::int64_t i = indices[k];
    sum += box_loss<L, O>(load(deltas, i), load(anchors, i), load(targets, i), grad, i, beta);
  }
  return sum;
}

double plain_fcos_regression(const plain_level* levels, std::int64_t level_count, bool planes,
                             const float* anchors, const float* truth, const std::int64_t* matches,
                             float* distances_grad, float* centerness_grad) {
  double sum = 0;
  for (std::int64_t l = 0; l < level_count; ++l) {
    const plain_level& level = levels[l];
    const std::int64_t size = level.locations, between = planes ? size : 1;
    for (std::int64_t i = 0; i < size; ++i) {
      const float* const d = level.deltas + (planes ? i : 4 * i);
      float* const g = distances_grad + (planes ? i : 4 * i);
      plain_box by{0, 0, 0, 0};
      centerness_grad[i] = 0;
      if (matches[i] >= 0) {
        const plain_box anchor = load(anchors, i), t = load(truth, matches[i]);
        const plain_box a = centre_form(anchor);
        sum += iou_loss<plain_loss::giou>(
            decoded_distances<true>({d[0], d[between], d[2 * between], d[3 * between]}, anchor), t,
            by);
        by = {-a.x2 * by.x1, -a.y2 * by.y1, a.x2 * by.x2, a.y2 * by.y2};
        const float left = a.x1 - t.x1, right = t.x2 - a.x1, above = a.y1 - t.y1;
        const float below = t.y2 - a.y1;
        const float target = std::sqrt(std::min(left, right) / std::max(left, right) *
                                       std::min(above, below) / std::max(above, below));
        const float x = level.centerness[i], e = std::exp(-std::abs(x)), r = 1 / (1 + e);
        sum += std::fmax(x, 0.0f) - x * target + std::log1p(e);
        centerness_grad[i] = (x < 0 ? e * r : r) - target;
      }
      g[0] = by.x1;
      g[between] = by.y1;
      g[2 * between] = by.x2;
      g[3 * between] = by.y2;
    }
    anchors += 4 * size;
    matches += size;
    distances_grad += 4 * size;
    centerness_grad += size;
  }
  return sum;
}

#define VECDET_PLAIN_REGRESSION(loss, output)                                                      \
  template double plain_regression_loss_all<loss, output>(                                         \
      const float*, const float*, const float*, float*, std::int64_t, float);                      \
  template double plain_regression_loss<loss, output>(                                             \
      const float*, const float*, const float*, const std::int64_t*, float*, std::int64_t, float); \
  template double plain_regression_loss_matches<loss, output>(                                     \
      const float*, const float*, const float*, const std::int64_t*, const std::int64_t*, float*,  \
      std::int64_t, float);                                                                        \
  template double plain_regression_loss_list<loss, output>(                                        \
      const float*, const float*, const float*, const std::int64_t*, std::int64_t, float*,         \
      std::int64_t, float);
#define VECDET_PLAIN_REGRESSION_LOSS(loss)         \
  VECDET_PLAIN_REGRESSION(loss, plain_output::sum) \
  VECDET_PLAIN_REGRESSION(loss, plain_output::grad)
VECDET_PLAIN_REGRESSION_LOSS(plain_loss::smooth_l1)
VECDET_PLAIN_REGRESSION_LOSS(plain_loss::giou)
VECDET_PLAIN_REGRESSION_LOSS(plain_loss::diou)
VECDET_PLAIN_REGRESSION_LOSS(plain_loss::ciou)
#undef VECDET_PLAIN_REGRESSION_LOSS
#undef VECDET_PLAIN_REGRESSION

}  // namespace vecdet::bench::VECDET_PLAIN_SET
