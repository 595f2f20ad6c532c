// SPDX-License-Identifier: Apache-2.0
// Intersection over union of boxes and its kin, of all pairs or one by one.
//
//   IoU  = |A n B| / |A u B|
//   GIoU = IoU - |C \ (A u B)| / |C|, C the smallest box around both      (arXiv 1902.09630)
//   DIoU = IoU - rho^2 / c^2, rho between the centres, c C's diagonal     (arXiv 1911.08287)
//   CIoU = DIoU - alpha v, v = 4/pi^2 (atan(wa/ha) - atan(wb/hb))^2,
//          alpha = v / (1 - IoU + v)                                      (arXiv 1911.08287)
//
// as torchvision.ops computes them: eps = 1e-7 is added to c^2 and to alpha's denominator, nothing
// elsewhere. Boxes are N x 4 corners of float, bfloat16 or double; so are the results.
//
// IoU in float is the very float that torchvision's box_iou returns: one rounding an operation. The
// others are within 1e-6 of the exact value. Boxes without area: two of them have IoU 0/0, which is
// NaN, or 0 if that is asked for, as is then every IoU that is NaN (not GIoU and CIoU of two
// points, whose other terms are 0/0 as well); swapped corners count as negative areas do in the
// formula; NaN coordinates give NaN. In float, areas overflow from sides of 1e19 on, and vanish
// below 1e-19.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, or the output
// of elementwise_iou shares memory with its inputs.
#pragma once

#include <vecdet/args/iou.hpp>
#include <vecdet/detail/apart.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/iou/iou.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

struct iou_params {
  iou_kind kind = iou_kind::iou;
  empty_iou empty = empty_iou::nan;
};

namespace detail {

/// The variant in problem names; of boxes with an array a coordinate, if `is_soa`.
inline const char* iou_variant(const iou_params& params, bool is_soa = false) noexcept {
  return params.kind == iou_kind::giou    ? is_soa ? "soa_giou" : "giou"
         : params.kind == iou_kind::diou  ? is_soa ? "soa_diou" : "diou"
         : params.kind == iou_kind::ciou  ? is_soa ? "soa_ciou" : "ciou"
         : params.empty == empty_iou::nan ? is_soa ? "soa_torchvision" : "torchvision"
         : is_soa                         ? "soa_detectron2"
                                          : "detectron2";
}

constexpr index_t smallest_iou_chunk = 8192;  // pairs: some microseconds

}  // namespace detail

/// The IoU of box i of `a` and box j of `b` into out(i, j).
template <class T>
void pairwise_iou(boxes_view<T> a, boxes_view<const std::remove_const_t<T>> b,
                  matrix_view<std::remove_const_t<T>> out, const iou_params& params = {},
                  execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  detail::check(out.rows() == a.size(), "pairwise_iou", "out.rows()", out.rows(),
                "the number of boxes a");
  detail::check(out.cols() == b.size(), "pairwise_iou", "out.cols()", out.cols(),
                "the number of boxes b");
  if (out.empty()) return;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    return {"pairwise_iou",
            detail::iou_variant(params),
            dtype_name<type>(),
            {a.size(), b.size()},
            isa_name(target),
            policy.threads(),
            (4 * (a.size() + b.size()) + out.size()) * index_t{sizeof(type)},
            14 * out.size()};
  });
  // A result beyond what a second-level cache may hold is written past the caches: it would only
  // push everything else out, and lines need not be read first.
  const bool past_cache = out.rows() * out.stride() * index_t{sizeof(type)} > 8 << 20;
  const detail::iou_args<type> args{a.data(),     b.data(),    out.data(),   b.size(),
                                    out.stride(), params.kind, params.empty, past_cache};
  const auto kernel = detail::kernels<detail::iou_kernels<type>>(target).pairwise;
  // The longer list is cut; pieces of b are multiples of the kernel's tiles.
  if (b.size() >= a.size()) {
    const index_t tiles = (b.size() + 511) / 512;
    detail::for_each_chunk(
        policy, detail::chunking(tiles, 1 + detail::smallest_iou_chunk / (512 * a.size())),
        [&](index_t, index_t first, index_t last) {
          kernel(args, 0, a.size(), 512 * first, std::min(512 * last, b.size()));
        });
  } else {
    detail::for_each_chunk(
        policy, detail::chunking(a.size(), 1 + detail::smallest_iou_chunk / b.size()),
        [&](index_t, index_t first, index_t last) { kernel(args, first, last, 0, b.size()); });
  }
}

/// The IoU of box i of `a` and box i of `b`, both boxes_view or both boxes_soa_view, into out[i].
template <class Boxes>
void elementwise_iou(Boxes a, detail::inputs_of<Boxes> b,
                     vector_view<typename detail::viewed<Boxes, void>::delta> out,
                     const iou_params& params = {}, execution policy = execution::parallel) {
  using type = typename detail::viewed<Boxes, void>::delta;
  using stored = typename detail::viewed<Boxes, void>::decoded;
  detail::check(b.size() == a.size(), "elementwise_iou", "b.size()", b.size(),
                "the number of boxes a");
  detail::check(out.size() == a.size(), "elementwise_iou", "out.size()", out.size(),
                "the number of boxes a");
  detail::check_apart("elementwise_iou", "out", out, "a", a);
  detail::check_apart("elementwise_iou", "out", out, "b", b);
  if (a.empty()) return;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    return {"elementwise_iou",
            detail::iou_variant(params, !std::is_same<stored, type>::value),
            dtype_name<type>(),
            {a.size()},
            isa_name(target),
            policy.threads(),
            9 * a.size() * index_t{sizeof(type)},
            14 * a.size()};
  });
  const detail::iou_args<stored> args{detail::inputs_of<Boxes>(a).data(),
                                      b.data(),
                                      out.data(),
                                      0,
                                      0,
                                      params.kind,
                                      params.empty,
                                      false};
  const auto& row = detail::kernels<detail::iou_kernels<type>>(target);
  void (*kernel)(const detail::iou_args<stored>&, index_t, index_t);
  if constexpr (std::is_same<stored, type>::value) {
    kernel = row.elementwise;
  } else {
    kernel = row.elementwise_separate;
  }
  detail::for_each_chunk(policy, detail::chunking(a.size(), detail::smallest_iou_chunk),
                         [&](index_t, index_t first, index_t last) { kernel(args, first, last); });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
