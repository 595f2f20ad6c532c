// SPDX-License-Identifier: Apache-2.0
// Makes a family's kernels, compiled for this unit's instruction set, known to the functions that
// call them. Each family specialises kernels_of, next to its kernels, for its struct of function
// pointers. Only what is used is compiled.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// get() is constexpr and fills each pointer by its name.
template <class Kernels>
struct kernels_of;

template <class Kernels>
const Kernels& kernels() noexcept {
  static constexpr Kernels filled = kernels_of<Kernels>::get();
  return filled;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
