// SPDX-License-Identifier: Apache-2.0
// What a call of a loss of boxes or of a softmax writes.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// What a call computes besides the sum of the loss.
enum class loss_output { sum, loss, grad };

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
