// SPDX-License-Identifier: Apache-2.0
// The denormals in a tensor.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

/// Counts the denormals among numbers whose exponent and mantissa have these bits. It compares
/// integers, because arithmetic is slow on denormals or flushes them.
template <class Bits>
std::uint64_t count_denormals(const void* data, std::int64_t count, Bits exponent, Bits mantissa) {
  const auto* const bits = static_cast<const Bits*>(data);
  std::uint64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i)
    found += (bits[i] & exponent) == 0 && (bits[i] & mantissa) != 0 ? 1 : 0;
  return found;
}

/// The number of denormals in a tensor of floating-point numbers. nullopt for other types, and for
/// tensors that are empty, have gaps in memory or are not on the CPU.
inline std::optional<std::uint64_t> denormals_in(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || !tensor.has_storage() || tensor.numel() == 0 ||
      !tensor.is_non_overlapping_and_dense())
    return std::nullopt;
  const void* const data = tensor.data_ptr();
  if (data == nullptr) return std::nullopt;
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return count_denormals<std::uint32_t>(data, tensor.numel(), 0x7f800000u, 0x007fffffu);
    case at::kDouble:
      return count_denormals<std::uint64_t>(data, tensor.numel(), 0x7ff0000000000000u,
                                            0x000fffffffffffffu);
    case at::kBFloat16:
      return count_denormals<std::uint16_t>(data, tensor.numel(), 0x7f80u, 0x007fu);
    case at::kHalf:
      return count_denormals<std::uint16_t>(data, tensor.numel(), 0x7c00u, 0x03ffu);
    default:
      return std::nullopt;
  }
}

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
