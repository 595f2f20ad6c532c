// SPDX-License-Identifier: Apache-2.0
// Wanted classes, thresholds per class and groups of classes in NMS.
#pragma once

#include <vecdet/args/nms.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/nms_buffers.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline bool has_class_lists(const nms_params& params) {
  return !params.classes.empty() || !params.class_thresholds.empty() ||
         !params.class_groups.empty();
}

/// The classes that take part.
class wanted_classes {
 public:
  /// `buffer` keeps a sorted list.
  wanted_classes(const nms_params& params, std::vector<index_t>& buffer)
      : list_(grown(buffer, params.classes.size())), count_(params.classes.size()) {
    std::copy(params.classes.begin(), params.classes.end(), list_);
    std::sort(list_, list_ + count_);
  }
  bool includes(const labels_view& classes, index_t i) const {
    return count_ == 0 ||
           (!classes.is_too_large(i) && std::binary_search(list_, list_ + count_, classes[i]));
  }

 private:
  index_t* list_;
  index_t count_;
};

/// Throws unless the boxes' classes have elements in the lists of the parameters.
/// @param thing what a box is in messages
inline void check_nms_classes(const char* function, const nms_groups& groups, index_t boxes,
                              const nms_params& params, nms_buffers& buffers,
                              const char* thing = "box") {
  if (!has_class_lists(params)) return;
  if (boxes > 0 && groups.classes.size() == 0)
    throw_invalid_argument(function, "groups.classes.size()", 0,
                           std::string("one class per ") + thing +
                               " for params.classes, class_thresholds or class_groups");
  const index_t thresholds = params.class_thresholds.size(), by_group = params.class_groups.size();
  check(thresholds == 0 || by_group == 0 || thresholds == by_group, function,
        "params.class_groups.size()", by_group, "that of params.class_thresholds");
  for (index_t i = 0; i < thresholds; ++i)
    check_element(!is_nan(params.class_thresholds[i]), function, "params.class_thresholds", i,
                  params.class_thresholds[i], "a number");
  const index_t listed = std::max(thresholds, by_group);
  if (listed == 0) return;
  const wanted_classes wanted(params, buffers.wanted);
  for (index_t i = 0; i < boxes; ++i) {
    const index_t own = groups.classes[i];
    if ((own >= 0 && own < listed) || !wanted.includes(groups.classes, i)) continue;
    throw_invalid_argument(
        function, element("groups.classes", i), own,
        index_range(listed, "classes in params.class_thresholds or class_groups"));
  }
}

/// The threshold, rounded to Real if params.float_threshold is set.
template <class Real>
double threshold_for(const nms_params& params, double threshold) {
  return params.float_threshold ? static_cast<double>(rounded(static_cast<Real>(threshold)))
                                : threshold;
}

/// Drops the records of classes that are not wanted, or with scores that are not above their
/// class's threshold. Returns how many are left.
template <class S>
index_t select_by_class(const labels_view& classes, const vector_view<const S>& scores,
                        const nms_params& params, nms_buffers& buffers, index_t count) {
  const wanted_classes wanted(params, buffers.wanted);
  const auto is_high_enough = [&](index_t i) {
    if (params.class_thresholds.empty()) return true;
    const auto score = static_cast<double>(static_cast<compute_type<S>>(scores[i]));
    const double threshold =
        threshold_for<compute_type<S>>(params, params.class_thresholds[classes[i]]);
    return is_nan(score) || is_minus_infinity(threshold) || is_above(score, threshold);
  };
  nms_record* const records = buffers.records.data();
  index_t left = 0;
  for (index_t k = 0; k < count; ++k) {
    const index_t i = index_of(records[k]);
    if (wanted.includes(classes, i) && is_high_enough(i)) records[left++] = records[k];
  }
  return left;
}

/// The groups of the boxes with class_groups in the place of classes.
inline nms_groups by_class_group(const nms_groups& groups, const nms_params& params,
                                 nms_buffers& buffers) {
  const labels_view& classes = groups.classes;
  if (params.class_groups.empty() || classes.size() == 0) return groups;
  index_t* const group = grown(buffers.class_groups, classes.size());
  for (index_t i = 0; i < classes.size(); ++i) {
    const index_t own = classes[i];
    const bool takes_part = own >= 0 && own < params.class_groups.size();
    group[i] = takes_part ? params.class_groups[own] : params.class_groups[0];
  }
  nms_groups result = groups;
  result.classes = vector_view<const index_t>(group, classes.size());
  return result;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
