// SPDX-License-Identifier: Apache-2.0
// The functions of roi_align.hpp.
#pragma once

#include <vecdet/impl/roi_align_call.hpp>
#include <vecdet/roi_align.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

template <class T>
void roi_align(feature_view<T> features, const roi_boxes<compute_type<value_of<T>>>& boxes,
               feature_view<value_of<T>> out, const roi_align_params& params,
               roi_align_workspace& workspace, threading policy) {
  using stored = value_of<T>;
  constexpr const char* function = "roi_align";
  detail::check_roi_params(function, params);
  detail::check_roi_boxes(function, boxes, features.images());
  detail::check_bins(function, "out", out, boxes.boxes.size(), features.channels(),
                     features.layout());
  detail::check_apart(function, "out", out, "features", features);
  detail::check_apart_from_boxes(function, "out", out, boxes);
  const detail::roi_level<stored> level{features.data(), nullptr, features.height(),
                                        features.width(), params.spatial_scale};
  const feature_view<const stored> bins(out);
  detail::roi_align_call<stored>(function, {&level, 1}, features.images(), boxes, bins, params,
                                 detail::workspace_access::buffers(workspace), policy)
      .forward(out.data(), [](index_t) { return index_t{0}; });
}

template <class T>
void roi_align_grad(feature_view<T> upstream, const roi_boxes<compute_type<value_of<T>>>& boxes,
                    feature_view<value_of<T>> grad, const roi_align_params& params,
                    roi_align_workspace& workspace, threading policy) {
  using stored = value_of<T>;
  constexpr const char* function = "roi_align_grad";
  detail::check_roi_params(function, params);
  detail::check_roi_boxes(function, boxes, grad.images());
  detail::check_bins(function, "upstream", upstream, boxes.boxes.size(), grad.channels(),
                     grad.layout());
  detail::check_apart(function, "grad", grad, "upstream", upstream);
  detail::check_apart_from_boxes(function, "grad", grad, boxes);
  const detail::roi_level<stored> level{nullptr, grad.data(), grad.height(), grad.width(),
                                        params.spatial_scale};
  const feature_view<const stored> bins(upstream);
  detail::roi_align_call<stored>(function, {&level, 1}, grad.images(), boxes, bins, params,
                                 detail::workspace_access::buffers(workspace), policy)
      .backward([](index_t) { return index_t{0}; });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
