// SPDX-License-Identifier: Apache-2.0
// The search for labels other than background; in a detector, nearly all labels are background.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/labels.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

template <class Bits>
VECDET_INLINE index_t find_other(const detail::label_bits<Bits>& labels, index_t first,
                                 index_t last, Bits background) {
  if (first < last && labels[first] != background) return first;
  // Blocks without an early exit, which compilers vectorise.
  constexpr index_t block = 64;
  for (; last - first >= block; first += block) {
    Bits any = 0;
    for (index_t i = first; i < first + block; ++i) any |= labels[i] ^ background;
    if (any != 0) break;
  }
  while (first < last && labels[first] == background) ++first;
  return first;
}

/// The first row in [first, last) whose label is not `background`; last if there is none.
inline index_t find_labelled(const labels_view& labels, index_t first, index_t last,
                             index_t background) {
  if (!labels.can_be(background)) return first;
  return detail::with_bits(labels, [&](auto bits) VECDET_INLINE_LAMBDA {
    return find_other(bits, first, last, static_cast<decltype(bits[0])>(background));
  });
}

/// The first label in [first, last) that is neither a class in [0, classes) nor one of the two
/// values; labels.size() if there is none.
inline index_t find_invalid_label(const labels_view& labels, index_t first, index_t last,
                                  index_t classes, index_t background, index_t ignore) {
  for (index_t i = find_labelled(labels, first, last, background); i < last;
       i = find_labelled(labels, i, last, background)) {
    // Labels other than background often come in runs.
    for (const index_t end = last - i < 64 ? last : i + 64; i < end; ++i) {
      const index_t label = labels[i];
      if ((label < 0 || label >= classes) && label != background && label != ignore) return i;
      if (labels.is_too_large(i)) return i;
    }
  }
  return labels.size();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
