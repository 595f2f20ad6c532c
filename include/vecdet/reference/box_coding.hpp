// SPDX-License-Identifier: Apache-2.0
// Box regression targets and box formats in plain scalar double.
//
// Girshick et al.: "Rich feature hierarchies for accurate object detection", arXiv 1311.2524,
// appendix C, with weights as in torchvision's and detectron2's coders. With centres (x, y) and
// sizes (w, h), where a box is x2 - x1 wide:
//
//   dx = wx (gx - ax) / aw      gx = ax + aw dx / wx
//   dy = wy (gy - ay) / ah      gy = ay + ah dy / wy
//   dw = ww log(gw / aw)        gw = aw exp(clamp(dw / ww))
//   dh = wh log(gh / ah)        gh = ah exp(clamp(dh / wh))
//
// Anchors or boxes of size zero give the infinities and NaN of the formulas.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/reference/box.hpp>
#include <vecdet/views.hpp>

#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Conversions between corners, top left corner with size (COCO's files), and centre with size
/// (SSD's priors). Any two compose.
inline box xywh_from_xyxy(const box& b) { return {b.x1, b.y1, b.width(), b.height()}; }
inline box xyxy_from_xywh(const box& b) { return {b.x1, b.y1, b.x1 + b.x2, b.y1 + b.y2}; }
inline box cxcywh_from_xyxy(const box& b) {
  return {(b.x1 + b.x2) / 2, (b.y1 + b.y2) / 2, b.width(), b.height()};
}
inline box xyxy_from_cxcywh(const box& b) {
  return {b.x1 - b.x2 / 2, b.y1 - b.y2 / 2, b.x1 + b.x2 / 2, b.y1 + b.y2 / 2};
}

/// Width times height; negative if exactly one of the two is negative.
inline double box_area(const box& b) { return b.width() * b.height(); }

struct coder_weights {
  double x = 1, y = 1, w = 1, h = 1;
};

/// How dw and dh, divided by their weights, are clamped before exp.
enum class size_clamp {
  above,  ///< At most `limit`: torchvision, detectron2.
  both,   ///< Within +-limit: mmdetection.
  none    ///< Unbounded, exp may overflow to infinity: SSD.
};

/// log(1000 / 16), the limit in torchvision, detectron2 and mmdetection.
inline double default_size_limit() { return std::log(1000.0 / 16); }

/// Deltas (dx, dy, dw, dh) that decode to `target` (corners) from `anchor` (corners).
inline box encode_box(const box& target, const box& anchor, const coder_weights& weights = {}) {
  const box g = cxcywh_from_xyxy(target);
  const box a = cxcywh_from_xyxy(anchor);
  return {weights.x * (g.x1 - a.x1) / a.x2, weights.y * (g.y1 - a.y1) / a.y2,
          weights.w * std::log(g.x2 / a.x2), weights.h * std::log(g.y2 / a.y2)};
}

/// `size` clamped; NaN stays NaN.
inline double clamp_size(double size, size_clamp clamp, double limit) {
  if (clamp != size_clamp::none && size > limit) return limit;
  if (clamp == size_clamp::both && size < -limit) return -limit;
  return size;
}

/// Decodes `deltas` relative to `anchor` (corners) to a box (corners).
inline box decode_box(const box& deltas, const box& anchor, const coder_weights& weights = {},
                      size_clamp clamp = size_clamp::above, double limit = default_size_limit()) {
  const box a = cxcywh_from_xyxy(anchor);
  return xyxy_from_cxcywh({a.x1 + a.x2 * (deltas.x1 / weights.x),
                           a.y1 + a.y2 * (deltas.y1 / weights.y),
                           a.x2 * std::exp(clamp_size(deltas.x2 / weights.w, clamp, limit)),
                           a.y2 * std::exp(clamp_size(deltas.y2 / weights.h, clamp, limit))});
}

/// `value` clamped to [0, bound]; NaN stays NaN.
inline double clip_coordinate(double value, double bound) {
  return value < 0 ? 0 : value > bound ? bound : value;
}

/// Clips a box (corners) to an image of this width and height.
inline box clip_box(const box& b, double width, double height) {
  return {clip_coordinate(b.x1, width), clip_coordinate(b.y1, height), clip_coordinate(b.x2, width),
          clip_coordinate(b.y2, height)};
}

/// SSD, arXiv 1512.02325: priors as centre and size, variances 0.1 for the centre and 0.2 for the
/// size, no clamp. The target is given as corners.
inline box encode_ssd(const box& target, const box& prior, double centre_variance = 0.1,
                      double size_variance = 0.2) {
  const box g = cxcywh_from_xyxy(target);
  return {(g.x1 - prior.x1) / prior.x2 / centre_variance,
          (g.y1 - prior.y1) / prior.y2 / centre_variance, std::log(g.x2 / prior.x2) / size_variance,
          std::log(g.y2 / prior.y2) / size_variance};
}

/// The inverse of encode_ssd: the box as corners.
inline box decode_ssd(const box& deltas, const box& prior, double centre_variance = 0.1,
                      double size_variance = 0.2) {
  return xyxy_from_cxcywh({prior.x1 + prior.x2 * (deltas.x1 * centre_variance),
                           prior.y1 + prior.y2 * (deltas.y1 * centre_variance),
                           prior.x2 * std::exp(deltas.x2 * size_variance),
                           prior.y2 * std::exp(deltas.y2 * size_variance)});
}

/// FCOS, arXiv 1904.01355, equation 1: the distances (left, top, right, bottom) from the anchor's
/// centre to the target's sides. With `by_size`, they are divided by the anchor's size, as in
/// torchvision.
inline box encode_distances(const box& target, const box& anchor, bool by_size = true) {
  const box a = cxcywh_from_xyxy(anchor);
  const double w = by_size ? a.x2 : 1;
  const double h = by_size ? a.y2 : 1;
  return {(a.x1 - target.x1) / w, (a.y1 - target.y1) / h, (target.x2 - a.x1) / w,
          (target.y2 - a.y1) / h};
}

/// The inverse of encode_distances.
inline box decode_distances(const box& distances, const box& anchor, bool by_size = true) {
  const box a = cxcywh_from_xyxy(anchor);
  const double w = by_size ? a.x2 : 1;
  const double h = by_size ? a.y2 : 1;
  return {a.x1 - w * distances.x1, a.y1 - h * distances.y1, a.x1 + w * distances.x2,
          a.y1 + h * distances.y2};
}

/// Whether both sides of box i are at least `min_size`, as in torchvision's remove_small_boxes.
/// Sides and threshold are rounded to the kernels' compute type, since a side may equal the
/// threshold exactly there. A NaN side is too small.
template <class T>
bool is_large_enough(boxes_view<T> boxes, index_t i, double min_size) {
  using real = compute_type<value_of<T>>;
  const box_of<real> b = load_box<real>(boxes, i);
  return b.width() >= static_cast<real>(min_size) && b.height() >= static_cast<real>(min_size);
}

/// Applies a function of boxes, or of boxes and anchors, to all of them:
/// `for_each_box(out, [&](index_t i) { return clip_box(load_box(boxes, i), 800, 600); })`.
template <class F>
void for_each_box(boxes_view<double> out, F function) {
  for (index_t i = 0; i < out.size(); ++i) store_box(out, i, function(i));
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
