// SPDX-License-Identifier: Apache-2.0
// The focal loss: what the functions and their kernels agree on.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Elements per block. The last elements are padded to a whole block.
constexpr int focal_block = 128;

/// The output of a call besides the sum of the losses.
enum class focal_output { sum, loss, grad, upstream_times_grad };

/// The loss of a row's labelled class. All other elements of the row are negatives.
enum class labelled_loss { focal, quality, varifocal };

/// One call over rows x cols logits of the stored type T. Strides are in elements.
template <class T>
struct focal_loss_args {
  const T* logits;
  index_t cols, logits_stride;
  labels_view labels;  ///< classes; empty with dense targets
  const T* targets;    ///< dense targets in [0, 1]; null with labels
  index_t targets_stride;
  index_t first_label;  ///< index of the label of row 0, or of location 0
  const float* scores;  ///< the targets of the labelled classes, or null: all 1
  labelled_loss labelled;
  index_t background, ignore;
  const float* row_weights;  ///< one per row, or null: all 1
  double positive_weight;    ///< alpha times all other factors of loss and gradient
  double negative_weight;    ///< (1 - alpha) times all other factors of loss and gradient
  double gamma;
  double focusing;  ///< 1, or 0 if the gradient treats negatives' modulating factor as constant
  focal_output output;
  T* out;  ///< loss or gradient, depending on `output`; the gradient may be the logits
  index_t out_stride;
  const T* upstream;
  index_t upstream_stride;
};

/// The greatest number of anchors in one call of compute_planes.
constexpr index_t most_focal_anchors = 64;

/// Locations whose classes are in consecutive planes, one set of planes per anchor. Element p of
/// class c of anchor k is logits[k * logits_stride * plane + c * plane + p]; the output has its own
/// stride. The element's label is labels[first_label + p * anchors + k].
struct focal_planes {
  index_t plane;                       ///< size of a plane
  index_t size;                        ///< number of locations
  index_t anchors;                     ///< at each location
  index_t first_anchor, anchor_count;  ///< those to compute
  index_t first_class, class_count;    ///< those to compute
};

template <class T>
struct focal_loss_kernels {
  /// Returns the index of the first label in [first, last) that is not a class, background or
  /// ignore, or labels.size().
  index_t (*find_invalid_label)(const labels_view& labels, index_t first, index_t last,
                                index_t classes, index_t background, index_t ignore);
  /// Computes rows [first, last) and returns the sum of their weighted losses.
  double (*compute_rows)(const focal_loss_args<T>&, index_t first, index_t last);
  /// Computes planes and returns the sum of their weighted losses.
  double (*compute_planes)(const focal_loss_args<T>&, const focal_planes&);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
