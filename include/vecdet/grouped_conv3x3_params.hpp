// SPDX-License-Identifier: Apache-2.0
// The groups and the stride of a grouped 3x3 convolution.
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct grouped_conv3x3_params {
  index_t groups = 1;  ///< 1 or more; both numbers of channels are multiples of it
  index_t stride = 1;  ///< rows and columns of the input from one output to the next, 1 or 2
};

}  // namespace VECDET_ABI
}  // namespace vecdet
