// SPDX-License-Identifier: Apache-2.0
// The lists per class of postprocess_yolo(), for models that tell their number of classes and for
// those that give one score and its class.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/class_options.hpp>
#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/views.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

class yolo_class_lists {
 public:
  explicit yolo_class_lists(const postprocess_yolo_params& params) : params_(params) {}

  /// Throws unless the lists fit a model with `classes` classes; -1: not known.
  void check(const char* function, index_t classes) const {
    const index_t groups = params_.class_groups.size();
    detail::check(groups == 0 || params_.suppress, function, "params.class_groups.size()", groups,
                  "0 if params.suppress is false");
    detail::check(groups == 0 || !params_.class_agnostic, function, "params.class_groups.size()",
                  groups, "0 if params.class_agnostic is true");
    const index_t count = classes >= 0 ? classes : size();
    if (count != no_limit)
      check_optional_size(function, "params.class_groups.size()", groups, count,
                          "the number of classes");
    check_class_limits(function, params_, 0, count == no_limit ? no_limit : count - 1, count);
  }

  /// The number of classes that have an element in the lists; no_limit if there are no such lists.
  index_t size() const {
    const index_t thresholds = params_.class_thresholds.size();
    const index_t groups = params_.class_groups.size();
    return std::min(thresholds == 0 ? no_limit : thresholds, groups == 0 ? no_limit : groups);
  }
  bool knows(index_t label) const { return size() == no_limit || (label >= 0 && label < size()); }
  bool wants(index_t label) const {
    const auto& wanted = params_.classes;
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), label) != wanted.end();
  }
  /// Whether the score of a known class is above its own threshold, if it has one.
  bool passes(float score, index_t label) const {
    return params_.class_thresholds.empty() ||
           is_above(score, static_cast<float>(params_.class_thresholds[label]));
  }

 private:
  const postprocess_yolo_params& params_;
};

/// The class that a number stands for; -1 if it is none.
inline index_t class_of_number(float number) {
  const bool is_class = is_within(static_cast<double>(number), 0, 1 << 24);
  return is_class ? static_cast<index_t>(number) : -1;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
