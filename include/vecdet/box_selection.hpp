// SPDX-License-Identifier: Apache-2.0
// Which boxes a loss counts. Detectors regress foreground anchors only, about one in a thousand:
// the others get loss and gradient 0, and what they hold is never read.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <string>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// All boxes, those whose label is neither `background` nor `ignore`, or those of a list of
/// indices. Labels may be classes, or matches as a matcher gives them. Converts from whatever
/// labels_view converts from.
class box_selection {
 public:
  static box_selection all() noexcept { return {}; }

  template <class Labels,
            std::enable_if_t<std::is_convertible<Labels&&, labels_view>::value, int> = 0>
  box_selection(Labels&& labels, index_t background = -1, index_t ignore = -2)
      : choice_(choice::labelled), labels_(labels), background_(background), ignore_(ignore) {}

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  box_selection& operator=(Owner&& ends_with_the_statement) = delete;

  /// The boxes with these indices, in any order, none twice: such a box's loss would count twice.
  static box_selection list(vector_view<const index_t> indices) noexcept {
    box_selection selection;
    selection.choice_ = choice::listed;
    selection.list_ = indices;
    return selection;
  }

  bool is_all() const noexcept { return choice_ == choice::all; }
  bool is_list() const noexcept { return choice_ == choice::listed; }
  const vector_view<const index_t>& indices() const noexcept { return list_; }
  const labels_view& labels() const noexcept { return labels_; }
  index_t background() const noexcept { return background_; }
  index_t ignore() const noexcept { return ignore_; }

  /// "all", "labels" or "list", in problem names.
  const char* name() const noexcept { return is_all() ? "all" : is_list() ? "list" : "labels"; }

  /// How many of `boxes` boxes are selected; 0, unknown, where labels select.
  index_t known_size(index_t boxes) const noexcept {
    return is_all() ? boxes : is_list() ? list_.size() : 0;
  }

  /// Throws, in the name of `function`, unless this can select from `boxes` boxes.
  void check(const char* function, index_t boxes) const {
    if (choice_ == choice::labelled) {
      detail::check(labels_.size() == boxes, function, "labels.size()", labels_.size(),
                    "the number of boxes");
    }
    for (index_t k = 0; k < list_.size(); ++k) {
      detail::check_element(list_[k] >= 0 && list_[k] < boxes, function, "indices", k, list_[k],
                            "0 to the number of boxes - 1");
    }
  }

 private:
  enum class choice { all, labelled, listed };

  box_selection() noexcept = default;

  choice choice_ = choice::all;
  labels_view labels_;
  index_t background_ = -1, ignore_ = -2;
  vector_view<const index_t> list_;
};

}  // namespace VECDET_ABI
}  // namespace vecdet
