// SPDX-License-Identifier: Apache-2.0
// Batches of sequences, the input of CTC's loss and decoding.
#pragma once

#include "fuzz_input.hpp"
#include "support/log_softmax.hpp"
#include <vecdet/parallel.hpp>
#include <vecdet/sequences_view.hpp>

#include <vector>

namespace vecdet::fuzz {

/// Logits in any layout, and the steps of each sample.
struct sequence_shape {
  index_t steps, samples, classes;
  threading policy;
  index_t step_stride, sample_stride, size;
  std::vector<index_t> lengths;

  /// @param few, many the most classes of most inputs, and of the others
  sequence_shape(input& in, index_t most_steps, index_t most_samples, index_t few, index_t many)
      : steps(in.integer(0, most_steps)),
        samples(in.integer(0, most_samples)),
        classes(in.flag() ? in.integer(1, few) : in.integer(few + 1, many)),
        policy(in.flag() ? threading::parallel : threading::sequential) {
    const index_t stride = classes + in.one_of<index_t>({0, 0, 1, 5});
    const bool steps_first = in.flag();
    step_stride = steps_first ? stride * samples : stride;
    sample_stride = steps_first ? stride : stride * steps;
    size = steps * samples == 0 ? 0 : (steps * samples - 1) * stride + classes;
    for (index_t n = 0; n < samples; ++n) lengths.push_back(in.integer(0, steps));
  }

  template <class T>
  sequences_view<T> view(T* data) const {
    return sequences_view<T>(data, steps, samples, classes, step_stride, sample_stride);
  }
};

}  // namespace vecdet::fuzz
