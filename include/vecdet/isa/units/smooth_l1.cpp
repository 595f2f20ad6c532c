// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/smooth_l1/smooth_l1.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::smooth_l1_kernels<float>& kernels() noexcept;
template const detail::smooth_l1_kernels<bfloat16>& kernels() noexcept;
template const detail::smooth_l1_kernels<double>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
