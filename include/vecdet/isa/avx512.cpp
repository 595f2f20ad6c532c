// SPDX-License-Identifier: Apache-2.0
// All kernels for avx512, for builds without CMake. Compile with -march=x86-64-v4
// -mprefer-vector-width=512 -O2 -ffp-contract=off -fno-fast-math -fno-math-errno, regardless of the
// program's other flags.
#define VECDET_ISA_UNIT avx512
#include <vecdet/isa/all_kernels.hpp>
