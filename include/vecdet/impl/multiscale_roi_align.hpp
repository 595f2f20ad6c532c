// SPDX-License-Identifier: Apache-2.0
// The functions of multiscale_roi_align.hpp.
#pragma once

#include <vecdet/impl/roi_align_call.hpp>
#include <vecdet/multiscale_roi_align.hpp>

#include <cmath>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

constexpr index_t max_pyramid_levels = 32;

/// Maps boxes to levels of a pyramid.
class level_mapper {
 public:
  level_mapper(const char* function, index_t levels, double scale, double canonical_size,
               index_t canonical_level)
      : last_(levels - 1), canonical_size_(canonical_size), canonical_level_(canonical_level) {
    check(levels >= 1 && levels <= max_pyramid_levels, function, "the number of levels", levels,
          "1 to 32");
    int exponent = 0;
    const bool is_usable = scale > 0 && fits_float(scale);
    check(is_usable && is_equal(std::frexp(scale, &exponent), 0.5), function,
          "the scale of level 0", scale, "a power of two");
    first_ = 1 - exponent;
    check(fits_float(canonical_size) && static_cast<float>(canonical_size) > 0, function,
          "canonical_size", canonical_size, "a finite float above 0");
    check(canonical_level >= -64 && canonical_level <= 64, function, "canonical_level",
          canonical_level, "-64 to 64");
  }

  template <class Real>
  index_t operator()(const Real* box) const {
    const Real size = square_root(rounded((box[2] - box[0]) * (box[3] - box[1])));
    const Real ratio = quotient(size, static_cast<Real>(canonical_size_));
    // In double even with -ffast-math, which would choose the function of float.
    const double exact = rounded(std::log2(rounded(static_cast<double>(ratio))));
    const Real level =
        rounded(rounded(static_cast<Real>(canonical_level_) + static_cast<Real>(exact)) +
                static_cast<Real>(1e-6));
    const double k = static_cast<double>(level) - static_cast<double>(first_);
    if (is_nan(k) || k < 1) return 0;
    return k >= static_cast<double>(last_) ? last_ : static_cast<index_t>(k);
  }

 private:
  index_t first_ = 0, last_;
  double canonical_size_;
  index_t canonical_level_;
};

/// The levels of a call, checked for consistency.
template <class T>
struct roi_pyramid {
  roi_level<T> levels[max_pyramid_levels];
  index_t count = 0;

  template <class View>
  roi_pyramid(const char* function, const char* name, vector_view<const View> views,
              const multiscale_roi_align_params& params) {
    check_size(function, "params.scales.size()", params.scales.size(), views.size(),
               "the number of levels");
    for (index_t l = 0; l < views.size(); ++l) {
      const View& view = views[l];
      const double scale = params.scales[l];
      check_element(l == 0 || is_equal(2 * scale, params.scales[l - 1]), function, "params.scales",
                    l, scale, "half of the one before");
      check_element(view.images() == views[0].images() && view.channels() == views[0].channels() &&
                        view.layout() == views[0].layout(),
                    function, name, l,
                    std::to_string(view.images()) + " x " + std::to_string(view.channels()),
                    "the images, channels and layout of the first");
      levels[count].height = view.height();
      levels[count].width = view.width();
      levels[count].scale = scale;
      set_data(levels[count++], view.data());
    }
  }
  vector_view<const roi_level<T>> view() const { return {levels, count}; }

 private:
  static void set_data(roi_level<T>& level, const T* data) { level.features = data; }
  static void set_data(roi_level<T>& level, T* data) { level.grad = data; }
};

inline roi_align_params level_params(const multiscale_roi_align_params& params) {
  roi_align_params per_level;
  per_level.sampling_ratio = params.sampling_ratio;
  per_level.aligned = params.aligned;
  per_level.add_to_grad = params.add_to_grad;
  return per_level;
}

}  // namespace detail

template <class T>
void multiscale_roi_align(vector_view<const feature_view<std::add_const_t<T>>> levels,
                          const roi_boxes<compute_type<value_of<T>>>& boxes, feature_view<T> out,
                          const multiscale_roi_align_params& params, roi_align_workspace& workspace,
                          threading policy) {
  constexpr const char* function = "multiscale_roi_align";
  const detail::level_mapper level_of(function, levels.size(),
                                      params.scales.empty() ? 1 : params.scales[0],
                                      params.canonical_size, params.canonical_level);
  const detail::roi_pyramid<T> pyramid(function, "levels", levels, params);
  const roi_align_params per_level = detail::level_params(params);
  detail::check_roi_params(function, per_level);
  detail::check_roi_boxes(function, boxes, levels[0].images());
  detail::check_bins(function, "out", out, boxes.boxes.size(), levels[0].channels(),
                     levels[0].layout());
  for (const auto& level : levels) detail::check_apart(function, "out", out, "levels", level);
  detail::check_apart_from_boxes(function, "out", out, boxes);
  const feature_view<const T> bins(out);
  detail::roi_align_call<T>(function, pyramid.view(), levels[0].images(), boxes, bins, per_level,
                            detail::workspace_access::buffers(workspace), policy)
      .forward(out.data(), [&](index_t i) { return level_of(boxes.boxes[i]); });
}

template <class T>
void multiscale_roi_align_grad(feature_view<T> upstream,
                               const roi_boxes<compute_type<value_of<T>>>& boxes,
                               vector_view<const feature_view<value_of<T>>> grads,
                               const multiscale_roi_align_params& params,
                               roi_align_workspace& workspace, threading policy) {
  using stored = value_of<T>;
  constexpr const char* function = "multiscale_roi_align_grad";
  const detail::level_mapper level_of(function, grads.size(),
                                      params.scales.empty() ? 1 : params.scales[0],
                                      params.canonical_size, params.canonical_level);
  const detail::roi_pyramid<stored> pyramid(function, "grads", grads, params);
  const roi_align_params per_level = detail::level_params(params);
  detail::check_roi_params(function, per_level);
  detail::check_roi_boxes(function, boxes, grads[0].images());
  detail::check_bins(function, "upstream", upstream, boxes.boxes.size(), grads[0].channels(),
                     grads[0].layout());
  for (index_t l = 0; l < grads.size(); ++l) {
    detail::check_apart(function, "grads", grads[l], "upstream", upstream);
    detail::check_apart_from_boxes(function, "grads", grads[l], boxes);
    for (index_t other = 0; other < l; ++other)
      detail::check_apart(function, "grads", grads[l], "another level of grads", grads[other]);
  }
  const feature_view<const stored> bins(upstream);
  detail::roi_align_call<stored>(function, pyramid.view(), grads[0].images(), boxes, bins,
                                 per_level, detail::workspace_access::buffers(workspace), policy)
      .backward([&](index_t i) { return level_of(boxes.boxes[i]); });
}

template <class Real>
void pyramid_levels(boxes_view<Real> boxes, vector_view<index_t> levels, index_t count,
                    double scale, double canonical_size, index_t canonical_level) {
  constexpr const char* function = "pyramid_levels";
  const detail::level_mapper level_of(function, count, scale, canonical_size, canonical_level);
  detail::check_size(function, "levels.size()", levels.size(), boxes.size(), "the number of boxes");
  detail::check_apart(function, "levels", levels, "boxes", boxes);
  for (index_t i = 0; i < boxes.size(); ++i) levels[i] = level_of(boxes[i]);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
