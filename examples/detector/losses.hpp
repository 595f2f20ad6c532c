// SPDX-License-Identifier: Apache-2.0
// RetinaNet's loss, implemented in three ways: on libtorch's operators, on vecdet's operators, and
// in one call on the outputs of the head's convolutions.
//
// For each image, the loss is the sum of the focal loss of all anchors that are not ignored and the
// L1 loss of the matched anchors, divided by the number of matched anchors (at least 1). The total
// is the mean over images.
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

  /// Computes the loss of the heads' outputs for images of the canvas' size. With
  /// loss_kind::vecdet, the outputs are overwritten by their gradients: do not read them
  /// afterwards.
  loss_values operator()(const head_outputs& outputs, const batch_truth& truth, canvas_size canvas);

 private:
  loss_kind kind_;
  vecdet::anchor_cache cache_;
  vecdet::match_workspace matching_;
  vecdet::retinanet_loss_workspace fused_;
};

/// The anchors of an image on all levels.
const vecdet::cached_anchors& anchors_of(vecdet::anchor_cache& cache, const head_outputs& outputs,
                                         canvas_size canvas);

/// The levels' outputs as one tensor, images x anchors x `columns`, concatenated as in torchvision.
at::Tensor joined(const std::vector<at::Tensor>& levels, std::int64_t columns);

}  // namespace detector
