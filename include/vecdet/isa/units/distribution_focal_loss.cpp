// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/distribution_focal_loss/distribution_focal_loss.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::distribution_focal_loss_kernels& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
