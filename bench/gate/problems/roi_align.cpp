// SPDX-License-Identifier: Apache-2.0
// RoIAlign of 60 boxes on 32 channels of 50 x 50.
#include "../../plain/roi_align.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/roi_align.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

constexpr std::int64_t side = 50, channels = 32, boxes = 60, rows = 7;

struct scene {
  std::vector<float> features, upstream, bins, grad, corners;

  scene()
      : features(uniform<float>(channels * side * side, -1, 1, 1)),
        upstream(uniform<float>(boxes * channels * rows * rows, -1, 1, 2)),
        bins(upstream),
        grad(features) {
    const auto places = uniform<float>(4 * boxes, 0, 1, 3);
    for (std::size_t i = 0; i < places.size(); i += 4) {
      const float w = 4 + 24 * places[i + 2], h = 4 + 24 * places[i + 3];
      const float x = places[i] * (side - w), y = places[i + 1] * (side - h);
      corners.insert(corners.end(), {x, y, x + w, y + h});
    }
  }
};

void run(scene& d, bool last, bool backward) {
  const feature_layout layout = last ? feature_layout::nhwc : feature_layout::nchw;
  roi_boxes<float> all;
  all.boxes = boxes_view<const float>(d.corners);
  roi_align_params params;
  params.sampling_ratio = 2;
  const feature_view<float> map(backward ? d.grad.data() : d.features.data(), 1, channels, side,
                                side, layout);
  const feature_view<float> bins(backward ? d.upstream.data() : d.bins.data(), boxes, channels,
                                 rows, rows, layout);
  auto& workspace = own<roi_align_workspace>();
  if (backward) {
    roi_align_grad(bins, all, map, params, workspace, sequential);
  } else {
    roi_align(map, all, bins, params, workspace, sequential);
  }
}

void plain(scene& d, bool last, bool backward) {
  if (backward) {
    bench::native::plain_roi_align_grad(d.upstream.data(), channels, side, side, d.corners.data(),
                                        boxes, rows, rows, last, d.grad.data());
  } else {
    bench::native::plain_roi_align(d.features.data(), channels, side, side, d.corners.data(), boxes,
                                   rows, rows, last, d.bins.data());
  }
}

const problems added{
    {"roi_align/aligned0_sampling2/f32/60x32x7x7", make<scene>(),
     VECDET_GATE_CALL(run(d, false, false)), VECDET_GATE_CALL(plain(d, false, false))},
    {"roi_align/nhwc_aligned0_sampling2/f32/60x32x7x7", make<scene>(),
     VECDET_GATE_CALL(run(d, true, false)), VECDET_GATE_CALL(plain(d, true, false))},
    {"roi_align_grad/aligned0_sampling2/f32/60x32x7x7", make<scene>(),
     VECDET_GATE_CALL(run(d, false, true)), VECDET_GATE_CALL(plain(d, false, true))},
    {"roi_align_grad/nhwc_aligned0_sampling2/f32/60x32x7x7", make<scene>(),
     VECDET_GATE_CALL(run(d, true, true)), VECDET_GATE_CALL(plain(d, true, true))},
};

}  // namespace
}  // namespace vecdet::gate
