// SPDX-License-Identifier: Apache-2.0
// Focal loss of an NCHW head: one plane of memory per class of an anchor.
#pragma once

#include <vecdet/kernels/focal_loss/rows.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// A location whose label is not background.
struct focal_hit {
  index_t location, label;
};

/// The hits of several anchors in ascending order: those of anchor k are [starts[k], starts[k +
/// 1]).
struct focal_hits {
  static constexpr int most = 1024;
  focal_hit hits[most];
  int starts[detail::most_focal_anchors + 1];
};

/// Finds one anchor's hits at locations [first, size) until they are too many, and returns the end
/// of the locations whose hits were found.
template <class T>
index_t find_hits_of_anchor(const focal_loss_args<T>& a, const detail::focal_planes& planes,
                            index_t first, focal_hits& found) {
  int count = 0;
  index_t end = first;
  for (; end < planes.size && count < focal_hits::most; ++end) {
    const index_t label = a.labels[a.first_label + end * planes.anchors + planes.first_anchor];
    if (label != a.background) found.hits[count++] = {end, label};
  }
  found.starts[0] = 0;
  found.starts[1] = count;
  return end;
}

/// Finds the hits of several anchors at all locations, in one pass over the labels of all anchors.
/// Returns false if it finds so many labels other than background that separate passes are faster.
template <class T>
bool find_hits_of_anchors(const focal_loss_args<T>& a, const detail::focal_planes& planes,
                          focal_hits& found) {
  index_t labels[focal_hits::most];  // their indices, by location and then by anchor
  int count = 0, met = 0;
  const index_t end = a.first_label + planes.size * planes.anchors;
  const auto location_of = [&](index_t i) { return (i - a.first_label) / planes.anchors; };
  const auto anchor_of = [&](index_t i) {
    return (i - a.first_label) % planes.anchors - planes.first_anchor;
  };
  for (index_t i = a.first_label;; ++i) {
    i = find_labelled(a.labels, i, end, a.background);
    if (i == end) break;
    if (met++ == focal_hits::most) return false;
    if (anchor_of(i) >= 0 && anchor_of(i) < planes.anchor_count) labels[count++] = i;
  }
  // A counting sort by anchor.
  int* const starts = found.starts;
  for (index_t k = 0; k <= planes.anchor_count; ++k) starts[k] = 0;
  for (int k = 0; k < count; ++k) ++starts[anchor_of(labels[k])];
  int next[detail::most_focal_anchors + 1];
  int before = 0;
  for (index_t k = 0; k <= planes.anchor_count; ++k) {
    const int hits = starts[k];
    starts[k] = next[k] = before;
    before += hits;
  }
  for (int k = 0; k < count; ++k)
    found.hits[next[anchor_of(labels[k])]++] = {location_of(labels[k]), a.labels[labels[k]]};
  return true;
}

/// Computes locations [first, last), anchor by anchor and class by class. Neighbouring whole planes
/// form one run, also of several anchors unless other channels lie between them.
template <class T>
double focal_planes_with_hits(const focal_loss_args<T>& a, const detail::focal_planes& planes,
                              index_t first, index_t last, const focal_hits& found) {
  const weight_range range = range_of(a, 1);
  const bool flat = last - first == planes.plane;
  const bool gapless =
      flat && planes.class_count == a.logits_stride && planes.class_count == a.out_stride;
  double sum = 0;
  focal_marks marks;
  focal_span<T> span{};
  index_t begin = 0;  // start of the run
  const auto compute_to = [&](index_t end) {
    if (end > begin) focal_labelled_run(a, range, 1.0, span.at(begin), end - begin, marks, sum);
    marks.hole_count = marks.positive_count = 0;
    begin = end;
  };
  index_t plane = 0;  // start of the class's plane in the span
  for (index_t k = 0; k < planes.anchor_count; ++k) {
    const index_t anchor = planes.first_anchor + k;
    if (k == 0 || !gapless) {
      span = {a.logits + (anchor * a.logits_stride + planes.first_class) * planes.plane, nullptr,
              nullptr, a.out + (anchor * a.out_stride + planes.first_class) * planes.plane};
      begin = plane = 0;
    }
    for (index_t c = 0; c < planes.class_count; ++c, plane += planes.plane) {
      if (!flat) begin = plane + first;
      for (int h = found.starts[k]; h < found.starts[k + 1]; ++h) {
        const focal_hit& hit = found.hits[h];
        const bool is_ignored = hit.label == a.ignore;
        if (!is_ignored && hit.label != planes.first_class + c) continue;
        const index_t at = plane + hit.location;
        if (is_ignored) {
          marks.add_ignored(at - begin, at + 1 - begin);
        } else {
          marks.add_positive(at - begin, a.first_label + hit.location * planes.anchors + anchor);
        }
        if (marks.full()) compute_to(at + 1);
      }
      if (!flat) compute_to(plane + last);
    }
    if (flat && (!gapless || k + 1 == planes.anchor_count)) compute_to(plane);
  }
  return sum;
}

/// Computes all locations: in one go if the hits are few, otherwise anchor by anchor, divided at
/// locations if an anchor's hits do not fit their list.
template <class T>
double focal_planes_of_labels(const focal_loss_args<T>& a, const detail::focal_planes& planes) {
  focal_hits found;
  if (planes.anchor_count > 1 && find_hits_of_anchors(a, planes, found))
    return focal_planes_with_hits(a, planes, 0, planes.size, found);
  double sum = 0;
  detail::focal_planes anchor = planes;
  anchor.anchor_count = 1;
  for (index_t k = 0; k < planes.anchor_count; ++k, ++anchor.first_anchor) {
    for (index_t first = 0, last; first < planes.size; first = last) {
      last = find_hits_of_anchor(a, anchor, first, found);
      sum += focal_planes_with_hits(a, anchor, first, last, found);
    }
  }
  return sum;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
