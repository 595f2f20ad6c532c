// SPDX-License-Identifier: Apache-2.0
// Box coding and IoU: functions without a gradient, whose results have known shapes.
#pragma once

#include <vecdet/box_coding.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/iou.hpp>

#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The coder with weights; empty: its own. Without a limit, nothing is clamped.
inline coder_params coder_of(const char* function, coder_params coder,
                             at::ArrayRef<double> weights) {
  set_weights(function, coder, weights);
  if (coder.size_limit == std::numeric_limits<double>::infinity()) {
    coder.clamp = size_clamp::none;
    coder.size_limit = coder_params().size_limit;
  }
  return coder;
}

/// An image size from height and width, in torchvision's order.
inline image_size image_of(const char* function, at::ArrayRef<double> size) {
  check(size.size() == 2, function, "image_size.size()", size.size(),
        "2, height and width, or 0 for no clipping");
  return image_size::height_width(size[0], size[1]);
}

/// Calls use(T(), B()) with the types of deltas and boxes. Deltas of bfloat16 may come with boxes
/// of float.
template <class Use>
void with_coded_element(at::ScalarType type, at::ScalarType box_type, const Use& use) {
  if (type == at::kBFloat16 && box_type == at::kFloat)
    use(bfloat16(), float());
  else
    with_element(type, [&](auto element) { use(element, element); });
}

/// The type of the boxes decoded from these types of deltas and anchors.
inline at::ScalarType decoded_type(at::ScalarType deltas, at::ScalarType anchors) {
  return deltas == at::kBFloat16 && anchors != at::kBFloat16 ? at::kFloat : deltas;
}

inline void check_coded(const char* function, const char* argument, const at::Tensor& boxes,
                        const at::Tensor& anchors) {
  check_boxes(function, argument, boxes);
  check_boxes(function, "anchors", anchors);
  check_shape(anchors.sizes() == boxes.sizes(), function, "anchors", anchors,
              "the shape of the first argument");
}

/// The deltas or distances by encode(targets, anchors, out) on views.
template <class Encode>
at::Tensor encoded(const char* function, const at::Tensor& targets, const at::Tensor& anchors,
                   const Encode& encode) {
  return translated([&] {
    check_coded(function, "targets", targets, anchors);
    const at::ScalarType type = computed_type(function, "targets", targets, "anchors", anchors);
    const at::Tensor x = contiguous("targets", targets, type);
    const at::Tensor a = contiguous("anchors", anchors, type);
    const at::Tensor codes = at::empty(targets.sizes(), x.options());
    with_element(type, [&](auto element) {
      using T = decltype(element);
      encode(boxes<const T>(x), boxes<const T>(a), boxes<T>(codes));
    });
    return codes.to(c10::promoteTypes(targets.scalar_type(), anchors.scalar_type()));
  });
}

/// The boxes that decode(codes, anchors, image's size, out) writes to a view. If the size is empty,
/// decode() gets none.
template <class Decode>
at::Tensor decoded(const char* function, const char* argument, const at::Tensor& codes,
                   const at::Tensor& anchors, at::ArrayRef<double> image_size,
                   const Decode& decode) {
  return translated([&] {
    check_coded(function, argument, codes, anchors);
    computed_type(function, "anchors", anchors);
    const at::ScalarType type = computed_type(function, argument, codes);
    const at::ScalarType box_type = decoded_type(type, anchors.scalar_type());
    const at::Tensor x = contiguous(argument, codes, type);
    const at::Tensor a = contiguous("anchors", anchors, box_type);
    const at::Tensor out = at::empty(codes.sizes(), a.options());
    with_coded_element(type, box_type, [&](auto element, auto box) {
      using T = decltype(element);
      using B = decltype(box);
      if (image_size.empty())
        decode(boxes<const T>(x), boxes<const B>(a), boxes<B>(out));
      else
        decode(boxes<const T>(x), boxes<const B>(a), image_of(function, image_size), boxes<B>(out));
    });
    return codes.scalar_type() == at::kHalf ? out.to(at::kHalf) : out;
  });
}

namespace cpu {

/// The deltas that decode to `targets` from `anchors`, both N x 4 corners (box_coding.hpp).
/// @param weights of dx, dy, dw, dh; empty: all 1
inline at::Tensor encode_boxes(const at::Tensor& targets, const at::Tensor& anchors,
                               at::ArrayRef<double> weights) {
  constexpr const char* function = "encode_boxes";
  return encoded(function, targets, anchors, [&](auto... views) {
    vecdet::encode_boxes(views..., coder_of(function, {}, weights), threads());
  });
}

/// Decodes `deltas` relative to `anchors` to boxes, N x 4 corners. Deltas of bfloat16 with anchors
/// of float32 give boxes of float32.
/// @param weights of dx, dy, dw, dh; empty: all 1
/// @param image_size height and width to clip to, in torchvision's order; empty: no clipping
/// @param size_limit upper limit of dw and dh; infinity: unbounded
inline at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors,
                               at::ArrayRef<double> weights, at::ArrayRef<double> image_size,
                               const coder_params& params) {
  constexpr const char* function = "decode_boxes";
  return decoded(function, "deltas", deltas, anchors, image_size, [&](auto... given) {
    vecdet::decode_boxes(given..., coder_of(function, params, weights), threads());
  });
}

/// FCOS's distances from the anchors' centres to the sides of `targets`, both N x 4 corners.
inline at::Tensor encode_distances(const at::Tensor& targets, const at::Tensor& anchors,
                                   const distance_params& params) {
  return encoded("encode_distances", targets, anchors,
                 [&](auto... views) { vecdet::encode_distances(views..., params, threads()); });
}

/// The boxes, N x 4 corners, of FCOS's `distances` from the centres of `anchors`.
/// @param image_size height and width to clip to, in torchvision's order; empty: no clipping
inline at::Tensor decode_distances(const at::Tensor& distances, const at::Tensor& anchors,
                                   const distance_params& params, at::ArrayRef<double> image_size) {
  return decoded("decode_distances", "distances", distances, anchors, image_size,
                 [&](auto... given) { vecdet::decode_distances(given..., params, threads()); });
}

inline const iou_params& checked(const char* function, const iou_params& params) {
  check_choice(function, "kind", params.kind, iou_kind::ciou,
               "0 (IoU), 1 (GIoU), 2 (DIoU) or 3 (CIoU)");
  return params;
}

/// The IoU (iou.hpp) of all pairs of boxes `a` (N x 4 corners) and `b` (M x 4), N x M.
inline at::Tensor pairwise_iou(const at::Tensor& a, const at::Tensor& b, const iou_params& params) {
  constexpr const char* function = "pairwise_iou";
  return translated([&] {
    check_boxes(function, "a", a);
    check_boxes(function, "b", b);
    check_shape(a.dim() == 2, function, "a", a, "[N, 4]");
    check_shape(b.dim() == 2, function, "b", b, "[M, 4]");
    const at::ScalarType type = computed_type(function, "a", a, "b", b);
    const at::Tensor x = contiguous("a", a, type), y = contiguous("b", b, type);
    const at::Tensor overlaps = at::empty({a.size(0), b.size(0)}, x.options());
    with_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::pairwise_iou(boxes<const T>(x), boxes<const T>(y),
                           matrix<T>(overlaps, a.size(0), b.size(0)), checked(function, params),
                           threads());
    });
    return overlaps.to(c10::promoteTypes(a.scalar_type(), b.scalar_type()));
  });
}

/// The IoU (iou.hpp) of box i of `a` with box i of `b`, both N x 4 corners; N.
inline at::Tensor elementwise_iou(const at::Tensor& a, const at::Tensor& b,
                                  const iou_params& params) {
  constexpr const char* function = "elementwise_iou";
  return translated([&] {
    check_boxes(function, "a", a);
    check_boxes(function, "b", b);
    check_shape(b.sizes() == a.sizes(), function, "b", b, "the shape of a");
    const at::ScalarType type = computed_type(function, "a", a, "b", b);
    const at::Tensor x = contiguous("a", a, type), y = contiguous("b", b, type);
    const at::Tensor overlaps = at::empty(a.sizes().slice(0, a.dim() - 1), x.options());
    with_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::elementwise_iou(boxes<const T>(x), boxes<const T>(y), vector<T>(overlaps),
                              checked(function, params), threads());
    });
    return overlaps.to(c10::promoteTypes(a.scalar_type(), b.scalar_type()));
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
