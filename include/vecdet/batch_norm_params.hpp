// SPDX-License-Identifier: Apache-2.0
// The parameters of batch normalisation.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// What follows the normalisation, in the same pass.
enum class batch_norm_activation {
  none,
  relu,  ///< max(z, 0)
  silu   ///< z / (1 + exp(-z)), also called swish
};

struct batch_norm_params {
  double epsilon = 1e-5;  ///< is added to the variance; 0 or more
  batch_norm_activation activation = batch_norm_activation::none;  ///< of the normalised numbers
};

}  // namespace VECDET_ABI
}  // namespace vecdet
