// SPDX-License-Identifier: Apache-2.0
// Masks from prototypes: a band of rows of all masks of an image.
//
// The rows of the prototypes are copied, channel by channel, as far as any mask of the band needs
// them: a band is small enough for the second-level cache, and in the map itself the channels of a
// location often lie at multiples of 4096 bytes, which few of its lines may share. Then each mask
// is computed on its own: a row of logits, enlarged in x; pixels between two such rows.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/kernels/masks/enlarge.hpp>
#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/transpose.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

constexpr std::int32_t mask_least(std::int32_t a, std::int32_t b) { return a < b ? a : b; }
constexpr std::int32_t mask_most(std::int32_t a, std::int32_t b) { return a < b ? b : a; }
constexpr detail::mask_span mask_common(detail::mask_span a, detail::mask_span b) {
  return {mask_most(a.begin, b.begin), mask_least(a.end, b.end)};
}

/// The logits of K batches of locations. Even and odd channels are added separately, so that there
/// are two chains of additions for each batch.
template <int K>
VECDET_INLINE void mask_logits(const float* prototypes, index_t stride, index_t channels,
                               const float* coefficients, float* to) {
  using some = pack<float, K>;
  some even(0.0f), odd(0.0f);
  index_t c = 0;
  for (; c + 2 <= channels; c += 2) {
    even = fma(some(coefficients[c]), load_pack<K>(prototypes + c * stride), even);
    odd = fma(some(coefficients[c + 1]), load_pack<K>(prototypes + (c + 1) * stride), odd);
  }
  if (c < channels) even = fma(some(coefficients[c]), load_pack<K>(prototypes + c * stride), even);
  store_pack<K>(to, even + odd);
}

/// The masks of an image, in a band of its rows of locations.
template <class T>
class mask_band {
 public:
  mask_band(const detail::prototype_masks_args<T>& a, index_t image, index_t first, index_t last,
            float* scratch)
      : a_(a),
        picture_(a.pictures[image]),
        band_{static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)},
        tile_(scratch),
        logits_(tile_ + (last - first + 1) * a.channels * a.channel_stride() + 16),
        enlarged_{logits_ + a.logits_size(), logits_ + a.logits_size() + a.pixels_size()} {
    constexpr std::int32_t most = 0x7fffffff;
    columns_ = rows_ = {most, 0};
    for (index_t m = picture_.first; m < picture_.last; ++m) {
      const detail::mask_plan& plan = a.masks[m];
      const detail::mask_span rows = rows_of(plan);
      if (rows.empty()) continue;
      columns_ = {mask_least(columns_.begin, plan.columns.begin),
                  mask_most(columns_.end, plan.columns.end)};
      rows_ = {mask_least(rows_.begin, rows.begin), mask_most(rows_.end, rows.end)};
    }
    if (!rows_.empty()) copy(image);
  }

  template <mask_pixels Kind>
  void write() {
    for (index_t m = picture_.first; m < picture_.last; ++m) {
      const detail::mask_plan& plan = a_.masks[m];
      if (!rows_of(plan).empty())
        write_mask<Kind>(plan, a_.coefficients + m * a_.coefficient_stride);
    }
  }

 private:
  /// The rows of a mask's pixels that belong to the band.
  VECDET_INLINE detail::mask_span pixels_of(const detail::mask_plan& plan) const {
    return mask_common(plan.y, a_.is_small ? band_
                                           : detail::mask_span{picture_.y.begin[band_.begin],
                                                               picture_.y.begin[band_.end]});
  }
  /// The rows of locations that they need.
  VECDET_INLINE detail::mask_span rows_of(const detail::mask_plan& plan) const {
    if (plan.y.empty()) return {0, 0};
    const detail::mask_span y = pixels_of(plan);
    if (a_.is_small || y.empty()) return y;
    return mask_common(plan.rows,
                       {picture_.y.location[y.begin], picture_.y.location[y.end - 1] + 2});
  }

  void copy(index_t image) {
    const index_t stride = a_.channel_stride(), count = columns_.size();
    for (index_t y = rows_.begin; y < rows_.end; ++y)
      for (index_t c = 0; c < a_.channels; ++c) {
        float* const to = tile_ + ((y - rows_.begin) * a_.channels + c) * stride;
        convert(
            a_.prototypes + ((image * a_.channels + c) * a_.height + y) * a_.width + columns_.begin,
            count, to);
        for (index_t i = 0; i < row_lanes; ++i) to[count + i] = 0;
      }
  }

  /// The logits of a mask in row y, and the last once more.
  void compute_logits(const detail::mask_plan& plan, const float* coefficients, index_t y) {
    constexpr int K = 4;
    constexpr index_t lanes = batch_lanes<float>;
    const index_t count = plan.columns.size(), stride = a_.channel_stride();
    index_t i = 0;
    if (plan.counted_rows.has(y)) {
      const float* const from =
          tile_ + (y - rows_.begin) * a_.channels * stride + (plan.columns.begin - columns_.begin);
      for (; i + K * lanes <= count; i += K * lanes)
        mask_logits<K>(from + i, stride, a_.channels, coefficients, logits_ + i);
      for (; i < count; i += lanes)
        mask_logits<1>(from + i, stride, a_.channels, coefficients, logits_ + i);
      const index_t begin = plan.counted_columns.begin - plan.columns.begin;
      for (i = 0; i < begin; ++i) logits_[i] = 0;
      i = plan.counted_columns.end - plan.columns.begin;
    }
    for (; i < count; ++i) logits_[i] = 0;
    logits_[count] = logits_[count - 1];
  }

  template <mask_pixels Kind>
  void write_mask(const detail::mask_plan& plan, const float* coefficients) {
    const detail::mask_span y = pixels_of(plan);
    const index_t width = plan.x.size();
    std::uint8_t* const pixels = a_.pixels + plan.offset;
    const auto row = [&](index_t at) { return pixels + (at - plan.y.begin) * plan.row_bytes; };
    if (a_.is_small) {
      for (index_t at = y.begin; at < y.end; ++at) {
        compute_logits(plan, coefficients, at);
        write_row<Kind>(logits_, width, row(at));
      }
      return;
    }
    const detail::mask_axis& axis = picture_.y;
    index_t known = -1;  // the last location of which there is an enlarged row
    const auto enlarged = [&](index_t location) {
      float* const to = enlarged_[location % 2];
      if (location > known) {
        compute_logits(plan, coefficients, location);
        enlarge_row(logits_, plan.columns.begin, picture_.x, plan.x, to);
        known = location;
      }
      return to;
    };
    for (index_t at = y.begin; at < y.end;) {
      const index_t above = axis.location[at];
      const index_t end = mask_least(y.end, axis.begin[above + 1]);
      const float* const from = enlarged(above);
      const float* const to = above + 1 < plan.rows.end ? enlarged(above + 1) : from;
      write_rows_between<Kind>(from, to, axis.weight + at, end - at, width, row(at),
                               plan.row_bytes);
      at = end;
    }
  }

  const detail::prototype_masks_args<T>& a_;
  const detail::mask_picture& picture_;
  detail::mask_span band_, columns_, rows_;
  float* tile_;
  float* logits_;
  float* enlarged_[2];
};

template <class T>
void prototype_masks(const detail::prototype_masks_args<T>& a, index_t image, index_t first,
                     index_t last, float* scratch) {
  mask_band<T> band(a, image, first, last, scratch);
  if (a.kind == mask_pixels::bits)
    band.template write<mask_pixels::bits>();
  else
    band.template write<mask_pixels::bytes>();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
