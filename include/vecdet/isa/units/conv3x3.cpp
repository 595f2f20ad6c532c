// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/conv3x3/conv3x3.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::conv3x3_kernels<float>& kernels() noexcept;
template const detail::conv3x3_kernels<double>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
