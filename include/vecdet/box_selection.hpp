// SPDX-License-Identifier: Apache-2.0
// Selects the boxes that count in a loss. Detectors regress only foreground anchors, about one in a
// thousand. Boxes that are not selected get loss and gradient 0 and are never read.
#pragma once

#include <vecdet/detail/contiguous.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// Selects all boxes, the boxes whose label is neither `background` nor `ignore`, or the boxes in a
/// list of indices. Labels may be classes, or matches as returned by a matcher. Everything that
/// converts to labels_view converts to box_selection.
class box_selection {
 public:
  static box_selection all() noexcept { return {}; }

  template <class Labels, detail::require_convertible<Labels, labels_view> = 0,
            detail::require_lasting<Labels> = 0>
  box_selection(Labels&& labels, index_t background = -1, index_t ignore = -2)
      : choice_(choice::labelled), labels_(labels), background_(background), ignore_(ignore) {}
  template <class Labels, detail::require_convertible<Labels, labels_view> = 0,
            detail::require_temporary_owner<Labels> = 0>
  box_selection(Labels&& labels VECDET_LIFETIMEBOUND, index_t background = -1, index_t ignore = -2)
      : choice_(choice::labelled), labels_(labels), background_(background), ignore_(ignore) {}
  template <class Container, detail::require_no_labels<Container> = 0>
  box_selection(Container&& needs_integers_of_32_or_64_bits) = delete;

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  box_selection& operator=(Owner&& ends_with_the_statement) = delete;

  /// Selects the boxes with these indices, in any order. Do not repeat an index: the box's loss
  /// would count twice.
  static box_selection list(vector_view<const index_t> indices) noexcept {
    box_selection selection;
    selection.choice_ = choice::listed;
    selection.list_ = indices;
    return selection;
  }
  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  static box_selection list(Owner&& indices VECDET_LIFETIMEBOUND) {
    return list(vector_view<const index_t>(indices.data(), indices.size()));
  }

  bool is_all() const noexcept { return choice_ == choice::all; }
  bool is_list() const noexcept { return choice_ == choice::listed; }
  const vector_view<const index_t>& indices() const noexcept { return list_; }
  const labels_view& labels() const noexcept { return labels_; }
  index_t background() const noexcept { return background_; }
  index_t ignore() const noexcept { return ignore_; }

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
