// SPDX-License-Identifier: Apache-2.0
// Box coding of `count` boxes. Weights are 1, except in functions named after SSD, which use its
// variances 0.1 and 0.2.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    template <plain_layout L = plain_layout::rows>
    void plain_decode(const float* deltas, const float* anchors, float* boxes, std::int64_t count);
    template <plain_layout L = plain_layout::rows>
    void plain_decode_and_clip(const float* deltas, const float* anchors, float* boxes,
                               std::int64_t count, float width, float height);
    void plain_decode_ssd(const float* deltas, const float* priors, float* boxes,
                          std::int64_t count);
    /// A level in NCHW; boxes go location by location.
    void plain_decode_channels(const float* deltas, const float* anchors, float* boxes,
                               std::int64_t at_location, std::int64_t locations);
    template <plain_layout L = plain_layout::rows>
    void plain_encode(const float* targets, const float* anchors, float* deltas,
                      std::int64_t count);
    void plain_encode_ssd(const float* targets, const float* priors, float* deltas,
                          std::int64_t count);
    template <bool BySize> void plain_decode_distances(const float* distances, const float* anchors,
                                                       float* boxes, std::int64_t count);
    template <bool BySize>
    void plain_decode_distances_and_clip(const float* distances, const float* anchors, float* boxes,
                                         std::int64_t count, float width, float height);
    template <bool BySize> void plain_encode_distances(const float* targets, const float* anchors,
                                                       float* distances, std::int64_t count);
    void plain_xywh_from_xyxy(const float* boxes, float* out, std::int64_t count);
    void plain_xyxy_from_xywh(const float* boxes, float* out, std::int64_t count);
    void plain_cxcywh_from_xyxy(const float* boxes, float* out, std::int64_t count);
    void plain_xyxy_from_cxcywh(const float* boxes, float* out, std::int64_t count);
    void plain_cxcywh_from_xywh(const float* boxes, float* out, std::int64_t count);
    void plain_xywh_from_cxcywh(const float* boxes, float* out, std::int64_t count);
    void plain_clip_boxes(const float* boxes, float* out, std::int64_t count, float width,
                          float height);
    void plain_box_areas(const float* boxes, float* areas, std::int64_t count);
    void plain_large_box_mask(const float* boxes, float min_size, std::uint8_t* mask,
                              std::int64_t count);
    /// Returns the number of indices.
    std::int64_t plain_large_boxes(const float* boxes, float min_size, std::int64_t* indices,
                                   std::int64_t count);)

}  // namespace vecdet::bench
