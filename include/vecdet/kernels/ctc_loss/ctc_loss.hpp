// SPDX-License-Identifier: Apache-2.0
// CTC's loss and gradient: the passes of args/ctc_loss.hpp.
#pragma once

#include <vecdet/args/ctc_loss.hpp>
#include <vecdet/kernels/ctc_loss/paths.hpp>
#include <vecdet/kernels/ctc_loss/rows.hpp>
#include <vecdet/kernels/kernels_of.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
index_t ctc_paths_scratch_size(const ctc_args<T>& args) {
  return ctc_scratch::size(args.steps, args.lanes);
}
template <class T>
index_t ctc_rows_scratch_size(const ctc_args<T>& args) {
  const bool is_needed = args.grad != nullptr && !std::is_same<T, compute_type<T>>::value;
  return is_needed ? args.classes * index_t{sizeof(compute_type<T>)} : 0;
}

template <class T>
void ctc_paths_of_sample(const ctc_args<T>& args, index_t sample, void* scratch) {
  ctc_paths<T>(args, sample, scratch).run();
}

template <class T>
struct kernels_of<detail::ctc_kernels<T>> {
  static constexpr detail::ctc_kernels<T> get() {
    detail::ctc_kernels<T> kernels{};
    kernels.paths_scratch_size = ctc_paths_scratch_size<T>;
    kernels.rows_scratch_size = ctc_rows_scratch_size<T>;
    kernels.paths = ctc_paths_of_sample<T>;
    kernels.rows = ctc_rows<T>;
    kernels.loss = ctc_loss_of_sample<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(ctc_kernels)
