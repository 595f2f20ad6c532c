// SPDX-License-Identifier: Apache-2.0
// Boxes with 16-bit numbers, for a first NMS test of 32 boxes at once. Coordinates are steps in a
// frame around all boxes, and areas are in units of 256 by 256 steps. Rounding never shrinks an
// intersection and never enlarges a weighted area, so this test passes everything that
// nms_tester::near passes. It passes little more if boxes are larger than a few units and the
// threshold is not high.
#pragma once

#include <vecdet/kernels/nms/memory.hpp>
#include <vecdet/simd/unsigned16.hpp>

namespace vecdet {
namespace VECDET_TARGET {

#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)

/// `scale` is steps per unit of length, from the lowest corner on. A weighted area times
/// `area_scale` is in units of 256 by 256 steps.
struct nms_frame {
  float low_x, low_y, scale, area_scale;
};

/// The frame around the boxes of a list.
inline nms_frame frame_of(const nms_list<float>& list, index_t slots, const nms_rule<float>& rule) {
  using real = row_pack<float>;
  constexpr int batches = real::batches;
  const real most = infinity<float>(), least = -infinity<float>();
  real low_x = most, low_y = most, high_x = least, high_y = least;
  for (index_t b = 0; b < blocks_of(slots); ++b) {
    const nms_block<float>& block = list.blocks[b];
    const auto counts = load_pack<batches>(weighted_area_of(block)) < most;
    low_x = min(low_x, select(counts, load_pack<batches>(block.x1), most));
    low_y = min(low_y, select(counts, load_pack<batches>(block.y1), most));
    high_x = max(high_x, select(counts, load_pack<batches>(block.x2), least));
    high_y = max(high_y, select(counts, load_pack<batches>(block.y2), least));
  }
  alignas(64) float ends[4][16];
  store_pack<batches>(ends[0], low_x);
  store_pack<batches>(ends[1], low_y);
  store_pack<batches>(ends[2], high_x);
  store_pack<batches>(ends[3], high_y);
  const float x = least16(ends[0]), y = least16(ends[1]);
  const float width = greatest16(ends[2]) - x, height = greatest16(ends[3]) - y;
  // A weighted area is at most half of the frame's area. The sum of two is therefore below 65535 in
  // the comparison with the upper halves of 32-bit products.
  const float scale = 65000.0f / ((width > height ? width : height) + rule.one);
  constexpr float below = 0.99999f;  // covers all rounding of weighted areas, at most 1e-6
  return {x, y, scale, scale * (below / 65536) * scale};
}

/// Sets the coarse boxes of a list. Returns whether the coarse test pays, that is, whether nearly
/// all weighted areas are at least a few units; for smaller boxes, it would pass all that touch.
inline bool set_coarse(const nms_list<float>& list, index_t slots, const nms_rule<float>& rule,
                       const nms_frame& frame, nms_coarse* coarse) {
  using real = row_pack<float>;
  constexpr int batches = real::batches;
  // Rounding to nearest is off by half a step. The rest covers the rounding errors of `steps`, at
  // most 0.02, and of a side that nearly vanishes when its pixel is added.
  const real down = -0.55f, up = 0.55f, one = rule.one;
  const auto set = [](std::uint16_t* to, const real& steps) VECDET_INLINE_LAMBDA {
    alignas(64) std::int32_t whole[16];
    store_pack<batches>(whole, nearest_whole(steps, 65535.0f));
    for (int i = 0; i < 16; ++i) to[i] = static_cast<std::uint16_t>(whole[i]);
  };
  index_t large = 0, counted = 0;  // boxes that are large enough, among those not isolated
  const index_t blocks = blocks_of(slots);
  for (index_t b = 0; b < blocks; ++b) {
    const nms_block<float>& block = list.blocks[b];
    nms_coarse& to = coarse[b / 2];
    const index_t first = 16 * (b % 2);
    // 1 is added after the subtraction: beside large coordinates it would be lost.
    const auto steps = [&](const float* x, float low, const real& more) VECDET_INLINE_LAMBDA {
      return (load_pack<batches>(x) - real(low) + more) * real(frame.scale);
    };
    set(to.x1 + first, steps(block.x1, frame.low_x, real(0.0f)) + down);
    set(to.y1 + first, steps(block.y1, frame.low_y, real(0.0f)) + down);
    set(to.x2 + first, steps(block.x2, frame.low_x, one) + up);
    set(to.y2 + first, steps(block.y2, frame.low_y, one) + up);
    const real weighted_area = load_pack<batches>(weighted_area_of(block)) * real(frame.area_scale);
    set(to.weighted_area + first, weighted_area + down);
    constexpr float few_units = 4;
    const uint32_t counts = to_bits(weighted_area < real(infinity<float>()));
    counted += count_bits(counts);
    large += count_bits(counts & to_bits(weighted_area >= real(few_units)));
  }
  if (blocks % 2 != 0) {  // no box passes the test against a weighted area of 65535
    nms_coarse& last = coarse[blocks / 2];
    for (int i = 16; i < 32; ++i) {
      last.x1[i] = last.y1[i] = last.x2[i] = last.y2[i] = 0;
      last.weighted_area[i] = 65535;
    }
  }
  return 16 * large > 15 * counted;
}

/// The coarse test of one kept box, number i of a block.
class nms_coarse_tester {
 public:
  VECDET_INLINE nms_coarse_tester(const nms_coarse& block, index_t i)
      : x1_(all_u16(block.x1[i])),
        y1_(all_u16(block.y1[i])),
        x2_(all_u16(block.x2[i])),
        y2_(all_u16(block.y2[i])),
        weighted_area_(all_u16(block.weighted_area[i])) {}

  /// Bit i: whether box i may be suppressed.
  VECDET_INLINE uint32_t operator()(const nms_coarse& block) const {
    return bits_of_32([&](int k) VECDET_INLINE_LAMBDA {
      const u16_batch area = mul_high(side(x1_, block.x1 + k, x2_, block.x2 + k),
                                      side(y1_, block.y1 + k, y2_, block.y2 + k));
      return area >= sadd(weighted_area_, load_u16(block.weighted_area + k));
    });
  }

 private:
  static VECDET_INLINE u16_batch side(u16_batch low, const std::uint16_t* lows, u16_batch high,
                                      const std::uint16_t* highs) {
    return ssub(min(high, load_u16(highs)), max(low, load_u16(lows)));
  }

  u16_batch x1_, y1_, x2_, y2_, weighted_area_;
};

#endif

}  // namespace VECDET_TARGET
}  // namespace vecdet
