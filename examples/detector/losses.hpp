// SPDX-License-Identifier: Apache-2.0
// RetinaNet's loss, three times the same: on libtorch's operators alone, on vecdet's operators, and
// in one call on what the head's convolutions left.
//
// Each is of an image the focal loss of all anchors that are not ignored and the L1 loss of the
// matched ones, divided by the number of these, at least 1; and then the mean over images.
#pragma once

#include "canvas.hpp"
#include "loader.hpp"
#include "model.hpp"
#include <vecdet/anchor_cache.hpp>
#include <vecdet/retinanet_loss.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace detector {

/// The boxes of a batch: those of image k are [offsets[k], offsets[k + 1]).
struct batch_truth {
  std::vector<float> boxes;  ///< four numbers each
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> offsets{0};

  void add_image(const std::vector<object>& objects);
};

struct loss_values {
  at::Tensor total;  ///< the sum of both, to be differentiated
  double classification = 0, regression = 0;
};

/// One call at a time.
class criterion {
 public:
  criterion(loss_kind kind, const std::vector<vecdet::anchor_shapes>& shapes);

  /// Of what the heads gave for images of the canvas' size. With loss_kind::vecdet the outputs hold
  /// their gradients afterwards: nobody may read them again.
  loss_values operator()(const head_outputs& outputs, const batch_truth& truth, canvas_size canvas);

 private:
  loss_kind kind_;
  vecdet::anchor_cache cache_;
  vecdet::match_workspace matching_;
  vecdet::retinanet_loss_workspace fused_;
};

/// The anchors of an image, of all levels.
const vecdet::cached_anchors& anchors_of(vecdet::anchor_cache& cache, const head_outputs& outputs,
                                         canvas_size canvas);

/// The levels' outputs as one tensor, images x anchors x `columns`, as torchvision joins them.
at::Tensor joined(const std::vector<at::Tensor>& levels, std::int64_t columns);

}  // namespace detector
