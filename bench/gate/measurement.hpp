// SPDX-License-Identifier: Apache-2.0
// The result of a measuring process, for the process that judges.
#pragma once

namespace vecdet {
namespace gate {

/// One process's result for a problem. Ratios are of times: above 1, the first is slower.
struct measurement {
  double base_ns = 0, head_ns = 0;
  double head_to_base = 1;     ///< median
  double p_slower = 1;         ///< probability that head is not slower than base
  double control_to_base = 1;  ///< median
  double plain_to_head = 0;    ///< median; 0: not measured
};

}  // namespace gate
}  // namespace vecdet
