// SPDX-License-Identifier: Apache-2.0
// Prefix beam search of CTC with a map of prefixes, as decoders in C++ have it.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Logits are steps x samples x classes; the blank is class 0. Writes the logarithm of the
    /// probability of each sample's best text, and returns the number of classes of all of them.
    double plain_ctc_beams(const float* logits, std::int64_t steps, std::int64_t samples,
                           std::int64_t classes, std::int64_t width, double* log_probabilities);)

}  // namespace vecdet::bench
