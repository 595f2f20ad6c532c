// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/box_coding/box_coding.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::box_coding_kernels<float>& kernels() noexcept;
template const detail::box_coding_kernels<bfloat16>& kernels() noexcept;
template const detail::box_coding_kernels<double>& kernels() noexcept;
template const detail::mixed_coding_kernels& kernels() noexcept;

template const detail::box_ops_kernels<float>& kernels() noexcept;
template const detail::box_ops_kernels<bfloat16>& kernels() noexcept;
template const detail::box_ops_kernels<double>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
