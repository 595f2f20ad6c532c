// SPDX-License-Identifier: Apache-2.0
// Divides the calls of conv3x3.hpp into blocks that fit the caches, and spreads them over threads.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/conv3x3_tile.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/conv3x3_buffers.hpp>
#include <vecdet/impl/conv3x3_operand.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/conv3x3/conv3x3.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T>
auto& conv3x3_levels(conv3x3_buffers& buffers) noexcept {
  if constexpr (std::is_same<T, float>::value)
    return buffers.f32_levels;
  else if constexpr (std::is_same<T, bfloat16>::value)
    return buffers.bf16_levels;
  else
    return buffers.f64_levels;
}

/// The number of cache lines that hold `size` numbers.
template <class T>
index_t lines_for(index_t size) noexcept {
  return (size * index_t{sizeof(T)} + 63) / 64;
}

constexpr index_t conv_panels(index_t channels) noexcept {
  return conv_rounded(channels, conv_panel) / conv_panel;
}
/// The number of outputs in a row of a tile, and of multiplications per tile and pair of channels.
constexpr index_t tile_width(conv3x3_tile tile) noexcept {
  return tile == conv3x3_tile::f4x4 ? 4 : 2;
}
constexpr index_t tile_points(conv3x3_tile tile) noexcept {
  return tile == conv3x3_tile::f4x4 ? 36 : 16;
}

/// The size of transformed weights in bytes.
template <class T>
constexpr index_t conv_weights_bytes(conv3x3_tile tile, index_t targets, index_t sources) noexcept {
  return index_t{sizeof(T)} * (std::is_same<T, double>::value
                                   ? 9 * targets * sources
                                   : tile_points(tile) * conv_weights_point(targets, sources));
}

/// The most source channels and panels of target channels in a block. The transformed tiles and
/// products of one point take 102 KB for 48 tiles, 208 KB for 98 and 305 KB for 144. They stay in
/// the second-level cache while the weights stream through it.
constexpr index_t conv_block_sources = 256, conv_block_panels = 8;
/// If the transformed weights take more bytes than this, they are written past the caches, and
/// blocks have more tiles.
constexpr index_t conv_cached_bytes = index_t{32} * 1024 * 1024;
constexpr index_t conv_uncached_block_tiles = 144;
/// The most tiles in a block. The weights are read once per block, so larger blocks pay if the
/// second-level cache does not hold the weights. They need a part of the last-level cache; each
/// thread's part is larger if there are few threads. On AVX-512, 98 tiles are seven blocks of
/// products.
constexpr index_t conv_least_block_tiles = 48, conv_most_block_tiles = 98;
constexpr index_t conv_second_level_bytes = index_t{4} * 1024 * 1024;
constexpr index_t conv_block_tiles(index_t weights_bytes, index_t threads) noexcept {
  if (weights_bytes > conv_cached_bytes) return conv_uncached_block_tiles;
  if (weights_bytes <= conv_second_level_bytes) return conv_least_block_tiles;
  return std::max(conv_least_block_tiles,
                  2 * conv_most_block_tiles / std::max(threads, index_t{2}));
}
/// The weights are read once for at least this many tiles, if there are as many.
constexpr index_t conv_least_tiles = 28;

/// How the tiles and target channels of a call are divided.
struct conv3x3_blocks {
  index_t tiles, panels;            ///< in total
  index_t tile_parts, panel_parts;  ///< a task has one part of each
  index_t channels_at_once, panels_at_once;

  conv3x3_blocks(index_t all_tiles, index_t sources, index_t targets, index_t weights_bytes,
                 index_t threads)
      : tiles(all_tiles), panels(conv_panels(targets)), panel_parts(1) {
    channels_at_once =
        std::min(conv_rounded(std::max(sources, index_t{1}), conv_lanes), conv_block_sources);
    panels_at_once = std::min(panels, conv_block_panels);
    const index_t most = conv_block_tiles(weights_bytes, threads);
    tile_parts = (tiles + most - 1) / most;
    const index_t even = (tile_parts + threads - 1) / threads * threads;
    if (tiles >= even * conv_least_tiles) {
      tile_parts = even;
    } else {
      panel_parts = std::min(panels, threads / std::gcd(tile_parts, threads));
    }
  }
  index_t count() const { return tile_parts * panel_parts; }
  index_t most_tiles() const { return (tiles + tile_parts - 1) / tile_parts; }

  conv3x3_task task(index_t i) const {
    const index_t t = i / panel_parts, p = i % panel_parts;
    return {tiles * t / tile_parts,   tiles * (t + 1) / tile_parts,
            panels * p / panel_parts, panels * (p + 1) / panel_parts,
            channels_at_once,         panels_at_once};
  }
};

/// A call whose arguments have been checked. T is the type of the maps: float, bfloat16 or double.
template <class T>
class conv3x3_call {
 public:
  using number = compute_type<T>;

  conv3x3_call(const char* function, const conv3x3_operand<const T>& source, index_t targets,
               conv3x3_tile tile, conv3x3_buffers& buffers, threading policy)
      : function_(function),
        source_(source),
        tile_(tile),
        buffers_(buffers),
        policy_(policy),
        target_(active_isa()),
        kernels_(kernels<conv3x3_kernels<T>>(target_)) {
    const index_t width = tile_width(tile);
    auto& levels = conv3x3_levels<T>(buffers);
    conv3x3_level<T>* const level = grown(levels, source.count());
    index_t first_tile = 0;
    for (index_t l = 0; l < source.count(); ++l) {
      level[l] = {};
      level[l].height = source.level(l).height;
      level[l].width = source.level(l).width;
      level[l].tile_rows = (level[l].height + width - 1) / width;
      level[l].tile_columns = (level[l].width + width - 1) / width;
      level[l].first_tile = first_tile;
      first_tile += source.images() * level[l].tile_rows * level[l].tile_columns;
      level[l].last_tile = first_tile;
      level[l].source = source.map(l);
      locations_ += source.images() * level[l].height * level[l].width;
    }
    tiles_ = first_tile;
    args_.levels = level;
    args_.level_count = source.count();
    args_.source_channels = source.channels();
    args_.target_channels = targets;
    args_.tile = width;
  }

  void set_mask(const conv3x3_operand<const T>& mask) {
    for (index_t l = 0; l < mask.count(); ++l) level(l).mask = mask.map(l);
  }

  /// The gradient of the input. The source is the upstream gradient.
  void run_input_grad(const cache_line* weights, const conv3x3_operand<T>& grad) {
    is_input_grad_ = true;
    run(weights, nullptr, false, grad);
  }

  /// The convolution of the source.
  void run(const cache_line* weights, const number* bias, bool relu,
           const conv3x3_operand<T>& target) {
    if (tiles_ == 0 || args_.target_channels == 0) return;
    const profile::scope timing([&] { return problem(); });
    for (index_t l = 0; l < target.count(); ++l) level(l).target = target.map(l);
    args_.weights = reinterpret_cast<const number*>(weights);
    args_.bias = bias;
    args_.relu = relu;
    const conv3x3_blocks blocks(
        tiles_, args_.source_channels, args_.target_channels,
        conv_weights_bytes<number>(tile_, args_.target_channels, args_.source_channels),
        usable_threads(policy_));
    const index_t size = std::is_same<T, double>::value
                             ? 0
                             : conv_scratch_size(tile_points(tile_), blocks.most_tiles(),
                                                 blocks.channels_at_once, blocks.panels_at_once);
    run_with_scratch(chunking(blocks.count(), 1), size,
                     [&](index_t first, index_t last, number* scratch) {
                       for (index_t i = first; i < last; ++i)
                         kernels_.run(args_, blocks.task(i), scratch);
                     });
  }

  /// The gradient of the weights. The source is the input.
  void weight_grad(const conv3x3_operand<const T>& upstream,
                   const conv3x3_weight_grad<number>& grad) {
    if (args_.target_channels == 0) return;
    const profile::scope timing([&] { return problem(); });
    for (index_t l = 0; l < upstream.count(); ++l) level(l).upstream = upstream.map(l);
    if constexpr (std::is_same<T, double>::value) {
      for_each_chunk(policy_, chunking(args_.target_channels, 1),
                     [&](index_t, index_t first, index_t last) {
                       kernels_.weight_grad(args_, grad, first, last);
                     });
    } else {
      weight_grad_by_tiles(grad);
    }
  }

 private:
  conv3x3_level<T>& level(index_t l) {
    return conv3x3_levels<T>(buffers_)[static_cast<std::size_t>(l)];
  }

  /// Images x input channels x height x width x output channels. For several levels, images x input
  /// channels x locations x output channels.
  profile::problem problem() const {
    static constexpr const char* variants[2][2][2] = {
        {{nullptr, "f2x2"}, {"nhwc", "nhwc_f2x2"}},
        {{"levels", "levels_f2x2"}, {"levels_nhwc", "levels_nhwc_f2x2"}}};
    const bool is_map = source_.count() == 1;
    const index_t sources = args_.source_channels, targets = args_.target_channels;
    profile::problem p;
    p.function = function_;
    p.variant =
        variants[is_map ? 0 : 1][source_.is_nhwc() ? 1 : 0][tile_ == conv3x3_tile::f4x4 ? 0 : 1];
    p.type = dtype_name<T>();
    const index_t inputs = is_input_grad_ ? targets : sources;
    const index_t outputs = is_input_grad_ ? sources : targets;
    if (is_map)
      p.shape = {source_.images(), inputs, source_.level(0).height, source_.level(0).width,
                 outputs};
    else
      p.shape = {source_.images(), inputs, locations_ / std::max(source_.images(), index_t{1}),
                 outputs};
    p.implementation = isa_name(target_);
    p.threads = policy_.threads();
    p.bytes = locations_ * (sources + targets) * index_t{sizeof(T)} +
              9 * sources * targets * index_t{sizeof(number)};
    p.flops = 18 * locations_ * sources * targets;
    return p;
  }

  /// Calls run(first, last, scratch) for each chunk, with scratch memory for `size` numbers.
  template <class Run>
  void run_with_scratch(const chunking& chunks, index_t size, const Run& run) {
    const index_t lines = lines_for<number>(size);
    slot_pool slots(std::min(usable_threads(policy_), chunks.count));
    cache_line* const all = grown_in_huge_pages(buffers_.scratch, slots.count() * lines);
    for_each_chunk(policy_, chunks, [&](index_t, index_t first, index_t last) {
      const index_t slot = slots.take();
      run(first, last, reinterpret_cast<number*>(all + slot * lines));
      slots.give_back(slot);
    });
  }

  void weight_grad_by_tiles(const conv3x3_weight_grad<number>& grad);

  const char* function_;
  conv3x3_operand<const T> source_;
  conv3x3_tile tile_;
  conv3x3_buffers& buffers_;
  threading policy_;
  isa target_;
  const conv3x3_kernels<T>& kernels_;
  conv3x3_args<T> args_{};
  index_t tiles_ = 0, locations_ = 0;
  bool is_input_grad_ = false;
};

/// The most source channels, panels of target channels and tiles in a block.
constexpr index_t weight_grad_sources = 256, weight_grad_panels = 8, weight_grad_tiles = 160;

template <class T>
void conv3x3_call<T>::weight_grad_by_tiles(const conv3x3_weight_grad<number>& grad) {
  const index_t points = tile_points(tile_);
  const index_t sources = args_.source_channels, panels = conv_panels(args_.target_channels);
  // Blocks of nearly the same size.
  const index_t source_groups =
      std::max(index_t{1}, conv_rounded(sources, conv_lanes) / conv_lanes);
  const index_t source_parts =
      (source_groups * conv_lanes + weight_grad_sources - 1) / weight_grad_sources;
  const index_t panel_parts = (panels + weight_grad_panels - 1) / weight_grad_panels;
  const index_t most_sources = (source_groups + source_parts - 1) / source_parts * conv_lanes;
  const index_t most_panels = (panels + panel_parts - 1) / panel_parts;
  // The sums are read and written once per block of tiles, so blocks have more tiles if there are
  // more sums. Threads wait for each other after each block.
  const index_t room =
      std::min(weight_grad_tiles, std::max(conv_least_block_tiles * usable_threads(policy_),
                                           3 * (most_sources + most_panels * conv_panel) / 8));
  const index_t tile_parts = (tiles_ + room - 1) / room;
  const index_t most_tiles = tile_parts == 0 ? 0 : (tiles_ + tile_parts - 1) / tile_parts;

  const index_t input_lines =
      lines_for<float>(points * conv_weight_grad_point(most_tiles, most_sources));
  const index_t gradient_lines = lines_for<float>(points * most_panels * most_tiles * conv_panel);
  const index_t sum_lines = lines_for<float>(points * most_panels * most_sources * conv_panel);
  const index_t bias_lines = lines_for<double>(panels * conv_panel);
  cache_line* const memory =
      grown_in_huge_pages(buffers_.sums, input_lines + gradient_lines + sum_lines + bias_lines);
  const auto numbers = [&](index_t line) { return reinterpret_cast<float*>(memory + line); };
  double* const bias_sums =
      reinterpret_cast<double*>(memory + input_lines + gradient_lines + sum_lines);
  std::fill(bias_sums, bias_sums + panels * conv_panel, 0.0);

  conv3x3_weight_grad_block block{};
  block.inputs = numbers(0);
  block.gradients = numbers(input_lines);
  block.sums = numbers(input_lines + gradient_lines);
  // Parts of a point's panels. The panels share the point's inputs, so that they are divided only
  // if there are many threads.
  const index_t most_parts = (4 * usable_threads(policy_) + points - 1) / points;
  const auto add_tiles = [&] {
    const index_t channels = std::min(args_.target_channels, block.last_panel * conv_panel) -
                             block.first_panel * conv_panel;
    const index_t inputs = conv_rounded(block.sources(), conv_lanes) / conv_lanes;
    const index_t gradients = conv_rounded(channels, conv_lanes) / conv_lanes;
    run_with_scratch(chunking(inputs + gradients, conv_panel / conv_lanes), conv_band_size,
                     [&](index_t first, index_t last, number* scratch) {
                       kernels_.transform_inputs(args_, block, std::min(first, inputs),
                                                 std::min(last, inputs), scratch);
                       kernels_.transform_gradients(args_, block, std::max(first, inputs) - inputs,
                                                    std::max(last, inputs) - inputs, scratch);
                     });
    const index_t parts = std::min(block.panels(), most_parts);
    for_each_chunk(policy_, chunking(points * parts, 1), [&](index_t, index_t first, index_t last) {
      kernels_.add_products(args_, block, first * block.panels() / parts,
                            last * block.panels() / parts);
    });
  };
  for (index_t k = 0; k < panel_parts; ++k) {
    block.first_panel = panels * k / panel_parts;
    block.last_panel = panels * (k + 1) / panel_parts;
    for (index_t c = 0; c < source_parts; ++c) {
      block.first_source = source_groups * c / source_parts * conv_lanes;
      block.last_source = std::min(sources, source_groups * (c + 1) / source_parts * conv_lanes);
      block.bias_sums = grad.bias != nullptr && c == 0 ? bias_sums : nullptr;
      if (tiles_ == 0)
        std::fill(block.sums, numbers(input_lines + gradient_lines + sum_lines), 0.0f);
      for (index_t t = 0; t < tile_parts; ++t) {
        block.first_tile = tiles_ * t / tile_parts;
        block.last_tile = tiles_ * (t + 1) / tile_parts;
        add_tiles();
      }
      for_each_chunk(policy_, chunking(block.panels(), 1),
                     [&](index_t, index_t first, index_t last) {
                       kernels_.finish_weight_grad(args_, block, grad, first, last);
                     });
    }
  }
  if (grad.bias != nullptr)
    for (index_t k = 0; k < args_.target_channels; ++k)
      grad.bias[k] = static_cast<number>(bias_sums[k]);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
