// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/letterbox/letterbox.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::letterbox_kernels& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
