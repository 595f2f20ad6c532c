// SPDX-License-Identifier: Apache-2.0
// What a measuring process hands to the one that judges.
#pragma once

namespace vecdet {
namespace gate {

/// What one process has found about a problem. Ratios are of times: above 1, the first is slower.
struct measurement {
  double base_ns = 0, head_ns = 0;
  double head_to_base = 1;     ///< median
  double p_slower = 1;         ///< of head not being slower than base
  double control_to_base = 1;  ///< median
  double plain_to_head = 0;    ///< median; 0: not measured
};

}  // namespace gate
}  // namespace vecdet
