// SPDX-License-Identifier: Apache-2.0
// A row of 16 numbers as doubles.
#pragma once

#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

VECDET_INLINE row_pack<double> as_double(const row_pack<float>& x) { return widen(x); }
VECDET_INLINE row_pack<double> as_double(const row_pack<double>& x) { return x; }

}  // namespace VECDET_TARGET
}  // namespace vecdet
