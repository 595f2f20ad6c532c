// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/softmax_cross_entropy/softmax_cross_entropy.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::softmax_cross_entropy_kernels& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
