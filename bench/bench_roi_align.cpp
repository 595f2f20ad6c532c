// SPDX-License-Identifier: Apache-2.0
// RoIAlign of 1000 boxes on 256 channels, forward and backward, in both layouts: 7 x 7 bins on a
// map of 200 x 200, 14 x 14 on one of 100 x 100. Elements are boxes.
//
// Bound for 7 x 7 in float: every location of the map is in some box, so 41 MB of features are read
// once, and 50 MB of bins are written. Operations, with two samples per bin and axis and boxes with
// more than two locations per bin: each bin has 4 rows and 4 columns. NHWC therefore does 20
// multiply-adds per bin and channel, 250 million in all, or 16 million vectors of 16. NCHW does 4
// for each row of bins and touched column (at most 28), and 4 for each bin. It also loads, shuffles
// and stores about 7 vectors for every 64 numbers that it transposes (map and bins).
#include "plain/roi_align.hpp"
#include "support/implementations.hpp"
#include "support/roi_scene.hpp"

#include <string>

namespace vecdet::bench {
namespace {

constexpr index_t boxes = 1000, channels = 256;
using scene = roi_scene<float>;

template <class T>
auto make_scene(index_t side, index_t bins, feature_layout layout) {
  const std::string name = joined({side, bins, static_cast<index_t>(layout)});
  return current_data<roi_scene<T>>(name, boxes, channels, side, bins, bins, layout);
}

roi_align_params params() {
  roi_align_params params;
  params.sampling_ratio = 2;
  return params;
}

template <class T>
work work_of(index_t side, index_t bins) {
  return {boxes,
          static_cast<double>(channels * (side * side + boxes * bins * bins) * index_t{sizeof(T)})};
}

void add(index_t side, index_t bins, feature_layout layout) {
  const bool last = layout == feature_layout::nhwc;
  const std::string shape = "1000x256x" + std::to_string(bins) + "x" + std::to_string(bins);
  const std::string variant = last ? "/nhwc_aligned0_sampling2/" : "/aligned0_sampling2/";
  const auto prepare = [=] { return make_scene<float>(side, bins, layout); };
  register_with_plain(
      "roi_align" + variant + "f32/" + shape, work_of<float>(side, bins), prepare,
      [](scene& d, threading policy) { d.forward(params(), policy); },
      [=](scene& d) {
        VECDET_PLAIN(plain_roi_align)
        (d.features.data(), channels, side, side, d.boxes.data(), boxes, bins, bins, last,
         d.bins.data());
      },
      &scene::bins);
  register_with_plain(
      "roi_align_grad" + variant + "f32/" + shape, work_of<float>(side, bins), prepare,
      [](scene& d, threading policy) { d.backward(params(), policy); },
      [=](scene& d) {
        VECDET_PLAIN(plain_roi_align_grad)
        (d.upstream.data(), channels, side, side, d.boxes.data(), boxes, bins, bins, last,
         d.grad.data());
      },
      &scene::grad);
  using narrow = roi_scene<bfloat16>;
  const auto prepare_narrow = [=] { return make_scene<bfloat16>(side, bins, layout); };
  register_vecdet("roi_align" + variant + "bf16/" + shape, work_of<bfloat16>(side, bins),
                  prepare_narrow, [](narrow& d, threading policy) { d.forward(params(), policy); });
  register_vecdet("roi_align_grad" + variant + "bf16/" + shape, work_of<bfloat16>(side, bins),
                  prepare_narrow,
                  [](narrow& d, threading policy) { d.backward(params(), policy); });
}

const bool registered = [] {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
    add(200, 7, layout);
    add(100, 14, layout);
  }
  show_in_figures("roi_align(_grad)?/(nhwc_)?aligned0_sampling2/f32/1000x256x[0-9x]+");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
