// SPDX-License-Identifier: Apache-2.0
// The focal loss: what the functions and their kernels agree on.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Elements of a block: what is left over at the end is padded to one.
constexpr int focal_block = 128;

/// What a call computes besides the sum of the loss.
enum class focal_output { sum, loss, grad, upstream_times_grad };

/// The loss of the element of a row's labelled class. All other elements are negatives.
enum class labelled_loss { focal, quality, varifocal };

/// One call over rows x cols logits, T being the stored type. Strides are in elements.
template <class T>
struct focal_loss_args {
  const T* logits;
  index_t cols, logits_stride;
  labels_view labels;  ///< classes; none with dense targets
  const T* targets;    ///< dense targets in [0, 1]; null with labels
  index_t targets_stride;
  index_t first_label;  ///< of row 0, or of location 0
  const float* scores;  ///< the targets of the labelled classes, or null: all 1
  labelled_loss labelled;
  index_t background, ignore;
  const float* row_weights;  ///< one a row, or null: all 1
  double positive_weight;    ///< alpha, and all other factors of loss and gradient
  double negative_weight;    ///< 1 - alpha, likewise
  double gamma;
  double focusing;  ///< 1, or 0 where negatives' modulating factor is a constant in the gradient
  focal_output output;
  T* out;  ///< loss or gradient by `output`; the gradient may be the logits themselves
  index_t out_stride;
  const T* upstream;
  index_t upstream_stride;
};

/// Locations of one anchor whose classes lie in planes, one behind the other: element p of class c
/// lies at logits[c * plane + p], and the anchor's label is labels[first_label + p * label_step].
struct focal_planes {
  index_t classes, plane;
  index_t size;  ///< locations
  index_t label_step;
};

template <class T>
struct focal_loss_kernels {
  /// The first label that is no class, background or ignore value; labels.size() if there is none.
  index_t (*find_invalid_label)(const labels_view& labels, index_t classes, index_t background,
                                index_t ignore);
  /// Computes rows [first, last) and returns their sum of the weighted loss.
  double (*compute_rows)(const focal_loss_args<T>&, index_t first, index_t last);
  /// Computes the planes and returns their sum.
  double (*compute_planes)(const focal_loss_args<T>&, const focal_planes&);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
