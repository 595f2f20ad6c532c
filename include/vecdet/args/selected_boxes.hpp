// SPDX-License-Identifier: Apache-2.0
// Which boxes a loss counts, as host and kernels agree on it.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Boxes that count, others having loss and gradient 0: all, those whose label is neither
/// background nor ignore, or those of a list.
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
