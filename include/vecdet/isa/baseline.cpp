// SPDX-License-Identifier: Apache-2.0
// All kernels for baseline, for builds by hand. Compile with -march=x86-64 (any 64-bit Arm as it
// is) -O2 -ffp-contract=off -fno-fast-math -fno-math-errno, whatever the flags of the rest.
#define VECDET_ISA_UNIT baseline
#include <vecdet/isa/all_kernels.hpp>
