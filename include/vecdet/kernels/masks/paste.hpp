// SPDX-License-Identifier: Apache-2.0
// Pasted masks: the pixels of a box between the locations of a small map, whose border is 0.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/kernels/masks/enlarge.hpp>
#include <vecdet/simd/transpose.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

/// The locations and weights of the pixels `span` along a side of `pixels` pixels from `begin` on,
/// between `locations`; the last location is repeated.
inline void paste_axis(detail::mask_span span, double begin, double pixels, index_t locations,
                       std::int32_t* location, float* weight) {
  const double scale = detail::quotient(static_cast<double>(locations), pixels);
  const auto last = static_cast<double>(locations - 1);
  for (std::int32_t i = span.begin; i < span.end; ++i) {
    const double centre = (static_cast<double>(i) - begin) + 0.5;
    double at = detail::rounded(centre * scale) - 0.5;
    at = at > 0 ? at : 0;
    at = at < last ? at : last;  // where the weight is 0
    const auto before = static_cast<std::int32_t>(at);
    location[i - span.begin] = before;
    weight[i - span.begin] = static_cast<float>(at - static_cast<double>(before));
  }
  const std::int32_t count = span.end - span.begin;
  for (std::int32_t i = count; i < count + detail::mask_axis_padding; ++i) {
    location[i] = location[count - 1];
    weight[i] = 0;
  }
}

/// A mask. `map` has the map with its border, minus the threshold: linear interpolation keeps the
/// difference. write(above, below, weights, count, row) writes `count` rows from the given one on,
/// which lie between two enlarged rows of locations.
template <class T, class Write>
VECDET_INLINE void paste_mask(const detail::paste_masks_args<T>& a, const detail::paste_plan& plan,
                              float* map, const Write& write) {
  const index_t height = a.height + 2, stride = a.map_stride();
  const index_t across = plan.x.size(), down = plan.y.size();
  float* const rows = map + a.map_size();
  float* const x_weight = rows + 2 * a.pixels_size();
  float* const y_weight = x_weight + across + detail::mask_axis_padding;
  auto* const x_location = reinterpret_cast<std::int32_t*>(x_weight + a.axes_size());
  std::int32_t* const y_location = x_location + across + detail::mask_axis_padding;
  paste_axis(plan.x, plan.left, plan.width, a.width + 2, x_location, x_weight);
  paste_axis(plan.y, plan.top, plan.height, height, y_location, y_weight);
  const detail::mask_axis axis{x_location, x_weight, nullptr};
  const detail::mask_span all{0, plan.x.end - plan.x.begin};
  index_t known = -1;  // the last location of which there is an enlarged row
  const auto enlarged = [&](index_t location) {
    float* const to = rows + location % 2 * a.pixels_size();
    if (location > known) {
      enlarge_row(map + location * stride, 0, axis, all, to);
      known = location;
    }
    return to;
  };
  for (index_t at = 0; at < down;) {
    const index_t above = y_location[at];
    index_t end = at + 1;
    while (end < down && y_location[end] == above) ++end;
    const float* const from = enlarged(above);
    const float* const to = above + 1 < height ? enlarged(above + 1) : from;
    write(from, to, y_weight + at, end - at, at);
    at = end;
  }
}

template <mask_pixels Kind, class T>
void paste_pixels(const detail::paste_masks_args<T>& a, const detail::paste_plan& plan,
                  float* map) {
  paste_mask(a, plan, map,
             [&](const float* above, const float* below, const float* weights, index_t count,
                 index_t row) {
               write_rows_between<Kind>(above, below, weights, count, plan.x.size(),
                                        a.pixels + plan.offset + row * plan.row_bytes,
                                        plan.row_bytes);
             });
}

template <class T>
void paste_numbers(const detail::paste_masks_args<T>& a, const detail::paste_plan& plan,
                   float* map) {
  paste_mask(a, plan, map,
             [&](const float* above, const float* below, const float* weights, index_t count,
                 index_t row) {
               write_numbers_between(above, below, weights, count, plan.x.size(),
                                     a.numbers + plan.offset + row * plan.row_bytes,
                                     plan.row_bytes);
             });
}

template <class T>
void paste_masks(const detail::paste_masks_args<T>& a, index_t first, index_t last,
                 float* scratch) {
  const index_t stride = a.map_stride();
  for (index_t i = 0; i < a.map_size(); ++i) scratch[i] = 0 - a.threshold;
  for (index_t m = first; m < last; ++m) {
    if (a.masks[m].x.empty()) continue;
    for (index_t y = 0; y < a.height; ++y) {
      float* const to = scratch + (y + 1) * stride + 1;
      convert(a.maps + (m * a.height + y) * a.width, a.width, to);
      for (index_t x = 0; x < a.width; ++x) to[x] -= a.threshold;
    }
    if (a.numbers != nullptr)
      paste_numbers(a, a.masks[m], scratch);
    else if (a.kind == mask_pixels::bits)
      paste_pixels<mask_pixels::bits>(a, a.masks[m], scratch);
    else
      paste_pixels<mask_pixels::bytes>(a, a.masks[m], scratch);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
