// SPDX-License-Identifier: Apache-2.0
// The boxes that count in a loss: what the functions and their kernels agree on.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The boxes that count: all, those whose label is neither background nor ignore, or those in a
/// list. All other boxes have loss and gradient 0.
enum class box_choice { all, labelled, listed };
struct selected_boxes {
  box_choice choice;
  labels_view labels;
  index_t background, ignore;
  const index_t* indices;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
