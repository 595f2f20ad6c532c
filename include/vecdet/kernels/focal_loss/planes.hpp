// SPDX-License-Identifier: Apache-2.0
// Focal loss of an NCHW head: the locations of one anchor, with one plane of memory per class.
#pragma once

#include <vecdet/kernels/focal_loss/rows.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// A location whose label is not background.
struct focal_hit {
  index_t location, label;
};

/// Computes locations [first, last) of one anchor, class by class. `hits` are those whose label is
/// not background. Neighbouring whole planes form one run.
template <class T>
double focal_planes_with_hits(const focal_loss_args<T>& a, const detail::focal_planes& planes,
                              index_t first, index_t last, const focal_hit* hits, int hit_count) {
  const weight_range range = range_of(a, 1);
  const focal_span<T> span{a.logits, nullptr, nullptr, a.out};
  const bool flat = last - first == planes.plane;
  double sum = 0;
  focal_marks marks;
  index_t begin = 0;  // start of the run
  const auto compute_to = [&](index_t end) {
    if (end > begin) focal_labelled_run(a, range, 1.0, span.at(begin), end - begin, marks, sum);
    marks.hole_count = marks.positive_count = 0;
    begin = end;
  };
  for (index_t c = 0; c < planes.classes; ++c) {
    const index_t plane = c * planes.plane;
    if (!flat) begin = plane + first;
    for (int k = 0; k < hit_count; ++k) {
      const bool is_ignored = hits[k].label == a.ignore;
      if (!is_ignored && hits[k].label != c) continue;
      const index_t at = plane + hits[k].location;
      if (is_ignored) {
        marks.add_ignored(at - begin, at + 1 - begin);
      } else {
        marks.add_positive(at - begin, a.first_label + hits[k].location * planes.label_step);
      }
      if (marks.full()) compute_to(at + 1);
    }
    if (!flat) compute_to(plane + last);
  }
  if (flat) compute_to(planes.classes * planes.plane);
  return sum;
}

/// Computes all locations of one anchor: in one go, unless more locations have a label other than
/// background than fit the list of hits.
template <class T>
double focal_planes_of_labels(const focal_loss_args<T>& a, const detail::focal_planes& planes) {
  constexpr int most = 1024;
  focal_hit hits[most];
  double sum = 0;
  for (index_t first = 0; first < planes.size;) {
    int count = 0;
    index_t last = first;
    for (; last < planes.size && count < most; ++last) {
      const index_t label = a.labels[a.first_label + last * planes.label_step];
      if (label != a.background) hits[count++] = {last, label};
    }
    sum += focal_planes_with_hits(a, planes, first, last, hits, count);
    first = last;
  }
  return sum;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
