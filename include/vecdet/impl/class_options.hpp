// SPDX-License-Identifier: Apache-2.0
// Wanted classes and thresholds per class, of the functions that turn a network's output into
// detections. Both become one limit per class, which kernels compare with the scores that are above
// the lowest limit.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Whether a call has wanted classes or thresholds per class.
template <class Params>
bool has_class_limits(const Params& params) {
  return !params.classes.empty() || !params.class_thresholds.empty();
}

inline void check_wanted(const char* function, vector_view<const index_t> classes, index_t least,
                         index_t most) {
  for (index_t i = 0; i < classes.size(); ++i) {
    if (classes[i] >= least && classes[i] <= most) continue;
    throw_invalid_argument(
        function, element("params.classes", i), classes[i],
        most == std::numeric_limits<index_t>::max() ? std::string("0 or more")
        : most < least ? std::string("no element, because there is no class")
                       : "a class from " + std::to_string(least) + " to " + std::to_string(most));
  }
}

/// Throws unless the wanted classes are from `least` to `most`, and there is one threshold for each
/// of `count` classes.
template <class Params>
void check_class_limits(const char* function, const Params& params, index_t least, index_t most,
                        index_t count) {
  check_wanted(function, params.classes, least, most);
  check_optional_size(function, "params.class_thresholds.size()", params.class_thresholds.size(),
                      count, "the number of classes");
  for (index_t i = 0; i < params.class_thresholds.size(); ++i)
    check_element(is_within(params.class_thresholds[i], 0, 1), function, "params.class_thresholds",
                  i, params.class_thresholds[i], "a number in [0, 1]");
}

/// Calls use(class) for each of the wanted classes among the first `count`.
template <class Params, class Use>
void for_each_wanted(const Params& params, index_t count, const Use& use) {
  for (const index_t c : params.classes)
    if (c < count) use(c);
  for (index_t c = 0; params.classes.empty() && c < count; ++c) use(c);
}

/// The lowest threshold of a wanted class; without thresholds per class, score_threshold.
template <class Params>
double lowest_threshold(const Params& params) {
  if (params.class_thresholds.empty()) return params.score_threshold;
  double lowest = 1;
  for_each_wanted(params, params.class_thresholds.size(),
                  [&](index_t c) { lowest = std::min(lowest, params.class_thresholds[c]); });
  return lowest;
}

/// The limits of `count` classes in the unit of convert(threshold), and `unwanted` for classes that
/// are not wanted; null if there are no lists.
template <class Params, class Convert>
const float* class_limits(const Params& params, index_t count, std::vector<float>& buffer,
                          const Convert& convert,
                          float unwanted = std::numeric_limits<float>::infinity()) {
  if (!has_class_limits(params)) return nullptr;
  const vector_view<const double>& thresholds = params.class_thresholds;
  count = std::max(count, index_t{0});
  float* const limits = grown(buffer, count);
  std::fill(limits, limits + count, unwanted);
  // Without logits, the size of the list is not checked.
  for_each_wanted(
      params, thresholds.empty() ? count : std::min(count, thresholds.size()), [&](index_t c) {
        limits[c] = convert(thresholds.empty() ? params.score_threshold : thresholds[c]);
      });
  return limits;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
