// SPDX-License-Identifier: Apache-2.0
// Options per class: wanted classes, thresholds and groups.
#pragma once

#include "random.hpp"
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vecdet::test {

struct class_lists {
  std::vector<index_t> classes, groups;
  std::vector<double> thresholds;

  class_lists() = default;
  /// Random lists for classes from `first` to `count` - 1; each may be empty.
  class_lists(index_t first, index_t count, random_generator& generator) {
    if (generator.chance(0.6))
      for (index_t k = generator.below(count) + 1; k > 0; --k)
        classes.push_back(first + generator.below(count - first));
    if (generator.chance(0.6))
      for (index_t c = 0; c < count; ++c)
        thresholds.push_back(generator.chance(0.2) ? 0.25 : generator.uniform(0, 0.6));
    if (generator.chance(0.6))
      for (index_t c = 0; c < count; ++c) groups.push_back(generator.below(3) - 1);
  }

  template <class Params>
  void give_limits(Params& params) const {
    params.classes = classes;
    params.class_thresholds = thresholds;
  }
  template <class Params>
  void give(Params& params) const {
    give_limits(params);
    params.class_groups = groups;
  }
};

template <class Params>
bool is_wanted(const Params& params, index_t label) {
  return params.classes.empty() ||
         std::find(params.classes.begin(), params.classes.end(), label) != params.classes.end();
}
template <class Params>
double threshold_of(const Params& params, index_t label) {
  return params.class_thresholds.empty() ? params.score_threshold : params.class_thresholds[label];
}

}  // namespace vecdet::test
