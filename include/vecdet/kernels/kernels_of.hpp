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

/// At the end of a family's header: its unit (isa/unit.hpp) has kernels() for this struct, or for
/// this template with float, bfloat16 and double.
#if defined(VECDET_ISA_UNIT)
#define VECDET_KERNELS(name)                                     \
  namespace vecdet {                                             \
  namespace VECDET_TARGET {                                      \
  template const detail::name& kernels<detail::name>() noexcept; \
  }                                                              \
  }
#else
#define VECDET_KERNELS(name)
#endif
// A template's name cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define VECDET_KERNELS_OF_ALL_TYPES(name) \
  VECDET_KERNELS(name<float>) VECDET_KERNELS(name<bfloat16>) VECDET_KERNELS(name<double>)
// NOLINTEND(bugprone-macro-parentheses)
