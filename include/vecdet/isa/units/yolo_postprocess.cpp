// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/yolo_postprocess/yolo_postprocess.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::yolo_kernels<float>& kernels() noexcept;
template const detail::yolo_kernels<bfloat16>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
