// SPDX-License-Identifier: Apache-2.0
// The functions of iou.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/iou.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/iou.hpp>
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

namespace detail {

/// The variant in the profiler's problem names. `is_soa`: one array per coordinate.
inline const char* iou_variant(const iou_params& params, bool is_soa = false) noexcept {
  return params.kind == iou_kind::giou    ? is_soa ? "soa_giou" : "giou"
         : params.kind == iou_kind::diou  ? is_soa ? "soa_diou" : "diou"
         : params.kind == iou_kind::ciou  ? is_soa ? "soa_ciou" : "ciou"
         : params.empty == empty_iou::nan ? is_soa ? "soa_torchvision" : "torchvision"
         : is_soa                         ? "soa_detectron2"
                                          : "detectron2";
}

constexpr index_t smallest_iou_chunk = 8192;  // pairs: a few microseconds

}  // namespace detail

template <class Boxes>
void pairwise_iou(const Boxes& given, boxes_view<const coordinate_of<Boxes>> b,
                  matrix_view<coordinate_of<Boxes>> out, const iou_params& params,
                  threading policy) {
  const auto a = detail::boxes_in(given, "pairwise_iou", "a");
  using type = coordinate_of<Boxes>;
  detail::check_size("pairwise_iou", "out.rows()", out.rows(), a.size(), "the number of boxes a");
  detail::check_size("pairwise_iou", "out.cols()", out.cols(), b.size(), "the number of boxes b");
  detail::check_apart("pairwise_iou", "out", out, "a", a);
  detail::check_apart("pairwise_iou", "out", out, "b", b);
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
  // A result larger than a second-level cache is written past the caches with streaming stores. It
  // would evict everything else, and streaming stores need not read the lines first.
  const bool past_cache = out.rows() * out.stride() * index_t{sizeof(type)} > 8 << 20;
  const detail::iou_args<type> args{a.data(),     b.data(),    out.data(),   b.size(),
                                    out.stride(), params.kind, params.empty, past_cache};
  const auto kernel = detail::kernels<detail::iou_kernels<type>>(target).pairwise;
  // Pieces of b are multiples of the kernel's tiles. What has more pieces is divided.
  const index_t tiles = (b.size() + 511) / 512;
  if (tiles >= a.size()) {
    detail::for_each_chunk(
        policy, detail::chunking(tiles, 1 + detail::smallest_iou_chunk / (512 * a.size())),
        [&](index_t, index_t first, index_t last) {
          kernel(args, 0, a.size(), 512 * first, std::min(512 * last, b.size()));
        });
  } else {
    const index_t pieces = detail::even_pieces(a.size(), detail::usable_threads(policy));
    detail::for_each_chunk(
        policy,
        detail::chunking(a.size(), std::max(1 + detail::smallest_iou_chunk / b.size(),
                                            (a.size() + pieces - 1) / pieces)),
        [&](index_t, index_t first, index_t last) { kernel(args, first, last, 0, b.size()); });
  }
}

namespace detail {

/// S is the storage of the boxes.
template <class S, class Boxes, class T>
void run_elementwise_iou(const Boxes& a, const Boxes& b, vector_view<T> out,
                         const iou_params& params, threading policy) {
  check_size("elementwise_iou", "b.size()", b.size(), a.size(), "the number of boxes a");
  check_size("elementwise_iou", "out.size()", out.size(), a.size(), "the number of boxes a");
  check_apart("elementwise_iou", "out", out, "a", a);
  check_apart("elementwise_iou", "out", out, "b", b);
  if (a.empty()) return;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    return {"elementwise_iou",
            iou_variant(params, !std::is_same<S, T>::value),
            dtype_name<T>(),
            {a.size()},
            isa_name(target),
            policy.threads(),
            9 * a.size() * index_t{sizeof(T)},
            14 * a.size()};
  });
  const iou_args<S> args{boxes_of(a), boxes_of(b), out.data(),   0,
                         0,           params.kind, params.empty, false};
  const auto& kernels = detail::kernels<iou_kernels<T>>(target);
  void (*kernel)(const iou_args<S>&, index_t, index_t);
  if constexpr (std::is_same<S, T>::value) {
    kernel = kernels.elementwise;
  } else {
    kernel = kernels.elementwise_separate;
  }
  for_each_chunk(policy, chunking(a.size(), smallest_iou_chunk),
                 [&](index_t, index_t first, index_t last) { kernel(args, first, last); });
}

}  // namespace detail

template <class Boxes>
void elementwise_iou(const Boxes& given, boxes_view<const coordinate_of<Boxes>> b,
                     vector_view<coordinate_of<Boxes>> out, const iou_params& params,
                     threading policy) {
  const auto a = detail::boxes_in(given, "elementwise_iou", "a");
  using type = coordinate_of<Boxes>;
  detail::run_elementwise_iou<type, boxes_view<const type>>(a, b, out, params, policy);
}

template <class T>
void elementwise_iou(boxes_soa_view<T> a, boxes_soa_view<const value_of<T>> b,
                     vector_view<value_of<T>> out, const iou_params& params, threading policy) {
  using type = value_of<T>;
  detail::run_elementwise_iou<detail::separate<type>, boxes_soa_view<const type>>(a, b, out, params,
                                                                                  policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
