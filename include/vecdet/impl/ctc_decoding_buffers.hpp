// SPDX-License-Identifier: Apache-2.0
// The buffers of ctc_decoding_workspace.
#pragma once

#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct ctc_decoding_buffers {
  std::vector<index_t> best, classes, steps, offsets;
  std::vector<float> probabilities;
  std::vector<double> sums, log_probabilities;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
