// SPDX-License-Identifier: Apache-2.0
// The kernels for baseline. Compile with -march=x86-64 (any 64-bit Arm as it is)
// -O3 -ffp-contract=off -fno-fast-math -fno-math-errno, whatever the flags of the rest.
#define VECDET_ISA_UNIT
#include <vecdet/detail/target.hpp>

#if !defined(VECDET_TARGET_BASELINE) || defined(__FAST_MATH__) || !defined(__OPTIMIZE__)
#error "the flags do not match this file: see its head"
#endif

#include <vecdet/kernels/table.hpp>

namespace vecdet {
namespace detail {
extern const kernel_table kernels_baseline;
const kernel_table kernels_baseline = baseline::kernels;
}  // namespace detail
}  // namespace vecdet
