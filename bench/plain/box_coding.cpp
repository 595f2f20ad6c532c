// SPDX-License-Identifier: Apache-2.0
#include "box_coding.hpp"

#include "terms.hpp"

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// Writes f(box) of each box to `out`.
template <class F>
inline void map_boxes(const float* __restrict boxes, float* __restrict out, std::int64_t count,
                      const F& f) {
  for (std::int64_t i = 0; i < count; ++i) store(f(load(boxes, i)), out, i);
}

/// Writes f(box, anchor) of each box and its anchor to `out`.
template <plain_layout L = plain_layout::rows, class F>
inline void map_boxes(const float* __restrict boxes, const float* __restrict anchors,
                      float* __restrict out, std::int64_t count, const F& f) {
  // The compiler cannot know that the planes of `out` do not overlap. Clang lacks the pragma.
#ifndef __clang__
#pragma GCC ivdep
#endif
  for (std::int64_t i = 0; i < count; ++i)
    store<L>(f(load<L>(boxes, i, count), load<L>(anchors, i, count)), out, i, count);
}

}  // namespace

template <plain_layout L>
void plain_decode(const float* deltas, const float* anchors, float* boxes, std::int64_t count) {
  map_boxes<L>(deltas, anchors, boxes, count, decoded_corners);
}

void plain_decode_channels(const float* deltas, const float* anchors, float* boxes,
                           std::int64_t at_location, std::int64_t locations) {
  for (std::int64_t a = 0; a < at_location; ++a)
    for (std::int64_t i = 0; i < locations; ++i) {
      const plain_box d = load<plain_layout::planes>(deltas + 4 * a * locations, i, locations);
      const std::int64_t at = i * at_location + a;
      store(decoded_corners(d, load(anchors, at)), boxes, at);
    }
}

template <plain_layout L>
void plain_decode_and_clip(const float* deltas, const float* anchors, float* boxes,
                           std::int64_t count, float width, float height) {
  map_boxes<L>(deltas, anchors, boxes, count, [=](plain_box d, plain_box a) {
    return clipped(decoded_corners(d, a), width, height);
  });
}

void plain_decode_ssd(const float* deltas, const float* priors, float* boxes, std::int64_t count) {
  map_boxes(deltas, priors, boxes, count, [](plain_box d, plain_box prior) {
    return corners(decoded({0.1f * d.x1, 0.1f * d.y1, 0.2f * d.x2, 0.2f * d.y2}, prior));
  });
}

template <plain_layout L>
void plain_encode(const float* targets, const float* anchors, float* deltas, std::int64_t count) {
  map_boxes<L>(targets, anchors, deltas, count,
               [](plain_box g, plain_box a) { return encoded(centre_form(g), centre_form(a)); });
}

void plain_encode_ssd(const float* targets, const float* priors, float* deltas,
                      std::int64_t count) {
  map_boxes(targets, priors, deltas, count, [](plain_box g, plain_box prior) {
    const plain_box d = encoded(centre_form(g), prior);
    return plain_box{10 * d.x1, 10 * d.y1, 5 * d.x2, 5 * d.y2};
  });
}

template <bool BySize>
void plain_decode_distances(const float* distances, const float* anchors, float* boxes,
                            std::int64_t count) {
  map_boxes(distances, anchors, boxes, count, decoded_distances<BySize>);
}

template <bool BySize>
void plain_decode_distances_and_clip(const float* distances, const float* anchors, float* boxes,
                                     std::int64_t count, float width, float height) {
  map_boxes(distances, anchors, boxes, count, [=](plain_box d, plain_box a) {
    return clipped(decoded_distances<BySize>(d, a), width, height);
  });
}

template <bool BySize>
void plain_encode_distances(const float* targets, const float* anchors, float* distances,
                            std::int64_t count) {
  map_boxes(targets, anchors, distances, count, [](plain_box g, plain_box a) {
    const plain_box c = centre_form(a);
    const float w = BySize ? c.x2 : 1, h = BySize ? c.y2 : 1;
    return plain_box{(c.x1 - g.x1) / w, (c.y1 - g.y1) / h, (g.x2 - c.x1) / w, (g.y2 - c.y1) / h};
  });
}

void plain_xywh_from_xyxy(const float* boxes, float* out, std::int64_t count) {
  map_boxes(boxes, out, count, [](plain_box b) {
    return plain_box{b.x1, b.y1, b.width(), b.height()};
  });
}
void plain_xyxy_from_xywh(const float* boxes, float* out, std::int64_t count) {
  map_boxes(boxes, out, count, [](plain_box b) {
    return plain_box{b.x1, b.y1, b.x1 + b.x2, b.y1 + b.y2};
  });
}
void plain_cxcywh_from_xyxy(const float* boxes, float* out, std::int64_t count) {
  map_boxes(boxes, out, count, centre_form);
}
void plain_xyxy_from_cxcywh(const float* boxes, float* out, std::int64_t count) {
  map_boxes(boxes, out, count, corners);
}
void plain_cxcywh_from_xywh(const float* boxes, float* out, std::int64_t count) {
  map_boxes(boxes, out, count, [](plain_box b) {
    return plain_box{b.x1 + 0.5f * b.x2, b.y1 + 0.5f * b.y2, b.x2, b.y2};
  });
}
void plain_xywh_from_cxcywh(const float* boxes, float* out, std::int64_t count) {
  map_boxes(boxes, out, count, [](plain_box b) {
    return plain_box{b.x1 - 0.5f * b.x2, b.y1 - 0.5f * b.y2, b.x2, b.y2};
  });
}

void plain_clip_boxes(const float* boxes, float* out, std::int64_t count, float width,
                      float height) {
  map_boxes(boxes, out, count, [=](plain_box b) { return clipped(b, width, height); });
}

void plain_box_areas(const float* boxes, float* areas, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const plain_box b = load(boxes, i);
    areas[i] = b.width() * b.height();
  }
}

void plain_large_box_mask(const float* boxes, float min_size, std::uint8_t* __restrict mask,
                          std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) mask[i] = is_large(load(boxes, i), min_size);
}

std::int64_t plain_large_boxes(const float* boxes, float min_size, std::int64_t* indices,
                               std::int64_t count) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    indices[found] = i;
    found += is_large(load(boxes, i), min_size);
  }
  return found;
}

template void plain_decode<plain_layout::rows>(const float*, const float*, float*, std::int64_t);
template void plain_decode<plain_layout::planes>(const float*, const float*, float*, std::int64_t);
template void plain_decode_and_clip<plain_layout::rows>(const float*, const float*, float*,
                                                        std::int64_t, float, float);
template void plain_decode_and_clip<plain_layout::planes>(const float*, const float*, float*,
                                                          std::int64_t, float, float);
template void plain_encode<plain_layout::rows>(const float*, const float*, float*, std::int64_t);
template void plain_encode<plain_layout::planes>(const float*, const float*, float*, std::int64_t);
template void plain_decode_distances<true>(const float*, const float*, float*, std::int64_t);
template void plain_decode_distances<false>(const float*, const float*, float*, std::int64_t);
template void plain_decode_distances_and_clip<true>(const float*, const float*, float*,
                                                    std::int64_t, float, float);
template void plain_decode_distances_and_clip<false>(const float*, const float*, float*,
                                                     std::int64_t, float, float);
template void plain_encode_distances<true>(const float*, const float*, float*, std::int64_t);
template void plain_encode_distances<false>(const float*, const float*, float*, std::int64_t);

}  // namespace vecdet::bench::VECDET_PLAIN_SET
