// SPDX-License-Identifier: Apache-2.0
// The types of one xsimd batch and of its truth values. Architectures are named explicitly because
// xsimd's default enables more of the compiler's flags than our instruction sets use.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>

#include <xsimd/xsimd.hpp>

#if XSIMD_VERSION_MAJOR < 8 || (XSIMD_VERSION_MAJOR == 8 && XSIMD_VERSION_MINOR < 1)
#error "vecdet needs xsimd 8.1 or newer, and the compiler finds an older one"
#endif

namespace vecdet {
namespace VECDET_TARGET {

#if defined(VECDET_TARGET_AVX512)
using arch = xsimd::avx512bw;
#elif defined(VECDET_TARGET_AVX2)
using arch = xsimd::fma3<xsimd::avx2>;
#elif defined(__aarch64__)
using arch = xsimd::neon64;
#else
using arch = xsimd::sse2;
#endif

template <class T>
using batch = xsimd::batch<T, arch>;

template <class T>
using batch_mask = typename batch<T>::batch_bool_type;

template <class T>
constexpr int batch_lanes = static_cast<int>(batch<T>::size);

#if defined(VECDET_TARGET_BASELINE) && !defined(__aarch64__)
constexpr bool has_fma = false;
#else
constexpr bool has_fma = true;
#endif

using f32_batch = batch<float>;
using f64_batch = batch<double>;
using i32_batch = batch<std::int32_t>;
using i64_batch = batch<std::int64_t>;

}  // namespace VECDET_TARGET
}  // namespace vecdet
