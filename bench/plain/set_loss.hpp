// SPDX-License-Identifier: Apache-2.0
// The loss of a DETR's decoder layer with the varifocal loss, weights 1, 5 and 2, divided by the
// number of boxes. Boxes are cx cy w h, `boxes` per image; matches[k] is the query of box k.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Returns the sum of all losses.
    double plain_set_loss(const float* logits, const float* predicted, std::int64_t images,
                          std::int64_t queries, std::int64_t classes, const float* truth,
                          const std::int64_t* labels, std::int64_t boxes,
                          const std::int64_t* matches, float* logits_grad, float* boxes_grad);)

}  // namespace vecdet::bench
