// SPDX-License-Identifier: Apache-2.0
// The buffers of the workspaces of query_matching.hpp.
#pragma once

#include <vecdet/args/query_matching.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct query_match_buffers {
  std::vector<classified_box> order;  ///< the boxes of each image by class
  aligned_vector<cache_line> scratch;
};

struct assignment_buffers {
  aligned_vector<cache_line> scratch;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
