// SPDX-License-Identifier: Apache-2.0
// The instruction set that this translation unit is compiled for, derived from the compiler's
// flags.
//
// VECDET_TARGET_ISA names it: baseline, avx2 or avx512. VECDET_TARGET is the namespace of all
// kernel code. In isa/*.cpp, which define VECDET_ISA_UNIT, it has that name; in a header-only
// caller it has another. If both defined the same symbol, the linker could replace the unit's copy
// with the caller's, which is compiled with other flags. VECDET_ABI is the inline namespace of the
// public functions. It separates header-only callers with different flags, and dispatching callers,
// in one program.
#pragma once

#include <vecdet/detail/language.hpp>

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

// GCC 12 reports its own intrinsics of AVX-512 as uninitialised wherever they are inlined (GCC bug
// 105593). Their first inclusion decides, and oneTBB includes them, too: therefore here, where no
// header of vecdet has included anything before.
#if defined(VECDET_TARGET_AVX512) && !defined(VECDET_DISPATCH) && !defined(__clang__) && \
    __GNUC__ == 12
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
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

// Fully unrolls loops over the batches of a pack. GCC then unrolls them at -O2, too, and before it
// splits packs into registers.
#if defined(__clang__)
#define VECDET_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define VECDET_UNROLL _Pragma("GCC unroll 16")
#else
#define VECDET_UNROLL
#endif

// Prevents unrolling of loops where it would only increase code size.
#if defined(__clang__)
#define VECDET_NO_UNROLL _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define VECDET_NO_UNROLL _Pragma("GCC unroll 1")
#else
#define VECDET_NO_UNROLL
#endif

// For loops over rows of 16 lanes. On the baseline they are not unrolled, because a single row
// takes four or more registers.
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
#define VECDET_UNROLL_ROWS VECDET_UNROLL
#else
#define VECDET_UNROLL_ROWS VECDET_NO_UNROLL
#endif

// Whether the flags of a header-only caller let the compiler ignore NaN and infinities or reorder
// operations. Clang does not tell about -funsafe-math-optimizations alone.
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#define VECDET_FAST_MATH 1
#endif
