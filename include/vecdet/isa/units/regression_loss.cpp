// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/regression_loss/regression_loss.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::regression_loss_kernels<float>& kernels() noexcept;
template const detail::regression_loss_kernels<bfloat16>& kernels() noexcept;
template const detail::regression_loss_kernels<double>& kernels() noexcept;
template const detail::regression_loss_kernels<detail::mixed_regression>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
