// SPDX-License-Identifier: Apache-2.0
// Grouped 3x3 convolution: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Target channels that are computed together, and source channels that are adjacent in scratch
/// memory.
constexpr index_t grouped_lanes = 16;

constexpr index_t grouped_blocks(index_t channels) noexcept {
  return (channels + grouped_lanes - 1) / grouped_lanes;
}

/// Which sources a target reads, along one axis: target o reads source x with tap j of the weights.
enum class grouped_steps {
  one,      ///< j = x - o + 1: stride 1
  two,      ///< j = x - 2 o + 1: stride 2
  two_back  ///< j = o - 2 x + 1: the gradient of the input with stride 2
};

/// A map and its strides in elements. Rows have no gaps.
template <class T>
struct grouped_map {
  T* data;
  index_t height, width;
  index_t image, location, channel;
};

/// How targets are divided into tiles, which are numbered image by image and row by row.
struct grouped_tiles {
  index_t rows, columns;  ///< of a tile; even if steps are two_back
  index_t in_column, in_row;

  index_t in_image() const noexcept { return in_column * in_row; }
};

struct grouped_conv3x3_args {
  index_t targets;                       ///< channels of the target
  index_t group_sources, group_targets;  ///< channels of a group
  grouped_steps steps;
  grouped_tiles tiles;
  grouped_map<const float> source;
  grouped_map<float> target;
  const float* weights;  ///< arranged
  const float* bias;     ///< null: all 0

  index_t blocks() const noexcept { return grouped_blocks(targets); }
  /// The number of chunks of 16 source channels that a target channel reads; 1 even without
  /// sources, because the bias has a gradient then, too.
  index_t chunks() const noexcept { return group_sources == 0 ? 1 : grouped_blocks(group_sources); }
  /// The number of source channels in a chunk, rounded up.
  index_t chunk_sources() const noexcept {
    return group_sources >= grouped_lanes ? grouped_lanes : (group_sources + 3) / 4 * 4;
  }
  /// Whether the 16 targets of a block belong to several groups. These have as many source channels
  /// as target channels, so a block reads the sources of the same numbers.
  bool shares_blocks() const noexcept {
    return group_targets < targets && group_targets < grouped_lanes;
  }
  /// The first source channel of a block.
  index_t first_source(index_t block) const noexcept {
    return shares_blocks() ? block * grouped_lanes
                           : block * grouped_lanes / group_targets * group_sources;
  }
  /// The number of source channels of a block.
  index_t block_sources(index_t block) const noexcept {
    if (!shares_blocks()) return group_sources;
    const index_t left = targets - block * grouped_lanes;
    return left < grouped_lanes ? left : grouped_lanes;
  }
  /// The size of a block's weights: taps x group_sources x grouped_lanes.
  index_t block_weights() const noexcept { return 9 * group_sources * grouped_lanes; }
};

/// The caller's weights: w[group * group_step + target * target_step + source * source_step + tap *
/// tap_step], where `target` and `source` count the channels of the group.
struct grouped_weights_args {
  const float* weights;
  index_t group_step, target_step, source_step, tap_step;
  bool turned;      ///< rotated by 180 degrees
  float* arranged;  ///< blocks x rows of taps x group_sources x taps of a row x grouped_lanes
};

/// The gradient of the weights. Target and bias are unused in the args; `upstream` has the sizes
/// of the target.
struct grouped_weight_grad {
  grouped_map<const float> upstream;
  index_t images;
  index_t parts;      ///< of all tiles; their sums are added in order
  double* sums;       ///< parts x blocks x chunks x sources of a chunk x 9 x grouped_lanes
  double* bias_sums;  ///< parts x blocks x grouped_lanes; null: not requested
  float* data;
  index_t target_step, source_step, tap_step;
  float* bias;  ///< null: not requested

  index_t all_tiles(const grouped_tiles& tiles) const noexcept { return images * tiles.in_image(); }
};

/// The number of source rows or columns that a number of target rows or columns reads.
constexpr index_t grouped_reach(grouped_steps steps, index_t targets) noexcept {
  return steps == grouped_steps::one   ? targets + 2
         : steps == grouped_steps::two ? 2 * targets + 1
                                       : targets / 2 + 1;
}

/// The scratch memory of a tile: the sources of a block, and rows of one block of targets.
constexpr index_t grouped_source_size(grouped_steps steps, index_t rows, index_t columns) noexcept {
  return grouped_reach(steps, rows) * grouped_reach(steps, columns) * grouped_lanes;
}
constexpr index_t grouped_target_size(index_t rows, index_t columns) noexcept {
  return rows * columns * grouped_lanes;
}

/// The kernels of a minimal filtering and its sizes.
struct grouped_filtering_kernels {
  conv3x3_filtering sizes;
  conv3x3_kernels<float> of;
};

struct grouped_conv3x3_kernels {
  /// Arranges the weights of blocks [first, last).
  void (*arrange)(const grouped_conv3x3_args&, const grouped_weights_args&, index_t first,
                  index_t last);
  /// Computes items [first, last), where item i is block i % blocks of tile i / blocks. `scratch`
  /// has chunks() * grouped_source_size() numbers and the grouped_target_size() of one row, and is
  /// aligned to cache lines.
  void (*run)(const grouped_conv3x3_args&, index_t first, index_t last, float* scratch);
  /// Adds the products of items [first, last) of all tiles of a part to its sums, where item i is
  /// chunk i % chunks of block i / chunks. `scratch` has grouped_source_size() +
  /// grouped_target_size() numbers.
  void (*add_products)(const grouped_conv3x3_args&, const grouped_weight_grad&, index_t part,
                       index_t first, index_t last, float* scratch);
  /// Adds the sums of all parts and writes the gradients of blocks [first, last).
  void (*finish)(const grouped_conv3x3_args&, const grouped_weight_grad&, index_t first,
                 index_t last);
  /// By minimal filtering, for one group and stride 2: the convolution and the gradient of the
  /// weights, and the gradient of the input.
  grouped_filtering_kernels filtering, input_grad_filtering;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
