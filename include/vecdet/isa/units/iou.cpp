// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/iou/iou.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::iou_kernels<float>& kernels() noexcept;
template const detail::iou_kernels<bfloat16>& kernels() noexcept;
template const detail::iou_kernels<double>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
