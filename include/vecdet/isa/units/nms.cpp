// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/nms/nms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::nms_kernels<float>& kernels() noexcept;
template const detail::nms_kernels<bfloat16>& kernels() noexcept;
template const detail::nms_kernels<double>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
