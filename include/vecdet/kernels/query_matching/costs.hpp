// SPDX-License-Identifier: Apache-2.0
// The costs of queries and boxes as equations on rows of 16 queries; see query_matching.hpp for the
// formulas and the order of operations.
#pragma once

#include <vecdet/args/query_matching.hpp>
#include <vecdet/kernels/boxes.hpp>
#include <vecdet/kernels/iou/terms.hpp>
#include <vecdet/kernels/softmax_rows.hpp>
#include <vecdet/simd/math.hpp>
#include <vecdet/simd/math_boxes.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using detail::query_cost_args;

/// The focal class cost of logits.
class focal_cost {
 public:
  focal_cost(double alpha, double gamma, double epsilon)
      : positive_(static_cast<float>(alpha)),
        negative_(static_cast<float>(1 - alpha)),
        epsilon_(static_cast<float>(epsilon)),
        is_squared_(gamma == 2),
        power_(gamma) {}

  VECDET_INLINE float_row operator()(const float_row& x) const {
    const float_row one = 1.0f, sign = -0.0f;
    const float_row e = exp_minus_abs(x);
    const float_row r = one / (one + e), er = e * r;
    const float_row p = select_by_sign(x, er, r), q = select_by_sign(x, r, er);
    const float_row positive = float_row(positive_) * power_of(q) * (log_of(p) ^ sign);
    const float_row negative = float_row(negative_) * power_of(p) * (log_of(q) ^ sign);
    return select(x == x, positive - negative, x);
  }

 private:
  VECDET_INLINE float_row log_of(const float_row& p) const {
    const float_row zero = 0.0f;
    return log_ratio(p + float_row(epsilon_), zero, float_row(1.0f), zero);
  }
  VECDET_INLINE float_row power_of(const float_row& p) const {
    if (is_squared_) return p * p;
    const float_row zero = 0.0f;  // the log's range ends before the smallest probabilities
    const float_row log = log_ratio(max(p, float_row(1e-18f)), zero, float_row(1.0f), zero);
    return exp_product(max(log, float_row(least_log_)), float_row(power_.high),
                       float_row(power_.low), float_row(power_.binary));
  }

  float positive_, negative_, epsilon_;
  bool is_squared_;
  exp_factor<float> power_;
  // Products with a larger gamma stay within exp_limit.
  float least_log_ = power_.high > 1 ? -static_cast<float>(exp_limit<float>) / power_.high : -1e30f;
};

/// Column `label` of 16 rows, the last of which is repeated if there are fewer. Prefetches the same
/// column of the 16 rows that follow: they are far apart, and the processor does not foresee them.
/// After the last rows, these addresses are past the end: a prefetch is a hint and never faults.
template <class T>
VECDET_INLINE float_row logits_of(const T* rows, index_t stride, int count, index_t label) {
  alignas(64) float lane[row_lanes];
  const T* const column = rows + label;
  if (count == row_lanes) {
    VECDET_UNROLL
    for (int r = 0; r < row_lanes; ++r) lane[r] = static_cast<float>(column[r * stride]);
    VECDET_UNROLL
    for (int r = 0; r < row_lanes; ++r) __builtin_prefetch(column + (row_lanes + r) * stride);
  } else {
    for (int r = 0; r < row_lanes; ++r)
      lane[r] = static_cast<float>(column[(r < count ? r : count - 1) * stride]);
  }
  return load_pack<float_row::batches>(lane);
}

/// Each box's numbers, its corners and its area, 16 numbers per box.
constexpr int box_constants = 16;
inline void write_box_constants(const float* truth, index_t count, float* to) {
  for (index_t k = 0; k < count; ++k) {
    const float* const t = truth + 4 * k;
    float* const c = to + box_constants * k;
    for (int i = 0; i < 4; ++i) c[i] = t[i];
    const float half_w = 0.5f * t[2], half_h = 0.5f * t[3];
    c[4] = t[0] - half_w;
    c[5] = t[1] - half_h;
    c[6] = t[0] + half_w;
    c[7] = t[1] + half_h;
    c[8] = (c[6] - c[4]) * (c[7] - c[5]);
  }
}

/// 16 queries in registers.
struct query_row {
  box_pack<float, float_row::batches> centre, corners;
  float_row area;
};

/// The queries from `first` on; the last one is repeated if there are fewer than 16.
template <class T>
VECDET_INLINE query_row load_queries(const T* first, int count) {
  constexpr int N = float_row::batches;
  alignas(64) T some[4 * row_lanes];
  if (count < row_lanes) {
    for (int r = 0; r < row_lanes; ++r)
      for (int k = 0; k < 4; ++k) some[4 * r + k] = first[4 * (r < count ? r : count - 1) + k];
    first = some;
  }
  const auto stored = load_boxes<N>(first);
  query_row q;
  q.centre = {to_box_order(stored.x1), to_box_order(stored.y1), to_box_order(stored.x2),
              to_box_order(stored.y2)};
  const float_row half_w = float_row(0.5f) * q.centre.x2, half_h = float_row(0.5f) * q.centre.y2;
  q.corners = {q.centre.x1 - half_w, q.centre.y1 - half_h, q.centre.x1 + half_w,
               q.centre.y1 + half_h};
  q.area = area_of(q.corners);
  return q;
}

constexpr float query_iou_epsilon = 1e-16f;

/// l1_weight L1 and GIoU of 16 queries and a box.
struct box_costs {
  float_row l1, giou;
};
VECDET_INLINE box_costs box_costs_of(const query_row& q, const float* box) {
  const auto of = [&](int k) VECDET_INLINE_LAMBDA { return float_row(box[k]); };
  const float_row zero = 0.0f, epsilon = query_iou_epsilon;
  const float_row l1 = abs(q.centre.x1 - of(0)) + abs(q.centre.y1 - of(1)) +
                       abs(q.centre.x2 - of(2)) + abs(q.centre.y2 - of(3));
  const auto& p = q.corners;
  const float_row w = max(zero, min(p.x2, of(6)) - max(p.x1, of(4)));
  const float_row h = max(zero, min(p.y2, of(7)) - max(p.y1, of(5)));
  const float_row intersection = w * h;
  const float_row joined = q.area + of(8) - intersection;
  const float_row hull =
      (max(p.x2, of(6)) - min(p.x1, of(4))) * (max(p.y2, of(7)) - min(p.y1, of(5)));
  return {l1, intersection / (joined + epsilon) - (hull - joined) / (hull + epsilon)};
}

/// The costs of `count` queries from `first` on and all boxes. class_cost(label) is the class cost
/// of the queries.
template <class T, class ClassCost>
VECDET_INLINE void costs_of_queries(const query_cost_args<T>& args, index_t first, int count,
                                    const ClassCost& class_cost) {
  constexpr int N = float_row::batches;
  const index_t stride = detail::padded_columns(args.query_count);
  const query_row queries = load_queries(args.queries + 4 * first, count);
  const float_row limit = detail::largest_query_cost;
  float_row weighted_class = 0.0f;
  for (index_t k = 0; k < args.box_count; ++k) {
    const detail::classified_box& box = args.boxes[k];
    if (k == 0 || box.label != args.boxes[k - 1].label)
      weighted_class = float_row(static_cast<float>(args.class_weight)) * class_cost(box.label);
    const box_costs costs = box_costs_of(queries, args.scratch + box_constants * box.box);
    const float_row l1 = float_row(static_cast<float>(args.l1_weight)) * costs.l1;
    const float_row giou = float_row(static_cast<float>(args.giou_weight)) * costs.giou;
    const float_row cost = l1 + weighted_class - giou;
    float* const to = args.costs + box.box * stride + first;
    store_pack<N>(to, max(float_row(-detail::largest_query_cost), min(cost, limit)));
    for (int r = count; r < row_lanes; ++r) to[r] = infinity<float>();
  }
}

template <class T>
void focal_query_costs(const query_cost_args<T>& args) {
  const focal_cost cost(args.alpha, args.gamma, args.epsilon);
  for_row_groups(0, args.query_count, [&](index_t first, int count) {
    const T* const rows = args.logits + first * args.logits_stride;
    costs_of_queries(args, first, count, [&](index_t label) VECDET_INLINE_LAMBDA {
      return cost(logits_of(rows, args.logits_stride, count, label));
    });
  });
}

template <class T>
void softmax_query_costs(const query_cost_args<T>& args) {
  for_row_groups(0, args.query_count, [&](index_t first, int count) {
    const T* const stored = args.logits + first * args.logits_stride;
    const float* logits;
    index_t stride = args.logits_stride;
    if constexpr (std::is_same<T, float>::value) {
      logits = stored;
    } else {
      float* const converted = args.scratch + box_constants * args.box_count;
      stride = args.classes;
      for (int r = 0; r < count; ++r)
        convert(stored + r * args.logits_stride, stride, converted + r * stride);
      logits = converted;
    }
    row_group rows;
    set_rows(rows, logits, stride, nullptr, 0, count, [](int r) { return r; });
    softmax_group group(rows, args.classes);
    costs_of_queries(args, first, count, [&](index_t label) VECDET_INLINE_LAMBDA {
      const float_row x = logits_of(logits, stride, count, label);
      return float_row(0.0f) - exp_minus_abs(x - group.greatest) / group.sum;
    });
  });
}

template <class T>
void query_costs(const query_cost_args<T>& args) {
  write_box_constants(args.truth, args.box_count, args.scratch);
  if (args.class_cost == query_class_cost::focal) return focal_query_costs(args);
  softmax_query_costs(args);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
