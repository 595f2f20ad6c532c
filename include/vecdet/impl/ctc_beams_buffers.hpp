// SPDX-License-Identifier: Apache-2.0
// The buffers of ctc_beams_workspace.
#pragma once

#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct ctc_beams_buffers {
  std::vector<index_t> classes, steps, lengths, counts, offsets, sample_offsets;
  std::vector<double> log_probabilities;
  aligned_vector<cache_line> scratch;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
