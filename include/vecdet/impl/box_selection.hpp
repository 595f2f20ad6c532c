// SPDX-License-Identifier: Apache-2.0
// How the losses of boxes run their kernels over a selection.
#pragma once

#include <vecdet/args/selected_boxes.hpp>
#include <vecdet/box_selection.hpp>
#include <vecdet/detail/apart.hpp>
#include <vecdet/parallel.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Boxes that are worth a task of their own: some microseconds.
constexpr index_t smallest_box_chunk = 4096;

/// What kernels know of a selection.
inline selected_boxes selected_by(const box_selection& selection) noexcept {
  const box_choice choice = selection.is_all()    ? box_choice::all
                            : selection.is_list() ? box_choice::listed
                                                  : box_choice::labelled;
  return {choice, selection.labels(), selection.background(), selection.ignore(),
          selection.indices().data()};
}

/// Throws where an output shares memory with what selects.
inline void check_apart(const char* function, const char* output, const address_range& out,
                        const box_selection& selection) {
  check_apart(function, output, out, "labels", selection.labels());
  check_apart(function, output, out, "indices", selection.indices());
}

/// Runs kernels with the members run and clear over `boxes` boxes.
template <class Kernels, class Args>
double run_selected(const Kernels& kernels, const Args& args, const box_selection& selection,
                    index_t boxes, execution policy) {
  if (selection.is_list()) {
    for_each_chunk(policy, chunking(boxes, smallest_box_chunk),
                   [&](index_t, index_t first, index_t last) { kernels.clear(args, first, last); });
    boxes = selection.indices().size();
  }
  return sum_over_chunks(
      policy, chunking(boxes, smallest_box_chunk),
      [&](index_t first, index_t last) { return kernels.run(args, first, last); });
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
