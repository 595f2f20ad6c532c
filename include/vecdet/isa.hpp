// SPDX-License-Identifier: Apache-2.0
// The instruction sets. dispatch.hpp selects the one that kernels run on.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The instruction sets that kernels are compiled for. Each set includes the previous one.
enum class isa {
  baseline,  ///< plain x86-64 (SSE2), which every such processor has; on 64-bit Arm, NEON
  avx2,      ///< x86-64-v3: AVX2 and FMA
  avx512,    ///< x86-64-v4: AVX-512 F, BW, DQ, VL and CD
};

}  // namespace VECDET_ABI
}  // namespace vecdet
