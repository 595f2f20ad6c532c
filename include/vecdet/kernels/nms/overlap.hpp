// SPDX-License-Identifier: Apache-2.0
// The overlap of one kept box with 16 others, for NMS: which of them it suppresses.
//
//   IoU = I / (A + B - I)      suppressed where IoU >= t
//
// The floats are bit-identical to torchvision's: every operation rounds once. The division is
// nearly always skipped: IoU >= t means I >= t / (1 + t) (A + B). Boxes carry k A, with k slightly
// less than t / (1 + t), so that I > k A + k B holds for all suppressed boxes and few others.
#pragma once

#include <vecdet/args/nms.hpp>
#include <vecdet/simd/bits.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::nms_args;

template <class Real>
constexpr Real least_positive = sizeof(Real) == 4 ? Real(__FLT_DENORM_MIN__)
                                                  : Real(__DBL_DENORM_MIN__);
template <class Real>
constexpr Real jaccard_epsilon = sizeof(Real) == 4 ? Real(1.1920928955078125e-7)
                                                   : Real(2.2204460492503131e-16);

/// 16 boxes by their corners, with one number each: the weighted area, or the score in soft-NMS.
template <class Real>
struct alignas(64) nms_block {
  Real x1[16], y1[16], x2[16], y2[16], number[16];
};

template <class Real>
struct nms_box {
  Real x1, y1, x2, y2, number;
};

/// The weighted area is k = t / (1 + t) times a regular box's area, where t is the threshold. IoU
/// exceeds t if the intersection exceeds the sum of both boxes' weighted areas, which needs no
/// division. For an isolated box, it is infinite, and the corners are 0.
template <class Real>
VECDET_INLINE const auto& weighted_area_of(const nms_block<Real>& block) {
  return block.number;
}
template <class Real>
VECDET_INLINE const Real& weighted_area_of(const nms_box<Real>& box) {
  return box.number;
}
template <class Real>
VECDET_INLINE Real& weighted_area_of(nms_box<Real>& box) {
  return box.number;
}

/// A call's arguments in the form that the tests need.
template <class Real>
struct nms_rule {
  nms_format format;
  nms_overlap overlap;
  Real one;  ///< 1 if pixels are counted, 0 if not
  Real least_overlap;
  Real area_factor;         ///< k
  Real least_iou;           ///< suppressed boxes have I / (A + B - I) above this
  Real least_intersection;  ///< suppressed boxes have at least this I
  Real least_area;          ///< regular boxes have a larger area
  Real least_side;  ///< regular boxes have at least these sides; infinite if no box is regular

  template <class T>
  explicit nms_rule(const nms_args<T>& args)
      : format(args.format),
        overlap(args.overlap),
        one(args.plus_one ? Real(1) : Real(0)),
        least_overlap(static_cast<Real>(args.least_overlap)) {
    // 1e-6 covers all rounding in float, including OpenCV's through 1 - IoU.
    const double t = args.least_overlap - 1e-6;
    area_factor = t > 1e-6 ? static_cast<Real>(t / (1 + t) * (1 - 1e-6)) : Real(0);
    least_iou = t > 1e-6 ? static_cast<Real>(t) : Real(0);
    // At a threshold of 0, boxes that do not touch are suppressed too.
    const bool touches = args.least_overlap > 0;
    least_intersection = touches ? least_positive<Real> : Real(0);
    // Smaller areas may lose their digits in products, and OpenCV gives them an overlap of 1.
    least_area = overlap == nms_overlap::jaccard ? 2 * jaccard_epsilon<Real> : Real(1e-30);
    // With pixels counted, rounding may destroy all digits of smaller sides.
    least_side = !touches ? infinity<Real>() : args.plus_one ? Real(0.25) : Real(0);
  }
};

/// Box i by its corners, in the frameworks' order of operations.
template <class Real, class T>
VECDET_INLINE nms_box<Real> load_nms_box(const T* boxes, uint32_t i, nms_format format) {
  const T* const b = boxes + 4 * static_cast<index_t>(i);
  const Real a0 = static_cast<Real>(b[0]), a1 = static_cast<Real>(b[1]);
  const Real a2 = static_cast<Real>(b[2]), a3 = static_cast<Real>(b[3]);
  if (format == nms_format::corners) return {a0, a1, a2, a3, 0};
  if (format == nms_format::any_corners) {
    return {a0 >= a2 ? a2 : a0, a1 >= a3 ? a3 : a1, a0 >= a2 ? a0 : a2, a1 >= a3 ? a1 : a3, 0};
  }
  const Real half_w = rounded(a2 / 2), half_h = rounded(a3 / 2);
  return {a0 - half_w, a1 - half_h, a0 + half_w, a1 + half_h, 0};
}

/// OpenCV's overlap, a float: 1 - float(1 - IoU in double).
template <class Real>
VECDET_INLINE Real jaccard_overlap(Real intersection, Real both, Real joined) {
  if (!(both > jaccard_epsilon<Real>)) return 1;
  const double iou = static_cast<double>(intersection) / static_cast<double>(joined);
  return static_cast<Real>(1.0f - rounded(static_cast<float>(1 - rounded(iou))));
}

enum class nms_test { plain, plus_one, general };

/// Tests boxes against one kept box. The plain and plus_one tests are for regular boxes (scan.hpp);
/// the general test is for all.
template <class Real, nms_test Test>
class nms_tester {
  using real = row_pack<Real>;
  static constexpr int batches = real::batches;

 public:
  VECDET_INLINE nms_tester(const nms_box<Real>& kept, const nms_rule<Real>& rule)
      : rule_(rule),
        x1_(kept.x1),
        y1_(kept.y1),
        x2_(kept.x2),
        y2_(kept.y2),
        weighted_area_(weighted_area_of(kept)),
        area_(rounded(rounded(kept.x2 - kept.x1 + rule.one) *
                      rounded(kept.y2 - kept.y1 + rule.one))) {}

  /// Bit i: whether box i of the block is suppressed.
  VECDET_INLINE uint32_t operator()(const nms_block<Real>& block) const {
    const uint32_t candidates = near(block);
    return __builtin_expect(candidates == 0, 1) ? 0 : candidates & exact(block, candidates);
  }

  /// Bit i: whether box i may be suppressed, found without a division. The bit of every suppressed
  /// box is set.
  VECDET_INLINE uint32_t near(const nms_block<Real>& block) const {
    if constexpr (Test == nms_test::general) return near_any(block);
    // One negative side suffices to fail: if both are negative, the other operand is 0.
    const real intersection =
        max(side(x1_, block.x1, x2_, block.x2), real(Real(0))) * side(y1_, block.y1, y2_, block.y2);
    return to_bits(intersection > weighted_area_ + load_pack<batches>(weighted_area_of(block)));
  }

  /// The candidates that are suppressed.
  VECDET_INLINE uint32_t exact(const nms_block<Real>& block, uint32_t candidates) const {
    if constexpr (Test == nms_test::general) return exact_any(block, candidates);
    return exact_of(block, candidates);
  }

 private:
  struct terms {
    real intersection, area, both, joined;
  };

  VECDET_INLINE uint32_t exact_of(const nms_block<Real>& block, uint32_t candidates) const {
    const terms t = terms_of(block);
    if (rule_.overlap == nms_overlap::jaccard) return exact_jaccard(t, candidates);
    real overlap = t.intersection / t.joined;
    if constexpr (Test == nms_test::general) {
      if (rule_.overlap == nms_overlap::positive_area) {
        // A NaN area makes `joined` NaN; as the second operand, min returns it.
        const real zero(Real(0));
        overlap =
            select(min(min(area_, t.area), min(t.intersection, t.joined)) > zero, overlap, zero);
      }
    }
    return candidates & to_bits(overlap >= real(rule_.least_overlap));
  }
  // A single copy of the general test serves all callers, because hardly any input needs it.
  VECDET_NOINLINE uint32_t exact_any(const nms_block<Real>& block, uint32_t candidates) const {
    return exact_of(block, candidates);
  }

  VECDET_INLINE terms terms_of(const nms_block<Real>& block) const {
    const real one(rule_.one), zero(Real(0));
    terms t;
    t.intersection = rounded(max(side(x1_, block.x1, x2_, block.x2), zero) *
                             max(side(y1_, block.y1, y2_, block.y2), zero));
    const real w = load_pack<batches>(block.x2) - load_pack<batches>(block.x1);
    const real h = load_pack<batches>(block.y2) - load_pack<batches>(block.y1);
    t.area = rounded(Test == nms_test::plain ? w * h : (w + one) * (h + one));
    t.both = area_ + t.area;
    t.joined = t.both - t.intersection;
    return t;
  }

  /// If I >= t J holds exactly, it also holds for the rounded t J, however small: I is a float, so
  /// rounding cannot move t J past it.
  VECDET_NOINLINE uint32_t near_any(const nms_block<Real>& block) const {
    const terms t = terms_of(block);
    const real excluded = max(t.joined * real(rule_.least_iou), real(rule_.least_intersection));
    uint32_t bits = ~to_bits(excluded > t.intersection);  // NaN passes
    if (rule_.overlap == nms_overlap::jaccard)
      bits |= ~to_bits(t.both > real(jaccard_epsilon<Real>));
    return bits & to_bits(load_pack<batches>(weighted_area_of(block)) < real(infinity<Real>()));
  }

  VECDET_INLINE real side(const real& low, const Real* lows, const real& high,
                          const Real* highs) const {
    const real length = min(high, load_pack<batches>(highs)) - max(low, load_pack<batches>(lows));
    return Test == nms_test::plain ? length : length + real(rule_.one);
  }

  VECDET_NOINLINE uint32_t exact_jaccard(const terms& t, uint32_t candidates) const {
    alignas(64) Real i[16], b[16], j[16];
    store_pack<batches>(i, t.intersection);
    store_pack<batches>(b, t.both);
    store_pack<batches>(j, t.joined);
    uint32_t bits = 0;
    for (; candidates != 0; candidates &= candidates - 1) {
      const int lane = lowest_bit(candidates);
      const bool suppressed = jaccard_overlap(i[lane], b[lane], j[lane]) >= rule_.least_overlap;
      bits |= static_cast<uint32_t>(suppressed) << lane;
    }
    return bits;
  }

  nms_rule<Real> rule_;
  real x1_, y1_, x2_, y2_, weighted_area_, area_;
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
