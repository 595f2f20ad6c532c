// SPDX-License-Identifier: Apache-2.0
#include <vecdet/isa/units/unit.hpp>
#include <vecdet/kernels/filter_topk/filter_topk.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template const detail::filter_topk_kernels<float>& kernels() noexcept;
template const detail::filter_topk_kernels<bfloat16>& kernels() noexcept;

}  // namespace VECDET_TARGET
}  // namespace vecdet
