// SPDX-License-Identifier: Apache-2.0
// RoIAlign composed of PyTorch's operators, and vecdet's operator. torchvision's own is in
// bench_torch.py.
#include "forms.hpp"
#include "support.hpp"

#include <cstdint>
#include <string>

namespace vecdet::bench {
namespace {

using at::Tensor;

/// 1,000 boxes of a picture of 800 x 800 on a map with stride 4.
const bool pooling = [] {
  at::manual_seed(5);
  const Tensor boxes = some_boxes(1000).clamp_max(796);
  const std::int64_t counts[] = {1000};
  const auto pool = [=](const Tensor& features) {
    return ops::roi_align(features, boxes, {7, 7}, 0.25, 2, false, counts);
  };
  for (const bool channels_last : {false, true}) {
    const Tensor features = at::randn({1, 256, 200, 200})
                                .contiguous(channels_last ? at::MemoryFormat::ChannelsLast
                                                          : at::MemoryFormat::Contiguous);
    const Tensor input = tracked(features);
    const std::string name =
        std::string("roi_align/") + (channels_last ? "nhwc" : "nchw") + "/f32/1000x256x7x7/";
    add((name + "form").c_str(), [=] { return forms::roi_align(features, boxes, 0.25); });
    add((name + "vecdet").c_str(), [=] { return pool(features); });
    add_step((name + "form_and_backward").c_str(), {input},
             [=] { return forms::roi_align(input, boxes, 0.25).sum(); });
    add_step((name + "vecdet_and_backward").c_str(), {input}, [=] { return pool(input).sum(); });
  }
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
