// SPDX-License-Identifier: Apache-2.0
// Batch normalisation: what the functions and their kernels agree on.
#pragma once

#include <vecdet/batch_norm_params.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Maps in pieces, whose borders depend only on the sizes. In NHWC, a piece is some locations of
/// the batch with all their channels; in NCHW, a part of a plane. Each piece has sums of its own.
struct batch_norm_pieces {
  index_t images, channels, locations;  ///< locations of one image
  bool is_nhwc;
  index_t size;   ///< locations of a piece; the last of a plane, or of all, may have fewer
  index_t count;  ///< of all pieces; in NCHW, those of a plane follow each other

  index_t all_locations() const { return images * locations; }
  index_t pieces_of_plane() const { return (locations + size - 1) / size; }
  /// Channels, rounded up to whole rows of lanes: arrays with a number per channel have this size.
  index_t padded_channels() const { return (channels + 15) / 16 * 16; }
  /// The sums of a piece: two numbers for each channel that it has.
  index_t sums_of_piece() const { return is_nhwc ? 2 * padded_channels() : 2; }
};

/// A call. With the coefficients of a channel, numbers of the computing type:
///   z = (x - center) scale + shift,  output = activation(z)
///   grad = scale g + (x - center) inverse slope + offset,  g = upstream activation'(z)
template <class T>
struct batch_norm_args {
  using real = compute_type<T>;
  enum : index_t { center, scale, shift, inverse, slope, offset, coefficient_count };

  batch_norm_pieces pieces;
  batch_norm_activation activation;
  double epsilon;
  const T* input;
  const T* upstream;          ///< the input if no gradient is wanted
  T* output;                  ///< the gradient with respect to the input, if one is wanted
  const real *weight, *bias;  ///< null: all 1, all 0
  double* sums;               ///< of each piece
  real* coefficients;         ///< coefficient_count arrays with a number per channel

  real* coefficient(index_t which) const { return coefficients + which * pieces.padded_channels(); }
};

template <class T>
struct batch_norm_kernels {
  using args = batch_norm_args<T>;
  /// Pieces [first, last): their sums of x - k and (x - k)^2, where k is the channel's first input.
  void (*sum_deviations)(const args&, index_t first, index_t last);
  /// The means and variances of channels [first, last), from the sums. `first` is a multiple of 16.
  void (*finish_statistics)(const args&, double* statistics, index_t first, index_t last);
  /// The coefficients of the outputs of channels [first, last).
  void (*prepare)(const args&, const double* statistics, index_t first, index_t last);
  /// The outputs of pieces [first, last).
  void (*normalize)(const args&, index_t first, index_t last);
  /// Pieces [first, last): their sums of g and g (x - center).
  void (*sum_gradients)(const args&, index_t first, index_t last);
  /// The gradients of the parameters, unless null, and the other coefficients of channels
  /// [first, last).
  void (*finish_gradients)(const args&, const double* statistics, compute_type<T>* weight_grad,
                           compute_type<T>* bias_grad, index_t first, index_t last);
  /// The gradient of pieces [first, last).
  void (*grad)(const args&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
