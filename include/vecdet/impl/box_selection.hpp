// SPDX-License-Identifier: Apache-2.0
// Runs the kernels of box losses over a selection of boxes.
#pragma once

#include <vecdet/args/selected_boxes.hpp>
#include <vecdet/box_selection.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The smallest number of boxes worth a task: a few microseconds of work.
constexpr index_t smallest_box_chunk = 4096;

/// A selection in the form that kernels take.
inline selected_boxes selected_by(const box_selection& selection) noexcept {
  const box_choice choice = selection.is_all()    ? box_choice::all
                            : selection.is_list() ? box_choice::listed
                                                  : box_choice::labelled;
  return {choice, selection.labels(), selection.background(), selection.ignore(),
          selection.indices().data()};
}

/// Throws if an output shares memory with the selection's labels or indices.
inline void check_apart(const char* function, const char* output, const address_range& out,
                        const box_selection& selection) {
  check_apart(function, output, out, "labels", selection.labels());
  check_apart(function, output, out, "indices", selection.indices());
}

/// "all", "labels" or "list", for the profiler's problem names.
inline const char* selection_name(const box_selection& selection) noexcept {
  return selection.is_all() ? "all" : selection.is_list() ? "list" : "labels";
}

/// The number of selected boxes among `boxes`; 0 (unknown) if labels select.
inline index_t known_size(const box_selection& selection, index_t boxes) noexcept {
  return selection.is_all() ? boxes : selection.indices().size();
}

/// Throws an error that names `function` unless `selection` can select from `boxes` boxes.
inline void check_selection(const char* function, const box_selection& selection, index_t boxes) {
  if (!selection.is_all() && !selection.is_list()) {
    check_size(function, "labels.size()", selection.labels().size(), boxes, "the number of boxes");
  }
  const auto& indices = selection.indices();
  for (index_t k = 0; k < indices.size(); ++k) {
    if (indices[k] < 0 || indices[k] >= boxes) {
      throw_invalid_argument(function, element("indices", k), indices[k],
                             index_range(boxes, "boxes"));
    }
  }
}

/// Runs kernels that have members run and clear over `boxes` boxes.
template <class Kernels, class Args>
double run_selected(const Kernels& kernels, const Args& args, const box_selection& selection,
                    index_t boxes, threading policy) {
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
