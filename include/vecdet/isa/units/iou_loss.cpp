// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/iou_loss/iou_loss.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::iou_loss_kernels<float>& kernels() noexcept;
template const detail::iou_loss_kernels<bfloat16>& kernels() noexcept;
template const detail::iou_loss_kernels<double>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
