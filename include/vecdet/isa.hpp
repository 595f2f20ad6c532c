// SPDX-License-Identifier: Apache-2.0
// The instruction sets; dispatch.hpp says which one kernels run on.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The instruction sets that kernels are compiled for, each including the one before.
enum class isa {
  baseline,  ///< x86-64 as every such processor has it (SSE2); on 64-bit Arm, NEON
  avx2,      ///< x86-64-v3: AVX2 and FMA
  avx512,    ///< x86-64-v4: AVX-512 F, BW, DQ, VL and CD
};

}  // namespace VECDET_ABI
}  // namespace vecdet
