// SPDX-License-Identifier: Apache-2.0
// Runs the calls of conv3x3.hpp, block by block, on threads.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/impl/conv3x3_blocks.hpp>
#include <vecdet/impl/conv3x3_buffers.hpp>
#include <vecdet/impl/conv3x3_operand.hpp>
#include <vecdet/parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <type_traits>

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

/// Transforms weights into `memory`. The caller sets all members of `args` but `tile`, `past_cache`
/// and `transformed`, which this function sets.
template <class T>
void transform_conv_weights(conv3x3_weights_args<T> args, const conv3x3_filtering& filtering,
                            const conv3x3_kernels<T>& kernels, aligned_vector<cache_line>& memory,
                            threading policy) {
  args.tile = filtering.target_tile;
  const index_t bytes = conv_weights_bytes<T>(filtering, args.targets, args.sources);
  args.past_cache = bytes > conv_streamed_bytes;
  args.transformed = reinterpret_cast<T*>(grown_in_huge_pages(memory, (bytes + 63) / 64));
  if (args.targets * args.sources == 0) return;  // the panels of 2^33 x 0 channels take seconds
  constexpr index_t least_items = 16;            // a few microseconds
  const index_t items = conv_panels(args.targets) * args.sources;
  const index_t pieces = std::min(std::max(index_t{1}, items / least_items),
                                  even_pieces(items, usable_threads(policy)));
  for_each_chunk(policy, chunking(pieces, 1), [&](index_t piece, index_t, index_t) {
    kernels.transform_weights(args, items * piece / pieces, items * (piece + 1) / pieces);
  });
}

/// A call whose arguments have been checked. T is the type of the maps: float, bfloat16 or double.
template <class T>
class conv3x3_call {
 public:
  using number = compute_type<T>;

  /// Of `target`, only the sizes count. For the gradient of the weights, it is the upstream
  /// gradient.
  template <class U>
  conv3x3_call(const conv3x3_operand<const T>& source, const conv3x3_operand<U>& target,
               const conv3x3_filtering& filtering, const conv3x3_kernels<T>& kernels,
               conv3x3_buffers& buffers, threading policy)
      : source_(source),
        filtering_(filtering),
        buffers_(buffers),
        policy_(policy),
        kernels_(kernels) {
    const index_t width = filtering.target_tile;
    auto& levels = conv3x3_levels<T>(buffers);
    conv3x3_level<T>* const level = grown(levels, source.count());
    index_t first_tile = 0;
    for (index_t l = 0; l < source.count(); ++l) {
      level[l] = {};
      level[l].height = source.level(l).height;
      level[l].width = source.level(l).width;
      level[l].target_height = target.level(l).height;
      level[l].target_width = target.level(l).width;
      level[l].tile_rows = (level[l].target_height + width - 1) / width;
      level[l].tile_columns = (level[l].target_width + width - 1) / width;
      level[l].first_tile = first_tile;
      first_tile += source.images() * level[l].tile_rows * level[l].tile_columns;
      level[l].last_tile = first_tile;
      level[l].source = source.map(l);
    }
    tiles_ = first_tile;
    args_.levels = level;
    args_.level_count = source.count();
    args_.source_channels = source.channels();
    args_.target_channels = target.channels();
    args_.tile = width;
  }

  void set_mask(const conv3x3_operand<const T>& mask) {
    for (index_t l = 0; l < mask.count(); ++l) level(l).mask = mask.map(l);
  }

  bool is_empty() const { return tiles_ == 0 || args_.target_channels == 0; }

  /// The convolution of the source. For the gradient of the input, that is the upstream gradient.
  /// The call must not be empty.
  void run(const cache_line* weights, const number* bias, bool relu,
           const conv3x3_operand<T>& target) {
    for (index_t l = 0; l < target.count(); ++l) level(l).target = target.map(l);
    args_.weights = reinterpret_cast<const number*>(weights);
    args_.bias = bias;
    args_.relu = relu;
    conv3x3_blocks blocks(
        tiles_, args_.source_channels, args_.target_channels,
        conv_weights_bytes<number>(filtering_, args_.target_channels, args_.source_channels),
        filtering_, usable_threads(policy_));
    index_t size = 0;
    if constexpr (std::is_same<T, double>::value) {
      // Direct convolution: nothing is transformed, so a task may be a tile and a panel.
      if (blocks.passes > 0) {
        blocks.tile_parts = blocks.tiles;
        blocks.panel_parts = blocks.panels;
      }
    } else {
      if (blocks.passes > 0) return run_passes(blocks);
      size = conv_scratch_size(filtering_.source_points, filtering_.target_points,
                               blocks.most_tiles(), blocks.channels_at_once, blocks.panels_at_once);
    }
    const index_t tasks = blocks.count();
    run_with_scratch(tasks, tasks <= chunking::max_count ? tasks : pieces_of(tasks), size,
                     [&](index_t first, index_t last, number* scratch) {
                       for (index_t i = first; i < last; ++i)
                         kernels_.run(args_, blocks.task(i), scratch);
                     });
  }

  /// The gradient of the weights. The source is the input. There must be target channels.
  void weight_grad(const conv3x3_operand<const T>& upstream,
                   const conv3x3_weight_grad<number>& grad) {
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

  /// Calls run(first, last) for `items` equal items in this number of pieces.
  template <class Run>
  void run_pieces(index_t items, index_t pieces, const Run& run) {
    for_each_chunk(policy_, chunking(pieces, 1), [&](index_t piece, index_t, index_t) {
      run(items * piece / pieces, items * (piece + 1) / pieces);
    });
  }
  index_t pieces_of(index_t items) const { return even_pieces(items, usable_threads(policy_)); }

  /// Calls run(first, last, scratch) likewise, with scratch memory for `size` numbers.
  template <class Run>
  void run_with_scratch(index_t items, index_t pieces, index_t size, const Run& run) {
    const index_t lines = lines_for<number>(size);
    slot_pool slots(std::min(usable_threads(policy_), pieces));
    cache_line* const all = grown_in_huge_pages(buffers_.scratch, slots.count() * lines);
    run_pieces(items, pieces, [&](index_t first, index_t last) {
      const index_t slot = slots.take();
      run(first, last, reinterpret_cast<number*>(all + slot * lines));
      slots.give_back(slot);
    });
  }

  /// Calls transform(part, scratch) for parts of the tiles and groups of channels, as many as keep
  /// all threads busy. On one thread, a part has all tiles.
  template <class Transform>
  void transform_parts(index_t first_tile, index_t last_tile, index_t groups,
                       const Transform& transform) {
    constexpr index_t least_tiles = 4;
    const index_t threads = usable_threads(policy_), tiles = last_tile - first_tile;
    const index_t enough = threads == 1 ? 1 : 8 * threads;
    const index_t parts = std::max(
        index_t{1},
        std::min((enough + groups - 1) / std::max(groups, index_t{1}), tiles / least_tiles));
    run_with_scratch(parts * groups, pieces_of(parts * groups), conv_band_size,
                     [&](index_t first, index_t last, number* scratch) {
                       while (first < last) {
                         const index_t part = first / groups, group = first % groups;
                         const index_t end = std::min(groups, group + last - first);
                         transform({first_tile + tiles * part / parts,
                                    first_tile + tiles * (part + 1) / parts, group, end},
                                   scratch);
                         first += end - group;
                       }
                     });
  }

  /// Computes the outputs of all tiles in steps that all threads share.
  void run_passes(const conv3x3_blocks& blocks) {
    // Sources and targets have as many: conv3x3_blocks has no passes for other filterings.
    const index_t points = filtering_.products;
    const index_t sources = conv_rounded(args_.source_channels, conv_lanes) / conv_lanes;
    const index_t targets = conv_rounded(args_.target_channels, conv_lanes) / conv_lanes;
    conv3x3_pass pass{};
    pass.row = conv_row(args_.source_channels);
    pass.panels = blocks.panels;
    pass.parts = blocks.product_parts;
    const index_t items = points * pass.panels * pass.parts, most = blocks.most_in_pass();
    const index_t transformed = lines_for<float>(points * conv_point_size(most, pass.row));
    const index_t products =
        lines_for<float>(points * pass.panels * conv_point_size(most, conv_panel));
    cache_line* const memory = grown_in_huge_pages(buffers_.shared, transformed + products);
    pass.transformed = reinterpret_cast<float*>(memory);
    pass.products = reinterpret_cast<float*>(memory + transformed);
    for (index_t i = 0; i < blocks.passes; ++i) {
      pass.first_tile = blocks.first_tile(i);
      pass.last_tile = blocks.first_tile(i + 1);
      pass.point = conv_point_size(pass.tiles(), pass.row);
      pass.product_point = conv_point_size(pass.tiles(), conv_panel);
      transform_parts(pass.first_tile, pass.last_tile, sources,
                      [&](const conv3x3_transform& part, float* scratch) {
                        kernels_.transform_tiles(args_, pass, part, scratch);
                      });
      run_pieces(items, pieces_of(items), [&](index_t first, index_t last) {
        kernels_.multiply_tiles(args_, pass, first, last);
      });
      transform_parts(pass.first_tile, pass.last_tile, targets,
                      [&](const conv3x3_transform& part, float* scratch) {
                        kernels_.finish_tiles(args_, pass, part, scratch);
                      });
    }
  }

  void weight_grad_by_tiles(const conv3x3_weight_grad<number>& grad);

  conv3x3_operand<const T> source_;
  conv3x3_filtering filtering_;
  conv3x3_buffers& buffers_;
  threading policy_;
  const conv3x3_kernels<T>& kernels_;
  conv3x3_args<T> args_{};
  index_t tiles_ = 0;
};

template <class T>
void conv3x3_call<T>::weight_grad_by_tiles(const conv3x3_weight_grad<number>& grad) {
  const index_t points = filtering_.weight_points, sources = args_.source_channels;
  const conv3x3_weight_grad_blocks blocks(tiles_, sources, args_.target_channels, filtering_,
                                          usable_threads(policy_));
  const index_t channels = blocks.panels * conv_panel;
  const index_t lines[] = {
      lines_for<float>(filtering_.source_points *
                       conv_weight_grad_point(blocks.most_tiles, blocks.most_sources)),
      lines_for<float>(filtering_.target_points * blocks.most_panels * blocks.most_tiles *
                       conv_panel),
      lines_for<float>(points * conv_sums_point(blocks.most_panels, blocks.most_sources)),
      lines_for<double>(blocks.most_tiles * blocks.most_panels * conv_panel),
      lines_for<double>(channels)};
  cache_line* memory = grown_in_huge_pages(
      buffers_.shared, std::accumulate(std::begin(lines), std::end(lines), index_t{0}));
  const auto take = [&](int array) {
    memory += lines[array];
    return memory - lines[array];
  };
  conv3x3_weight_grad_block block{};
  block.inputs = reinterpret_cast<float*>(take(0));
  block.gradients = reinterpret_cast<float*>(take(1));
  block.sums = reinterpret_cast<float*>(take(2));
  block.tile_sums = reinterpret_cast<double*>(take(3));
  double* const bias_sums = reinterpret_cast<double*>(take(4));
  std::fill(bias_sums, bias_sums + channels, 0.0);

  const auto add_tiles = [&](bool has_inputs) {
    const index_t targets = std::min(args_.target_channels, block.last_panel * conv_panel) -
                            block.first_panel * conv_panel;
    const index_t inputs = conv_rounded(block.sources(), conv_lanes) / conv_lanes;
    const index_t gradients = conv_rounded(targets, conv_lanes) / conv_lanes;
    const index_t skipped = has_inputs ? inputs : 0;
    transform_parts(block.first_tile, block.last_tile, inputs - skipped + gradients,
                    [&](conv3x3_transform part, number* scratch) {
                      part.first_group += skipped;
                      part.last_group += skipped;
                      conv3x3_transform of = part;
                      of.last_group = std::min(part.last_group, inputs);
                      if (of.first_group < of.last_group)
                        kernels_.transform_inputs(args_, block, of, scratch);
                      of.first_group = std::max(part.first_group, inputs) - inputs;
                      of.last_group = std::max(part.last_group, inputs) - inputs;
                      if (of.first_group < of.last_group)
                        kernels_.transform_gradients(args_, block, of, scratch);
                    });
    const index_t products = filtering_.products * block.panels() * 2 * block.groups();
    run_pieces(products, pieces_of(products), [&](index_t first, index_t last) {
      kernels_.add_products(args_, block, first, last);
    });
  };
  for (index_t c = 0; c < blocks.source_parts; ++c) {
    block.first_source = blocks.source_groups * c / blocks.source_parts * conv_lanes;
    block.last_source =
        std::min(sources, blocks.source_groups * (c + 1) / blocks.source_parts * conv_lanes);
    for (index_t k = 0; k < blocks.panel_parts; ++k) {
      block.first_panel = blocks.panels * k / blocks.panel_parts;
      block.last_panel = blocks.panels * (k + 1) / blocks.panel_parts;
      block.bias_sums = grad.bias != nullptr && c == 0 ? bias_sums : nullptr;
      if (tiles_ == 0) std::fill(block.sums, block.sums + points * block.sums_point(), 0.0f);
      for (index_t t = 0; t < blocks.tile_parts; ++t) {
        block.first_tile = blocks.first_tile(t);
        block.last_tile = blocks.first_tile(t + 1);
        // The inputs of all tiles serve all panels.
        add_tiles(k > 0 && blocks.tile_parts == 1);
      }
      const index_t sums = block.panels() * block.sources();
      run_pieces(sums, pieces_of(sums), [&](index_t first, index_t last) {
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
