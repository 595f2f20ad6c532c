// SPDX-License-Identifier: Apache-2.0
// The output of a call of a box loss or a softmax loss.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The output of a call besides the sum of the losses.
enum class loss_output { sum, loss, grad };

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
