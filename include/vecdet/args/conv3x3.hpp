// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution: what the functions and their kernels agree on.
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Output channels that lie side by side in transformed weights and products: two vectors of
/// AVX-512, and more of the others, so that memory is the same for all.
constexpr index_t conv_panel = 32;

/// Input channels that are transformed together.
constexpr index_t conv_lanes = 16;

constexpr index_t conv_rounded(index_t count, index_t multiple) noexcept {
  return (count + multiple - 1) / multiple * multiple;
}

/// From one row of transformed channels to the next: an odd number of cache lines, so that rows do
/// not meet in few sets of a cache.
constexpr index_t conv_row(index_t channels) noexcept {
  return (channels + conv_lanes - 1) / conv_lanes / 2 * 2 * conv_lanes + conv_lanes;
}

/// From one point of transformed weights to the next: a few lines more than it holds, as points
/// would meet in one set of a cache otherwise.
constexpr index_t conv_weights_point(index_t targets, index_t sources) noexcept {
  return conv_rounded(targets, conv_panel) * sources + 5 * conv_lanes;
}

/// From one point of transformed tiles to the next.
constexpr index_t conv_point_size(index_t tiles, index_t row) noexcept {
  return tiles * row + conv_lanes;
}

/// Where the numbers of a map lie, in elements from each other. Rows have no gaps.
template <class T>
struct conv3x3_map {
  T* data;  ///< null: there is no such map
  index_t image, location, channel;
};

/// A level with its tiles, which are numbered level by level, image by image and row by row.
template <class T>
struct conv3x3_level {
  index_t height, width;
  index_t tile_rows, tile_columns;
  index_t first_tile, last_tile;  ///< of all images
  conv3x3_map<const T> source;    ///< what is convolved: the input or, for its gradient, upstream
  conv3x3_map<const T> upstream;  ///< for the gradient of the weights alone
  conv3x3_map<const T> mask;      ///< the gradient passes where this is above 0
  conv3x3_map<T> target;
};

/// One call. `T` is float or double.
template <class T>
struct conv3x3_args {
  const conv3x3_level<T>* levels;
  index_t level_count;
  index_t source_channels;  ///< of `source`
  index_t target_channels;  ///< of `target`; of `upstream` for the gradient of the weights
  index_t tile;             ///< outputs in a row of a tile: 4 or 2
  const T* weights;         ///< as transform_weights leaves them
  const T* bias;            ///< null: all 0
  bool relu;
};

/// What is computed at a time.
struct conv3x3_task {
  index_t first_tile, last_tile;
  index_t first_panel, last_panel;  ///< of conv_panel target channels
  index_t channels_at_once;         ///< source channels in a block, a multiple of conv_lanes
  index_t panels_at_once;
};

/// Weights as the caller has them: w[target * target_step + source * source_step + tap * tap_step].
template <class T>
struct conv3x3_weights_args {
  const T* weights;
  index_t targets, sources;
  index_t target_step, source_step, tap_step;
  bool turned;  ///< by 180 degrees
  index_t tile;
  T* transformed;
};

/// A block of the gradient of the weights: source channels [first_source, last_source) and panels
/// of target channels [first_panel, last_panel).
struct conv3x3_weight_grad_block {
  index_t first_source, last_source, first_panel, last_panel;
  index_t first_tile, last_tile;  ///< whose products are added now
  float* inputs;                  ///< transformed: points x tiles x conv_row(sources)
  float* gradients;               ///< transformed: points x panels x tiles x conv_panel
  float* sums;                    ///< points x panels x sources x conv_panel
  double* bias_sums;  ///< of all target channels, rounded up to conv_panel; null: not wanted

  index_t tiles() const noexcept { return last_tile - first_tile; }
  index_t sources() const noexcept { return last_source - first_source; }
  index_t panels() const noexcept { return last_panel - first_panel; }
  index_t input_point() const noexcept { return conv_point_size(tiles(), conv_row(sources())); }
};

/// Where the gradient of the weights goes.
template <class T>
struct conv3x3_weight_grad {
  T* data;
  index_t target_step, source_step, tap_step;
  T* bias;  ///< null: not wanted
};

/// Numbers of scratch memory for bands: rows of channels of a run of tiles.
constexpr index_t conv_band_size = 6 * 66 * conv_lanes;

constexpr index_t conv_scratch_size(index_t points, index_t tiles, index_t channels_at_once,
                                    index_t panels_at_once) noexcept {
  return points * (conv_point_size(tiles, conv_row(channels_at_once)) +
                   panels_at_once * conv_point_size(tiles, conv_panel)) +
         conv_band_size;
}

/// By minimal filtering.
template <class T>
struct conv3x3_kernels {
  /// Transforms the weights of panels [first, last) of the targets.
  void (*transform_weights)(const conv3x3_weights_args<T>&, index_t first, index_t last);
  /// `scratch` is aligned to cache lines and of conv_scratch_size() numbers.
  void (*run)(const conv3x3_args<T>&, const conv3x3_task&, T* scratch);

  // The gradient of the weights: block by block, the tiles are transformed and their products
  // added, and after the last tiles the sums are transformed.

  /// Groups [first, last) of conv_lanes source channels; `scratch` is of conv_band_size numbers.
  void (*transform_inputs)(const conv3x3_args<T>&, const conv3x3_weight_grad_block&, index_t first,
                           index_t last, T* scratch);
  /// Groups [first, last) of conv_lanes target channels.
  void (*transform_gradients)(const conv3x3_args<T>&, const conv3x3_weight_grad_block&,
                              index_t first, index_t last, T* scratch);
  /// Of point x panel [first, last).
  void (*add_products)(const conv3x3_args<T>&, const conv3x3_weight_grad_block&, index_t first,
                       index_t last);
  /// Of panels [first, last).
  void (*finish_weight_grad)(const conv3x3_args<T>&, const conv3x3_weight_grad_block&,
                             const conv3x3_weight_grad<T>&, index_t first, index_t last);
};

/// Directly.
template <>
struct conv3x3_kernels<double> {
  /// Copies the weights: targets x sources x taps.
  void (*transform_weights)(const conv3x3_weights_args<double>&, index_t first, index_t last);
  void (*run)(const conv3x3_args<double>&, const conv3x3_task&, double* scratch);
  /// Of target channels [first, last).
  void (*weight_grad)(const conv3x3_args<double>&, const conv3x3_weight_grad<double>&,
                      index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
