// SPDX-License-Identifier: Apache-2.0
#include "iou.hpp"

#include "terms.hpp"

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

template <plain_iou Kind>
inline float iou_of(plain_box p, plain_box q) {
  constexpr float eps = 1e-7f, by_pi2 = 0.10132118f;
  const float w = std::fmax(std::fmin(p.x2, q.x2) - std::fmax(p.x1, q.x1), 0.0f);
  const float h = std::fmax(std::fmin(p.y2, q.y2) - std::fmax(p.y1, q.y1), 0.0f);
  const float pw = p.width(), ph = p.height(), qw = q.width(), qh = q.height();
  const float both = pw * ph + qw * qh - w * h, iou = w * h / both;
  if (Kind == plain_iou::torchvision) return iou;
  if (Kind == plain_iou::detectron2) return w * h > 0 ? iou : 0;
  const float hw = std::fmax(p.x2, q.x2) - std::fmin(p.x1, q.x1);
  const float hh = std::fmax(p.y2, q.y2) - std::fmin(p.y1, q.y1);
  if (Kind == plain_iou::giou) return iou - (hw * hh - both) / (hw * hh);
  const float dx = 0.5f * (p.x1 + p.x2 - q.x1 - q.x2), dy = 0.5f * (p.y1 + p.y2 - q.y1 - q.y2);
  const float diou = iou - (dx * dx + dy * dy) / (hw * hw + hh * hh + eps);
  if (Kind == plain_iou::diou) return diou;
  const float angle = std::atan(pw / ph) - std::atan(qw / qh), v = 4 * by_pi2 * angle * angle;
  return diou - v * v / (1 - iou + v + eps);
}

}  // namespace

template <plain_iou Kind>
void plain_pairwise_iou(const float* a, std::int64_t rows, const float* b, std::int64_t cols,
                        float* __restrict out) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const plain_box p = load(a, i);
    for (std::int64_t j = 0; j < cols; ++j) out[i * cols + j] = iou_of<Kind>(p, load(b, j));
  }
}

template <plain_iou Kind, plain_layout L>
void plain_elementwise_iou(const float* a, const float* b, std::int64_t count,
                           float* __restrict out) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = iou_of<Kind>(load<L>(a, i, count), load<L>(b, i, count));
}

#define VECDET_PLAIN_IOU(kind)                                                                   \
  template void plain_pairwise_iou<kind>(const float*, std::int64_t, const float*, std::int64_t, \
                                         float*);                                                \
  template void plain_elementwise_iou<kind, plain_layout::rows>(const float*, const float*,      \
                                                                std::int64_t, float*);           \
  template void plain_elementwise_iou<kind, plain_layout::planes>(const float*, const float*,    \
                                                                  std::int64_t, float*);
VECDET_PLAIN_IOU(plain_iou::torchvision)
VECDET_PLAIN_IOU(plain_iou::detectron2)
VECDET_PLAIN_IOU(plain_iou::giou)
VECDET_PLAIN_IOU(plain_iou::diou)
VECDET_PLAIN_IOU(plain_iou::ciou)
#undef VECDET_PLAIN_IOU

}  // namespace vecdet::bench::VECDET_PLAIN_SET
