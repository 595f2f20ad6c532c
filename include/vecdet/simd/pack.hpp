// SPDX-License-Identifier: Apache-2.0
// Packs of SIMD batches: the type that kernels compute on.
//
// A pack<T, N> is N xsimd batches of T that are processed together. Every operation on a pack is N
// independent instructions. A kernel written once, as an equation on packs, therefore keeps N
// dependency chains in flight: exp, log1p and a division in a row cost their throughput instead of
// their latency. The differences between instruction sets are confined to simd/; those between
// xsimd releases, to batch.hpp.
#pragma once

#include <vecdet/simd/batch.hpp>
#include <vecdet/simd/bfloat16.hpp>
#include <vecdet/simd/constants.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

// The batches of packs and masks are mutable: GCC 12 keeps a const local variable in memory if its
// constructor, or the function that returns it, stores to it.

/// One truth value for each lane of a pack<T, N>.
template <class T, int N>
struct pack_mask {
  mutable batch_mask<T> v[N];
};

template <class T, int N>
struct pack;

/// Whether packs of this many batches are kept in memory in any case. This holds for a row of
/// doubles on the baseline, where 16 registers hold two such rows. Loops over their batches are
/// then not unrolled, which takes a quarter of the code.
template <int N>
constexpr bool is_beyond_registers = batch_lanes<float> == 4 && N > 4;

/// Applies f to every batch of the packs: pack<T, N> -> pack<Result, N>.
template <class Result, int N, class F, class... Packs>
VECDET_INLINE pack<Result, N> map(F f, const Packs&... p) {
  pack<Result, N> result;
  if constexpr (is_beyond_registers<N>) {
    VECDET_NO_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = f(p.v[i]...);
  } else {
    VECDET_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = f(p.v[i]...);
  }
  return result;
}

template <class T, int N, class F, class... Packs>
VECDET_INLINE pack_mask<T, N> map_mask(F f, const Packs&... p) {
  pack_mask<T, N> result;
  if constexpr (is_beyond_registers<N>) {
    VECDET_NO_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = f(p.v[i]...);
  } else {
    VECDET_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = f(p.v[i]...);
  }
  return result;
}

template <class T, int N>
struct pack {
  static constexpr int batches = N;
  static constexpr int lanes = N * batch_lanes<T>;
  mutable batch<T> v[N];

  pack() = default;
  // Copied batch by batch: GCC copies aggregates through memory.
  VECDET_INLINE pack(const pack& other) { *this = other; }
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): assigning a pack to itself is harmless.
  VECDET_INLINE pack& operator=(const pack& other) {
    if constexpr (is_beyond_registers<N>) {
      VECDET_NO_UNROLL
      for (int i = 0; i < N; ++i) v[i] = other.v[i];
    } else {
      VECDET_UNROLL
      for (int i = 0; i < N; ++i) v[i] = other.v[i];
    }
    return *this;
  }
  /// The same number in every lane.
  VECDET_INLINE pack(T value) {
    batch<T> same(value);
    VECDET_UNROLL
    for (int i = 0; i < N; ++i) v[i] = same;
  }

#if defined(VECDET_STRICT_OPERATIONS)
#define VECDET_COMPARED(op, holds) VECDET_TARGET::holds(x, y)
#else
#define VECDET_COMPARED(op, holds) x op y
#endif
#define VECDET_PACK_OPERATOR(op)                                                                \
  friend VECDET_INLINE pack operator op(const pack& a, const pack& b) {                         \
    return map<T, N>([](auto x, auto y) VECDET_INLINE_LAMBDA -> batch<T> { return x op y; }, a, \
                     b);                                                                        \
  }
#define VECDET_PACK_COMPARISON(op, holds)                                                 \
  friend VECDET_INLINE pack_mask<T, N> operator op(const pack& a, const pack& b) {        \
    return map_mask<T, N>(                                                                \
        [](auto x, auto y)                                                                \
            VECDET_INLINE_LAMBDA -> batch_mask<T> { return VECDET_COMPARED(op, holds); }, \
        a, b);                                                                            \
  }
  VECDET_PACK_OPERATOR(+)
  VECDET_PACK_OPERATOR(-)
  VECDET_PACK_OPERATOR(*)
  VECDET_PACK_OPERATOR(&)
  VECDET_PACK_OPERATOR(|)
  VECDET_PACK_OPERATOR(^)
  VECDET_PACK_COMPARISON(<, is_less)
  VECDET_PACK_COMPARISON(<=, is_at_most)
  VECDET_PACK_COMPARISON(>, is_greater)
  VECDET_PACK_COMPARISON(>=, is_at_least)
  VECDET_PACK_COMPARISON(==, is_equal)
#undef VECDET_PACK_OPERATOR
#undef VECDET_PACK_COMPARISON
  /// True if either is NaN, as in C++; xsimd 8.1 returns false there on AVX2 and AVX-512.
  friend VECDET_INLINE pack_mask<T, N> operator!=(const pack& a, const pack& b) {
    return map_mask<T, N>(
        [](auto x, auto y)
            VECDET_INLINE_LAMBDA -> batch_mask<T> { return ~(VECDET_COMPARED(==, is_equal)); },
        a, b);
  }
#undef VECDET_COMPARED

  friend VECDET_INLINE pack operator/(const pack& a, const pack& b) {
    return map<T, N>(
        [](auto x, auto y) VECDET_INLINE_LAMBDA { return VECDET_TARGET::divide(x, y); }, a, b);
  }
  friend VECDET_INLINE pack operator<<(const pack& a, int bits) {
    return map<T, N>([=](auto x) VECDET_INLINE_LAMBDA -> batch<T> { return x << bits; }, a);
  }
  friend VECDET_INLINE pack operator>>(const pack& a, int bits) {
    return map<T, N>([=](auto x) VECDET_INLINE_LAMBDA -> batch<T> { return x >> bits; }, a);
  }
  /// a * b + c, rounded once if the instruction set has fused multiply-add.
  friend VECDET_INLINE pack fma(const pack& a, const pack& b, const pack& c) {
    return map<T, N>([](auto x, auto y, auto z)
                         VECDET_INLINE_LAMBDA { return VECDET_TARGET::fma(x, y, z); },
                     a, b, c);
  }
  /// c - a * b, rounded in the same way.
  friend VECDET_INLINE pack fnma(const pack& a, const pack& b, const pack& c) {
    return map<T, N>([](auto x, auto y, auto z)
                         VECDET_INLINE_LAMBDA { return VECDET_TARGET::fnma(x, y, z); },
                     a, b, c);
  }
  /// a < b ? a : b; b if either is NaN.
  friend VECDET_INLINE pack min(const pack& a, const pack& b) {
    return map<T, N>([](auto x, auto y) VECDET_INLINE_LAMBDA { return VECDET_TARGET::min(x, y); },
                     a, b);
  }
  /// a > b ? a : b; b if either is NaN.
  friend VECDET_INLINE pack max(const pack& a, const pack& b) {
    return map<T, N>([](auto x, auto y) VECDET_INLINE_LAMBDA { return VECDET_TARGET::max(x, y); },
                     a, b);
  }
  friend VECDET_INLINE pack select_by_sign(const pack& x, const pack& negative,
                                           const pack& otherwise) {
    return map<T, N>([](auto s, auto n, auto o)
                         VECDET_INLINE_LAMBDA { return VECDET_TARGET::select_by_sign(s, n, o); },
                     x, negative, otherwise);
  }
  /// x < 0 ? negative : otherwise; for -0 and NaN, the result may be either.
  friend VECDET_INLINE pack select_negative(const pack& x, const pack& negative,
                                            const pack& otherwise) {
    return map<T, N>([](auto s, auto n, auto o)
                         VECDET_INLINE_LAMBDA { return VECDET_TARGET::select_negative(s, n, o); },
                     x, negative, otherwise);
  }
  /// min(|x|, limit) for limit > 0; limit if x is NaN; see batch.hpp.
  friend VECDET_INLINE pack abs_below(const pack& x, const pack& limit) {
    return map<T, N>([](auto a, auto b)
                         VECDET_INLINE_LAMBDA { return VECDET_TARGET::abs_below(a, b); },
                     x, limit);
  }
  /// y + max(x, 0); NaN if x is NaN.
  friend VECDET_INLINE pack add_positive(const pack& y, const pack& x) {
    return map<T, N>([](auto a, auto b)
                         VECDET_INLINE_LAMBDA { return VECDET_TARGET::add_positive(a, b); },
                     y, x);
  }
  friend VECDET_INLINE pack select(const pack_mask<T, N>& mask, const pack& a, const pack& b) {
    return map<T, N>([](auto m, auto x, auto y)
                         VECDET_INLINE_LAMBDA { return xsimd::select(m, x, y); },
                     mask, a, b);
  }
  friend VECDET_INLINE pack sqrt(const pack& a) {
    return map<T, N>([](auto x) VECDET_INLINE_LAMBDA { return VECDET_TARGET::square_root(x); }, a);
  }
};

/// The lanes' bits as numbers of another type of the same width.
template <class To, class From, int N>
VECDET_INLINE pack<To, N> bit_cast(const pack<From, N>& x) {
  return map<To, N>([](auto b) VECDET_INLINE_LAMBDA { return VECDET_TARGET::bit_cast<To>(b); }, x);
}

/// x, clamped to [0, limit] and rounded to the nearest whole number; limit is 2^k - 1 for k <= 23.
/// NaN gives a number in [0, limit], too.
template <int N>
VECDET_INLINE pack<std::int32_t, N> nearest_whole(const pack<float, N>& x, float limit) {
  using floats = pack<float, N>;
  // From 2^23 on, the last bit of a float counts ones.
  const floats bounded = min(max(x, floats(0.0f)), floats(limit));
  return bit_cast<std::int32_t>(bounded + floats(8388608.0f)) &
         pack<std::int32_t, N>(static_cast<std::int32_t>(limit));
}

/// table.entry[index mod 8] in every lane.
template <int N>
VECDET_INLINE pack<std::int32_t, N> lookup8(const table8& table,
                                            const pack<std::int32_t, N>& index) {
  return map<std::int32_t, N>(
      [&](auto i) VECDET_INLINE_LAMBDA { return VECDET_TARGET::lookup8(table, i); }, index);
}

// a + b and a - b as multiply-adds, if the instruction set has them. On Zen, multiply-adds and
// additions use different ports, so a mix of both speeds up code full of additions. Only float uses
// this, and never fnma: valgrind computes zeros of the wrong sign for fnma, and for multiply-adds
// of doubles.
template <class T>
constexpr bool adds_by_fma = has_fma && sizeof(T) == sizeof(float);
template <class T, int N>
VECDET_INLINE pack<T, N> add_by_fma(const pack<T, N>& a, const pack<T, N>& b) {
  if constexpr (adds_by_fma<T>) return fma(pack<T, N>(T(1)), a, b);
  return a + b;
}
template <class T, int N>
VECDET_INLINE pack<T, N> subtract_by_fma(const pack<T, N>& a, const pack<T, N>& b) {
  if constexpr (adds_by_fma<T>) return fma(pack<T, N>(T(-1)), b, a);
  return a - b;
}

/// |x|, by clearing the sign bit.
template <class T, int N>
VECDET_INLINE pack<T, N> abs(const pack<T, N>& x) {
  return map<T, N>([](auto b) VECDET_INLINE_LAMBDA { return xsimd::abs(b); }, x);
}

/// x as the result of operations of their own: see detail/float_bits.hpp.
template <class T, int N>
VECDET_INLINE pack<T, N> rounded(pack<T, N> x) {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__aarch64__))
  VECDET_UNROLL
  for (int i = 0; i < N; ++i) {
    typename batch<T>::register_type raw = x.v[i];
#if defined(VECDET_TARGET_AVX512)
    __asm__("" : "+v"(raw));
#elif defined(__x86_64__)
    __asm__("" : "+x"(raw));
#else
    __asm__("" : "+w"(raw));
#endif
    x.v[i] = batch<T>(raw);
  }
#endif
  return x;
}

/// Reads pack<..., N>::lanes stored elements.
template <int N, class T>
VECDET_INLINE pack<compute_type<T>, N> load_pack(const T* from) {
  pack<compute_type<T>, N> result;
  constexpr int lanes = batch_lanes<compute_type<T>>;
  if constexpr (std::is_same<T, bfloat16>::value && N % 2 == 0) {
    VECDET_UNROLL
    for (int i = 0; i < N; i += 2) load_two(from + i * lanes, result.v[i], result.v[i + 1]);
  } else if constexpr (is_beyond_registers<N>) {
    VECDET_NO_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = load(from + i * lanes);
  } else {
    VECDET_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = load(from + i * lanes);
  }
  return result;
}

/// Writes pack<..., N>::lanes elements; rounds if T is bfloat16.
template <int N, rounded_nans Nans = rounded_nans::any, class T>
VECDET_INLINE void store_pack(T* to, const pack<compute_type<T>, N>& x) {
  constexpr int lanes = batch_lanes<compute_type<T>>;
  if constexpr (std::is_same<T, bfloat16>::value && N % 2 == 0) {
    VECDET_UNROLL
    for (int i = 0; i < N; i += 2) store_two<Nans>(to + i * lanes, x.v[i], x.v[i + 1]);
  } else if constexpr (is_beyond_registers<N>) {
    VECDET_NO_UNROLL
    for (int i = 0; i < N; ++i) store(to + i * lanes, x.v[i]);
  } else {
    VECDET_UNROLL
    for (int i = 0; i < N; ++i) store(to + i * lanes, x.v[i]);
  }
}

/// The batches [first, first + Count) of a pack.
template <int Count, class T, int N>
VECDET_INLINE pack<T, Count> slice(const pack<T, N>& x, int first) {
  pack<T, Count> result;
  VECDET_UNROLL
  for (int i = 0; i < Count; ++i) result.v[i] = x.v[first + i];
  return result;
}

/// Joins two packs.
template <class T, int N>
VECDET_INLINE pack<T, 2 * N> joined(const pack<T, N>& lower, const pack<T, N>& upper) {
  pack<T, 2 * N> result;
  VECDET_UNROLL
  for (int i = 0; i < N; ++i) {
    result.v[i] = lower.v[i];
    result.v[N + i] = upper.v[i];
  }
  return result;
}

/// Converts every lane to double.
template <int N>
VECDET_INLINE pack<double, 2 * N> widen(const pack<float, N>& x) {
  pack<double, 2 * N> result;
  VECDET_UNROLL
  for (int i = 0; i < N; ++i) widen(x.v[i], result.v[2 * i], result.v[2 * i + 1]);
  return result;
}

/// Rounds every lane to float.
template <int N>
VECDET_INLINE pack<float, N / 2> narrow(const pack<double, N>& x) {
  pack<float, N / 2> result;
  VECDET_UNROLL
  for (int i = 0; i < N / 2; ++i) result.v[i] = narrow(x.v[2 * i], x.v[2 * i + 1]);
  return result;
}

template <class T, int N>
VECDET_INLINE bool all(const pack_mask<T, N>& mask) {
  batch_mask<T> every = mask.v[0];
  VECDET_UNROLL
  for (int i = 1; i < N; ++i) every = every & mask.v[i];
  return xsimd::all(every);
}

/// Reduces a pack's batches to one: the minimum of each lane, and the sum of each lane.
template <class T, int N>
VECDET_INLINE pack<T, 1> least_batch(const pack<T, N>& x) {
  auto least = slice<1>(x, 0);
  VECDET_UNROLL
  for (int i = 1; i < N; ++i) least = min(slice<1>(x, i), least);
  return least;
}
template <class T, int N>
VECDET_INLINE pack<T, 1> sum_of_batches(const pack<T, N>& x) {
  auto sum = slice<1>(x, 0);
  VECDET_UNROLL
  for (int i = 1; i < N; ++i) sum = sum + slice<1>(x, i);
  return sum;
}

/// The number of lanes that define the order of a sum on every instruction set: a row of 16.
constexpr int row_lanes = 16;
template <class T>
using row_pack = pack<T, row_lanes / batch_lanes<T>>;
template <class T>
alignas(64) constexpr T lane_numbers[row_lanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                   8, 9, 10, 11, 12, 13, 14, 15};

/// 16 running sums in double, one per lane of a row. The lanes and their order are fixed, so the
/// total is bit-identical on every instruction set.
class lane_sums {
 public:
  VECDET_INLINE lane_sums() : sums_(0.0) {}
  VECDET_INLINE void add(const row_pack<double>& row) { sums_ = sums_ + row; }
  VECDET_INLINE void add(const row_pack<float>& row) { sums_ = sums_ + widen(row); }

  VECDET_INLINE double total() const {
    alignas(64) double lane[row_lanes];
    store_pack<row_pack<double>::batches>(lane, sums_);
    double sum = 0;
    for (int i = 0; i < row_lanes; ++i) sum += lane[i];
    return sum;
  }

 private:
  row_pack<double> sums_;
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
