// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/head_boxes/head_boxes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::head_boxes_kernels<float>& kernels() noexcept;
template const detail::head_boxes_kernels<bfloat16>& kernels() noexcept;
template const detail::head_boxes_kernels<double>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
