// SPDX-License-Identifier: Apache-2.0
// The windows of max pooling.
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Numbers are at most 2^31 - 1. A window reaches over (window - 1) * dilation + 1 rows, and
/// columns likewise.
struct max_pool_params {
  index_t window_height = 2;   ///< the window's rows, 1 or more
  index_t window_width = 2;    ///< the window's columns; rows x columns are at most 256
  index_t stride_height = 2;   ///< rows from one window to the next, 1 or more
  index_t stride_width = 2;    ///< columns from one window to the next, 1 or more
  index_t padding_height = 0;  ///< rows above and below the map, at most half of the window's reach
  index_t padding_width = 0;   ///< columns beside the map, at most half of the window's reach
  index_t dilation_height = 1;  ///< rows of the map from one row of the window to the next
  index_t dilation_width = 1;   ///< columns of the map from one column of the window to the next
  bool ceil_mode = false;       ///< whether windows may reach beyond the padding below and right

  /// Square windows.
  static max_pool_params square(index_t window, index_t stride, index_t padding = 0) {
    max_pool_params params;
    params.window_height = params.window_width = window;
    params.stride_height = params.stride_width = stride;
    params.padding_height = params.padding_width = padding;
    return params;
  }
};

}  // namespace VECDET_ABI
}  // namespace vecdet
