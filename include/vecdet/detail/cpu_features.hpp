// SPDX-License-Identifier: Apache-2.0
// Detects the instruction set that this processor and its operating system support. It requires
// exactly the features that the flags of isa/*.cpp allow the compiler to use: x86-64-v3 for avx2,
// x86-64-v4 for avx512. The operating system must also save their registers (Intel SDM volume 1,
// 14.3 and 15.2).
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/isa.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct cpuid_registers {
  std::uint32_t eax, ebx, ecx, edx;
};

/// Cpu has two functions. cpuid(leaf, subleaf) returns cpuid_registers, all zero for a leaf that
/// does not exist. xgetbv() returns the low half of XCR0 and is called only if cpuid reports
/// OSXSAVE.
template <class Cpu>
isa detect_isa(const Cpu& cpu) {
  const auto all_of = [](std::uint32_t word, std::uint32_t bits) { return (word & bits) == bits; };
  const auto bit = [](int n) { return std::uint32_t{1} << n; };

  const cpuid_registers leaf1 = cpu.cpuid(1, 0);
  const cpuid_registers leaf7 = cpu.cpuid(7, 0);
  const cpuid_registers extended1 = cpu.cpuid(0x80000001u, 0);

  const bool os_saves_registers = all_of(leaf1.ecx, bit(27));
  const std::uint32_t saved = os_saves_registers ? cpu.xgetbv() : 0;
  const bool saves_ymm = all_of(saved, 0x06);  // SSE and AVX state
  const bool saves_zmm = all_of(saved, 0xe6);  // and opmask, upper ZMM0-15, ZMM16-31

  const std::uint32_t v3_leaf1 = bit(0) | bit(9) | bit(12) | bit(13) | bit(19) | bit(20) | bit(22) |
                                 bit(23) | bit(28) | bit(29);  // SSE3 SSSE3 FMA CX16 SSE4.1 SSE4.2
                                                               // MOVBE POPCNT AVX F16C
  const std::uint32_t v3_leaf7 = bit(3) | bit(5) | bit(8);     // BMI1 AVX2 BMI2
  const std::uint32_t v3_extended1 = bit(0) | bit(5);          // LAHF LZCNT
  const bool v3 = saves_ymm && all_of(leaf1.ecx, v3_leaf1) && all_of(leaf7.ebx, v3_leaf7) &&
                  all_of(extended1.ecx, v3_extended1);

  const std::uint32_t v4_leaf7 = bit(16) | bit(17) | bit(28) | bit(30) | bit(31);  // F DQ CD BW VL
  const bool v4 = v3 && saves_zmm && all_of(leaf7.ebx, v4_leaf7);
  return v4 ? isa::avx512 : v3 ? isa::avx2 : isa::baseline;
}

#if defined(__x86_64__)
struct this_cpu {
  cpuid_registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) const noexcept {
    const std::uint32_t extended = 0x80000000u;
    const std::uint32_t last = instruction(leaf & extended, 0).eax;  // basic or extended leaf
    return leaf <= last ? instruction(leaf, subleaf) : cpuid_registers{0, 0, 0, 0};
  }
  std::uint32_t xgetbv() const noexcept {
    std::uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
  }

 private:
  // Not by <cpuid.h>, whose macros break <intrin.h> of Windows, which oneTBB includes there.
  static cpuid_registers instruction(std::uint32_t leaf, std::uint32_t subleaf) noexcept {
    cpuid_registers r;
    __asm__ volatile("cpuid"
                     : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                     : "a"(leaf), "c"(subleaf));
    return r;
  }
};
#endif

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
