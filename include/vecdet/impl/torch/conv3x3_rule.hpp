// SPDX-License-Identifier: Apache-2.0
// The rule that chooses between vecdet's 3x3 convolution and PyTorch's, which is oneDNN's. It
// depends on the sizes and the type, and for bfloat16 also on the processor. docs/pytorch.md has
// the measurements.
#pragma once

#include <vecdet/conv3x3.hpp>
#include <vecdet/detail/cpu_features.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>

#include <ATen/ATen.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Whether the processor multiplies matrices of bfloat16 (AMX), and the operating system saves the
/// registers for it: tiles and their configuration (Intel SDM volume 1, 18.3). `Cpu` is that of
/// detect_isa().
template <class Cpu>
bool detect_amx_bfloat16(const Cpu& cpu) {
  const auto bits = [](int a, int b) { return std::uint32_t{1} << a | std::uint32_t{1} << b; };
  const std::uint32_t instructions = bits(22, 24);  // AMX-BF16, AMX-TILE
  const std::uint32_t registers = bits(17, 18);
  return detect_isa(cpu) == isa::avx512 && (cpu.cpuid(7, 0).edx & instructions) == instructions &&
         (cpu.xgetbv() & registers) == registers;
}

/// Whether oneDNN may use AMX if ONEDNN_MAX_CPU_ISA has this value, the name of an instruction set;
/// null: not set. oneDNN ignores names that it does not know.
inline bool is_amx_within(const char* limit) {
  std::string name = limit == nullptr ? "" : limit;
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const bool is_known = name.rfind("sse", 0) == 0 || name.rfind("avx", 0) == 0;
  return !is_known || name.find("amx") != std::string::npos;
}

/// Whether oneDNN convolves maps of bfloat16 with AMX in this process.
inline bool onednn_has_amx() {
#if defined(__x86_64__)
  static const bool has_amx = [] {
    const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
    if (limit == nullptr) limit = std::getenv("DNNL_MAX_CPU_ISA");
    return detect_amx_bfloat16(this_cpu{}) && is_amx_within(limit);
  }();
  return has_amx;
#else
  return false;
#endif
}

/// Whether vecdet's convolution of maps of this type is faster than oneDNN's. The sizes are those
/// of conv3x3_is_faster(), which is the rule for float.
inline bool is_conv3x3_faster(at::ScalarType type, bool has_amx, index_t input_channels,
                              index_t output_channels, index_t locations, bool transforms_weights) {
  if (!conv3x3_is_faster(input_channels, output_channels, locations, transforms_weights))
    return false;
  // AMX multiplies tiles of bfloat16: far more than minimal filtering in float saves.
  return type != at::kBFloat16 || (!has_amx && locations >= (transforms_weights ? 1024 : 192));
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
