// SPDX-License-Identifier: Apache-2.0
// The parameters of matching in the reference's form.
#pragma once

#include <vecdet/matching.hpp>
#include <vecdet/reference/matching.hpp>

namespace vecdet::test {

inline reference::matcher_params as_reference(const matcher_params& p) {
  reference::matcher_params params;
  params.high_threshold = p.high_threshold;
  params.low_threshold = p.low_threshold;
  params.allow_low_quality = p.allow_low_quality;
  params.skip_untouched = p.skip_untouched;
  params.force_best = p.force_best;
  params.empty =
      p.empty == empty_iou::zero ? reference::empty_union::zero : reference::empty_union::nan;
  params.region_threshold = p.region_threshold;
  params.ignore_matched = p.ignore_matched;
  return params;
}

}  // namespace vecdet::test
