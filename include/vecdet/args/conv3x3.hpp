// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution: what the functions and their kernels agree on.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Output channels that are adjacent in transformed weights and products: two vectors of AVX-512.
/// The memory layout is the same for all instruction sets.
constexpr index_t conv_panel = 32;

/// Input channels that are transformed together.
constexpr index_t conv_lanes = 16;

constexpr index_t conv_rounded(index_t count, index_t multiple) noexcept {
  return (count + multiple - 1) / multiple * multiple;
}

/// The distance between rows of transformed channels: an odd number of cache lines, so that rows
/// are spread over all sets of a cache.
constexpr index_t conv_row(index_t channels) noexcept {
  return (channels + conv_lanes - 1) / conv_lanes / 2 * 2 * conv_lanes + conv_lanes;
}

/// The distance between points of transformed weights: a few cache lines more than a point has,
/// because otherwise all points would fall into the same set of a cache.
constexpr index_t conv_weights_point(index_t targets, index_t sources) noexcept {
  return conv_rounded(targets, conv_panel) * sources + 5 * conv_lanes;
}

/// The distance between points of transformed tiles.
constexpr index_t conv_point_size(index_t tiles, index_t row) noexcept {
  return tiles * row + conv_lanes;
}

/// The distance between points of the weight gradient's transformed inputs.
constexpr index_t conv_weight_grad_point(index_t tiles, index_t sources) noexcept {
  return conv_point_size(tiles, conv_rounded(sources, conv_lanes));
}

/// The distance between points of the weight gradient's sums: an odd number of cache lines, so that
/// the numbers of all points are spread over all sets of a cache.
constexpr index_t conv_sums_point(index_t panels, index_t sources) noexcept {
  return panels * sources * conv_panel + conv_lanes;
}

/// With stride 2, several products of a tile may be added to the same sum of the gradient of the
/// weights. Such a sum takes this many tiles at a time, and of these one product after the other.
/// Blocks begin at multiples of it, so that the order of a sum does not depend on them.
constexpr index_t conv_strided_unit = 32;

/// The sizes of a minimal filtering.
struct conv3x3_filtering {
  index_t target_tile;    ///< rows and columns of the target from one tile to the next
  index_t source_points;  ///< numbers of a transformed tile of a source channel
  index_t weight_points;  ///< transformed weights of a pair of channels
  index_t target_points;  ///< sums of a tile of a target channel, before they are transformed
  index_t products;       ///< multiplications per tile and pair of channels
  index_t tile_unit;      ///< blocks of the gradient of the weights begin at multiples of it
};

/// A map and its strides in elements. Rows have no gaps.
template <class T>
struct conv3x3_map {
  T* data;  ///< null: no map
  index_t image, location, channel;
};

/// A level and its tiles. Tiles are numbered level by level, image by image and row by row.
template <class T>
struct conv3x3_level {
  index_t height, width;                ///< of source and mask
  index_t target_height, target_width;  ///< of target and upstream
  index_t tile_rows, tile_columns;
  index_t first_tile, last_tile;  ///< of all images
  conv3x3_map<const T> source;    ///< the input, or upstream for the gradient of the input
  conv3x3_map<const T> upstream;  ///< only for the gradient of the weights
  conv3x3_map<const T> mask;      ///< the gradient passes where this is above 0
  conv3x3_map<T> target;
};

/// The sizes of a call that do not depend on the type of its maps.
struct conv3x3_sizes {
  index_t source_channels;  ///< of `source`
  index_t target_channels;  ///< of `target`; of `upstream` for the gradient of the weights
  index_t tile;             ///< outputs in a row of a tile: 4 or 2
};

/// One call. `T` is the type of the maps: float, bfloat16 or double. Weights and bias have the type
/// of the computation.
template <class T>
struct conv3x3_args : conv3x3_sizes {
  const conv3x3_level<T>* levels;
  index_t level_count;
  const compute_type<T>* weights;  ///< the output of transform_weights
  const compute_type<T>* bias;     ///< null: all 0
  bool relu;
};

/// Some tiles of a call, which all threads compute together, step by step.
struct conv3x3_pass {
  index_t first_tile, last_tile;
  float* transformed;     ///< points x tiles x source channels
  float* products;        ///< panels x points x tiles x conv_panel
  index_t row, point;     ///< distances between transformed tiles, and between their points
  index_t product_point;  ///< distance between points of products
  index_t panels, parts;  ///< of the products: panels of target channels, parts of the tiles

  index_t tiles() const noexcept { return last_tile - first_tile; }
};

/// A part of a call: some tiles and some panels of target channels.
struct conv3x3_task {
  index_t first_tile, last_tile;
  index_t first_panel, last_panel;  ///< of conv_panel target channels
  index_t channels_at_once;         ///< source channels in a block, a multiple of conv_lanes
  index_t panels_at_once;
};

/// The caller's weights: w[target * target_step + source * source_step + tap * tap_step]. T is
/// float or double.
template <class T>
struct conv3x3_weights_args {
  const T* weights;
  index_t targets, sources;
  index_t target_step, source_step, tap_step;
  bool turned;  ///< rotated by 180 degrees
  index_t tile;
  bool past_cache;  ///< the transformed weights are too large for the caches: streaming stores
  T* transformed;
};

/// A block of the gradient of the weights: source channels [first_source, last_source) and panels
/// of target channels [first_panel, last_panel).
struct conv3x3_weight_grad_block {
  index_t first_source, last_source, first_panel, last_panel;
  index_t first_tile, last_tile;  ///< the tiles whose products are added next
  float* inputs;      ///< transformed: points x groups of conv_lanes sources x tiles x conv_lanes
  float* gradients;   ///< transformed: points x panels x tiles x conv_panel
  float* sums;        ///< points x panels x sources x conv_panel, sums_point() apart
  double* tile_sums;  ///< sums of the gradients of each tile: tiles x panels x conv_panel
  double* bias_sums;  ///< of all target channels, rounded up to conv_panel; null: not requested

  index_t tiles() const noexcept { return last_tile - first_tile; }
  index_t sources() const noexcept { return last_source - first_source; }
  index_t panels() const noexcept { return last_panel - first_panel; }
  /// 1 or more: without source channels, the bias still has a gradient.
  index_t groups() const noexcept {
    return sources() > conv_lanes ? (sources() + conv_lanes - 1) / conv_lanes : 1;
  }
  index_t input_group() const noexcept { return tiles() * conv_lanes; }
  index_t input_point() const noexcept { return conv_weight_grad_point(tiles(), sources()); }
  index_t sums_point() const noexcept { return conv_sums_point(panels(), sources()); }
};

/// A part of the transformations of a pass or block: some tiles and some groups of conv_lanes
/// channels.
struct conv3x3_transform {
  index_t first_tile, last_tile;
  index_t first_group, last_group;
};

/// The output of the gradient of the weights. T is float or double.
template <class T>
struct conv3x3_weight_grad {
  T* data;
  index_t target_step, source_step, tap_step;
  T* bias;  ///< null: not requested
};

/// The scratch memory of a band (kernels/conv3x3/tiles.hpp), in numbers.
constexpr index_t conv_band_size = 9 * 65 * conv_lanes;

constexpr index_t conv_scratch_size(index_t source_points, index_t target_points, index_t tiles,
                                    index_t channels_at_once, index_t panels_at_once) noexcept {
  return source_points * conv_point_size(tiles, conv_row(channels_at_once)) +
         target_points * panels_at_once * conv_point_size(tiles, conv_panel) + conv_band_size;
}

/// Kernels in float, by minimal filtering, for maps of float or bfloat16. They convert bfloat16
/// when they copy locations from maps and back.
template <class T>
struct conv3x3_kernels {
  /// Transforms the weights of [first, last), where item i is source i % sources of panel
  /// i / sources of the targets.
  void (*transform_weights)(const conv3x3_weights_args<float>&, index_t first, index_t last);
  /// Computes the outputs of a task. `scratch` has conv_scratch_size() numbers and is aligned to
  /// cache lines.
  void (*run)(const conv3x3_args<T>&, const conv3x3_task&, float* scratch);

  // The outputs of a pass in three steps. Each needs all of the step before.

  /// Transforms groups of source channels. `scratch` has conv_band_size numbers.
  void (*transform_tiles)(const conv3x3_args<T>&, const conv3x3_pass&, const conv3x3_transform&,
                          float* scratch);
  /// Computes the products of [first, last), where item i is part i % parts of the tiles, for panel
  /// i / parts % panels of point i / parts / panels.
  void (*multiply_tiles)(const conv3x3_args<T>&, const conv3x3_pass&, index_t first, index_t last);
  /// Transforms the products to groups of target channels. `scratch` has conv_band_size numbers.
  void (*finish_tiles)(const conv3x3_args<T>&, const conv3x3_pass&, const conv3x3_transform&,
                       float* scratch);

  // The gradient of the weights, block by block: transform some tiles and add their products,
  // repeat for all tiles, then transform the sums.

  /// Transforms groups of source channels. `scratch` has conv_band_size numbers.
  void (*transform_inputs)(const conv3x3_args<T>&, const conv3x3_weight_grad_block&,
                           const conv3x3_transform&, float* scratch);
  /// Transforms groups of target channels, and adds up each of their tiles for the bias.
  void (*transform_gradients)(const conv3x3_args<T>&, const conv3x3_weight_grad_block&,
                              const conv3x3_transform&, float* scratch);
  /// Adds products to the sums. An item is half a group of source channels of one panel of one
  /// point of the weights. Items are numbered in this order: point, panel, half group. Each takes
  /// as many numbers as products of a tile are added to its sums, and [first, last) has the items
  /// whose first number it has. The first item of a panel in the first point also adds the sums of
  /// the tiles to those of the bias.
  void (*add_products)(const conv3x3_sizes&, const conv3x3_weight_grad_block&, index_t first,
                       index_t last);
  /// Transforms the sums of [first, last), where item i is source i % sources of panel i / sources.
  void (*finish_weight_grad)(const conv3x3_sizes&, const conv3x3_weight_grad_block&,
                             const conv3x3_weight_grad<float>&, index_t first, index_t last);
};

/// Kernels in double, by direct convolution.
template <>
struct conv3x3_kernels<double> {
  /// Copies the weights of [first, last), items as above, to targets x sources x taps.
  void (*transform_weights)(const conv3x3_weights_args<double>&, index_t first, index_t last);
  void (*run)(const conv3x3_args<double>&, const conv3x3_task&, double* scratch);
  /// Computes the gradients of the weights of target channels [first, last).
  void (*weight_grad)(const conv3x3_args<double>&, const conv3x3_weight_grad<double>&,
                      index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
