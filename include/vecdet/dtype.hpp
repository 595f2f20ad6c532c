// SPDX-License-Identifier: Apache-2.0
// Element types of tensors: float, double and bfloat16. bfloat16 is a storage type: kernels compute
// in float and round once, to nearest even, when they store.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/value_of.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// The upper half of an IEEE 754 binary32: 1 sign, 8 exponent and 7 fraction bits.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;

  /// Rounds to nearest, ties to even; overflow gives infinity, NaN stays NaN (quieted).
  explicit bfloat16(float value) noexcept {
    std::uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    const bool is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded =
        is_nan ? wide | 0x00400000u : wide + 0x7fffu + ((wide >> 16) & 1u);
    bits = static_cast<std::uint16_t>(rounded >> 16);
  }

  /// Exact.
  operator float() const noexcept {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }

  static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept { return bfloat16(bits, 0); }

 private:
  constexpr bfloat16(std::uint16_t raw, int) noexcept : bits(raw) {}
};

static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable<bfloat16>::value,
              "bfloat16 has the memory layout of every framework's");

/// The type a kernel computes in for elements stored as T: float for bfloat16, else T itself.
template <class T>
using compute_type = std::conditional_t<std::is_same<T, bfloat16>::value, float, T>;

/// Enables overloads for bfloat16 deltas (const or not) with float boxes.
template <class T>
using if_bfloat16 = std::enable_if_t<std::is_same<value_of<T>, bfloat16>::value, int>;

/// The name of T in problem names: "f32", "bf16" or "f64".
template <class T>
constexpr const char* dtype_name() noexcept {
  static_assert(std::is_same<T, float>::value || std::is_same<T, bfloat16>::value ||
                    std::is_same<T, double>::value,
                "vecdet kernels take float, vecdet::bfloat16 or double");
  return std::is_same<T, float>::value ? "f32" : std::is_same<T, double>::value ? "f64" : "bf16";
}

}  // namespace VECDET_ABI
}  // namespace vecdet
