// SPDX-License-Identifier: Apache-2.0
// Options per class from a fuzzer's bytes: wanted classes, thresholds and groups.
#pragma once

#include "fuzz_input.hpp"
#include "support/class_lists.hpp"

namespace vecdet::fuzz {

struct class_lists : test::class_lists {
  class_lists() = default;
  /// For classes from `first` to `count` - 1; each list may be empty.
  class_lists(input& in, index_t first, index_t count) {
    const int given = in.byte();
    if (first >= count) return;
    if ((given & 1) != 0)
      for (index_t k = in.integer(1, 6); k > 0; --k)
        classes.push_back(in.integer(first, count - 1));
    for (index_t c = 0; c < count && (given & 2) != 0; ++c)
      thresholds.push_back(in.one_of({0.25, 0.0, 0.5, 1.0, in.tame(0, 1)}));
    for (index_t c = 0; c < count && (given & 4) != 0; ++c) groups.push_back(in.byte() % 3 - 1);
  }
};

using test::is_wanted;
using test::threshold_of;

template <class Params>
index_t group_of(const Params& params, index_t label) {
  return params.class_groups.empty() ? label : params.class_groups[label];
}

}  // namespace vecdet::fuzz
