// SPDX-License-Identifier: Apache-2.0
// CTC in the logarithmic domain, sample by sample, as frameworks compute it on CPUs; and its best
// path.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Logits are steps x samples x classes, targets samples x labels, the blank is class 0.
    /// Returns the sum of the losses and writes its gradient.
    double plain_ctc_loss(const float* logits, const std::int64_t* targets, std::int64_t steps,
                          std::int64_t samples, std::int64_t classes, std::int64_t labels,
                          float* grad);
    /// Writes the classes of each sample's best path, the first step of each, and the probability
    /// there. They start at steps x sample. Writes their number per sample.
    void plain_ctc_greedy(const float* logits, std::int64_t steps, std::int64_t samples,
                          std::int64_t classes, std::int64_t* found, std::int64_t* found_steps,
                          float* probabilities, std::int64_t* counts);)

}  // namespace vecdet::bench
