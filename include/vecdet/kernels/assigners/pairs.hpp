// SPDX-License-Identifier: Apache-2.0
// Pairs of a ground-truth box and another box, 16 at a time. A single copy of the code computes all
// overlaps, so they are bit-identical everywhere.
#pragma once

#include <vecdet/kernels/iou/terms.hpp>
#include <vecdet/simd/math_boxes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Boxes are `Numbers` floats.
template <int Numbers>
struct pairs_of_boxes {
  alignas(64) float truth[Numbers * row_lanes];
  alignas(64) float other[Numbers * row_lanes];
  alignas(64) float overlap[row_lanes];

  static VECDET_INLINE void copy(float* to, int pair, const float* box) {
    __builtin_memcpy(to + Numbers * pair, box, Numbers * sizeof(float));
  }
  VECDET_INLINE void set_truth(int pair, const float* box) { copy(truth, pair, box); }
  VECDET_INLINE void set_other(int pair, const float* box) { copy(other, pair, box); }
  VECDET_INLINE void set_all_truth(const float* box) {
    float own[Numbers];  // a copy, which stores to the pairs cannot change
    copy(own, 0, box);
    VECDET_UNROLL
    for (int i = 0; i < row_lanes; ++i) set_truth(i, own);
  }
  /// Pairs from `count` on repeat the last one.
  VECDET_INLINE void repeat_last(int count) {
    for (int i = count; i < row_lanes; ++i) {
      set_truth(i, truth + Numbers * (count - 1));
      set_other(i, other + Numbers * (count - 1));
    }
  }
};

struct box_pairs : pairs_of_boxes<4> {
  template <iou_kind Kind>
  VECDET_NOINLINE void compute() {
    constexpr int N = row_pack<float>::batches;
    const auto a = load_boxes<N>(truth), b = load_boxes<N>(other);
    store_pack<N>(overlap,
                  to_box_order(iou_of<Kind>(a, area_of(a), b, area_of(b), empty_iou::nan)));
  }
};

/// score^alpha overlap^beta of 16 pairs; 0 unless both are above 0. Sets an `overlap` that is not
/// above 0 to 0.
VECDET_NOINLINE inline void alignment_metrics(const float* scores, float* overlaps, float alpha,
                                              float beta, float* metrics) {
  constexpr int N = row_pack<float>::batches;
  using real = row_pack<float>;
  const real zero = 0.0f, one = 1.0f, least = 0x1p-126f, most = 0x1p126f;
  const real score = load_pack<N>(scores), given = load_pack<N>(overlaps);
  const real overlap = select(given > zero, given, zero);
  const auto log_of = [&](const real& x) VECDET_INLINE_LAMBDA {
    return log_ratio(min(max(x, least), most), zero, one, zero);
  };
  const real log_metric = fma(real(beta), log_of(overlap), real(alpha) * log_of(score));
  const real limit = static_cast<float>(exp_limit<float>);
  const real bounded = max(zero - limit, min(limit, log_metric));
  const real metric = exp_product(bounded, one, zero, real(1.44269504f));
  store_pack<N>(overlaps, overlap);
  store_pack<N>(metrics, select((score > zero) & (overlap > zero), metric, zero));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
