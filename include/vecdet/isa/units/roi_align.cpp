// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/roi_align/roi_align.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::roi_align_kernels<float>& kernels() noexcept;
template const detail::roi_align_kernels<bfloat16>& kernels() noexcept;
template const detail::roi_align_kernels<double>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
