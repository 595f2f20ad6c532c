// SPDX-License-Identifier: Apache-2.0
// The rule that chooses between vecdet's 3x3 convolution and PyTorch's, which is oneDNN's. It
// depends on the sizes and the type, and for bfloat16 also on the processor. docs/pytorch.md has
// the measurements.
#pragma once

#include <vecdet/conv3x3.hpp>
#include <vecdet/detail/cpu_features.hpp>
#include <vecdet/impl/torch/aten.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

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

/// The part of a side's tiles of four outputs that lies within the map.
inline double filled_part(index_t side) {
  return static_cast<double>(side) / static_cast<double>(std::max<index_t>(1, (side + 3) / 4 * 4));
}

/// The locations of maps of bfloat16. Those of maps that do not fill tiles of 4 x 4 count less.
inline double filled_locations(index_t images, index_t height, index_t width) {
  return static_cast<double>(images * height * width) * filled_part(height) * filled_part(width);
}

/// The least filled locations for which vecdet's convolution of maps of bfloat16 is faster than
/// oneDNN's without AMX. Transforming the weights takes as long for few locations as for many, and
/// with more channels, oneDNN comes nearer to the processor's peak.
inline double least_filled_locations(index_t input_channels, index_t output_channels,
                                     bool transforms_weights) {
  const index_t channels = std::max(input_channels, output_channels);
  if (!transforms_weights) return channels <= 128 ? 36 : 320;
  return channels <= 64 ? 36 : channels <= 128 ? 400 : 768;
}

/// Whether vecdet's convolution of maps of bfloat16 is faster than oneDNN's.
inline bool is_bfloat16_conv3x3_faster(bool has_amx, index_t input_channels,
                                       index_t output_channels, double filled,
                                       bool transforms_weights) {
  // AMX multiplies tiles of bfloat16: far more than minimal filtering in float saves.
  return !has_amx && input_channels >= 16 && output_channels >= 16 &&
         filled >= least_filled_locations(input_channels, output_channels, transforms_weights);
}

/// Whether vecdet's convolution of these maps is faster than oneDNN's.
inline bool is_conv3x3_faster(at::TensorList maps, const at::Tensor& weight,
                              bool transforms_weights) {
  if (maps[0].scalar_type() == at::kBFloat16) {
    double filled = 0;
    for (const at::Tensor& map : maps)
      filled += filled_locations(map.size(0), map.size(2), map.size(3));
    return is_bfloat16_conv3x3_faster(onednn_has_amx(), weight.size(1), weight.size(0), filled,
                                      transforms_weights);
  }
  index_t locations = 0;
  for (const at::Tensor& map : maps) locations += map.size(0) * map.size(2) * map.size(3);
  return conv3x3_is_faster(weight.size(1), weight.size(0), locations, transforms_weights);
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
