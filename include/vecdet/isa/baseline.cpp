// SPDX-License-Identifier: Apache-2.0
// All kernels for baseline, for builds without CMake. Compile with -march=x86-64 (on 64-bit Arm
// without -march) -O2 -ffp-contract=off -fno-fast-math -fno-math-errno, regardless of the program's
// other flags.
#define VECDET_ISA_UNIT baseline
#include <vecdet/isa/all_kernels.hpp>
