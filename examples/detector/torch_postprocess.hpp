// SPDX-License-Identifier: Apache-2.0
// RetinaNet's postprocessing computed by libtorch's operators and a plain NMS, in the steps that
// torchvision takes.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

namespace detector {

/// Same arguments and results as vecdet::ops::postprocess() with its defaults for RetinaNet.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> torch_postprocess(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& anchors,
    const std::vector<double>& image_sizes, const std::vector<std::int64_t>& level_sizes,
    double score_threshold);

}  // namespace detector
