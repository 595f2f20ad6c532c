// SPDX-License-Identifier: Apache-2.0
// The instruction set that this translation unit is compiled for, read off the compiler's flags.
//
// VECDET_TARGET_ISA names it: baseline, avx2 or avx512. VECDET_TARGET is the namespace of all
// kernel code: that name in isa/*.cpp, which define VECDET_ISA_UNIT, and another in a header-only
// caller, so that no two of them define one symbol: a caller's copy, compiled with its own flags,
// would otherwise take the place of the unit's. VECDET_ABI is the inline namespace of the public
// functions: it keeps header-only callers compiled with different flags, and dispatching ones,
// apart in one program.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512CD__)
#define VECDET_TARGET_ISA avx512
#define VECDET_TARGET_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__)
#define VECDET_TARGET_ISA avx2
#define VECDET_TARGET_AVX2 1
#else
#define VECDET_TARGET_ISA baseline
#define VECDET_TARGET_BASELINE 1
#endif

#if defined(VECDET_ISA_UNIT)
#define VECDET_TARGET VECDET_TARGET_ISA
#elif defined(VECDET_TARGET_AVX512)
#define VECDET_TARGET avx512_headers
#elif defined(VECDET_TARGET_AVX2)
#define VECDET_TARGET avx2_headers
#else
#define VECDET_TARGET baseline_headers
#endif

#if defined(VECDET_DISPATCH) || defined(VECDET_ISA_UNIT) || defined(VECDET_ENVIRONMENT_UNIT)
#define VECDET_ABI dispatched
#elif defined(VECDET_TARGET_AVX512)
#define VECDET_ABI avx512_only
#elif defined(VECDET_TARGET_AVX2)
#define VECDET_ABI avx2_only
#else
#define VECDET_ABI baseline_only
#endif

#if defined(__GNUC__)
#define VECDET_INLINE inline __attribute__((always_inline))
#define VECDET_NOINLINE __attribute__((noinline))
#define VECDET_INLINE_LAMBDA __attribute__((always_inline))
#else
#define VECDET_INLINE inline
#define VECDET_NOINLINE
#define VECDET_INLINE_LAMBDA
#endif

// Loops over the batches of a pack leave no trace: told so, GCC unrolls them at -O2, too, and
// before it splits packs into registers.
#if defined(__clang__)
#define VECDET_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define VECDET_UNROLL _Pragma("GCC unroll 16")
#else
#define VECDET_UNROLL
#endif

// Loops that stay loops, where unrolled ones would only be more code.
#if defined(__clang__)
#define VECDET_NO_UNROLL _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define VECDET_NO_UNROLL _Pragma("GCC unroll 1")
#else
#define VECDET_NO_UNROLL
#endif

// Loops over rows of 16 lanes: on the baseline, a row is four registers and more by itself.
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
#define VECDET_UNROLL_ROWS VECDET_UNROLL
#else
#define VECDET_UNROLL_ROWS VECDET_NO_UNROLL
#endif
