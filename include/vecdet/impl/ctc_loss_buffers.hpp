// SPDX-License-Identifier: Apache-2.0
// The buffers of ctc_workspace.
#pragma once

#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct ctc_buffers {
  std::vector<index_t> labels, first_label, label_counts, input_lengths;
  std::vector<double> log_paths, offsets, sums, losses;
  aligned_vector<cache_line> occupancies, scratch;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
