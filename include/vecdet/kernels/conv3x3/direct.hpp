// SPDX-License-Identifier: Apache-2.0
// Direct 3x3 convolution in double, for checking gradients.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/kernels/conv3x3/tiles.hpp>

namespace vecdet {
namespace VECDET_TARGET {

inline void copy_conv_weights(const detail::conv3x3_weights_args<double>& a, index_t first,
                              index_t last) {
  for (index_t i = first; i < last; ++i) {
    const index_t c = i % a.sources, panel = i / a.sources * detail::conv_panel;
    for (index_t k = panel; k < panel + detail::conv_panel && k < a.targets; ++k)
      for (index_t tap = 0; tap < 9; ++tap)
        a.transformed[(k * a.sources + c) * 9 + tap] =
            a.weights[k * a.target_step + c * a.source_step +
                      (a.turned ? 8 - tap : tap) * a.tap_step];
  }
}

/// Calls work(tap, neighbour) for the neighbours of (y, x) that are inside the map. `neighbour` is
/// the index of a location.
template <class T, class Work>
VECDET_INLINE void for_each_tap(const detail::conv3x3_level<T>& level, index_t y, index_t x,
                                const Work& work) {
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const index_t row = y + i - 1, column = x + j - 1;
      if (row >= 0 && row < level.height && column >= 0 && column < level.width)
        work(3 * i + j, row * level.width + column);
    }
}

inline void run_conv_directly(const detail::conv3x3_args<double>& a,
                              const detail::conv3x3_task& task, double*) {
  const index_t first = task.first_panel * detail::conv_panel;
  const index_t end = task.last_panel * detail::conv_panel;
  const index_t last = end < a.target_channels ? end : a.target_channels;
  const auto output = [&](const tile_run<double>& run, index_t y, index_t x, index_t k) {
    const auto& level = *run.level;
    const auto& in = level.source;
    const auto& mask = level.mask;
    double sum = a.bias == nullptr ? 0 : a.bias[k];
    for (index_t c = 0; c < a.source_channels; ++c) {
      const double* const weights = a.weights + (k * a.source_channels + c) * 9;
      for_each_tap(level, y, x, [&](int tap, index_t location) {
        if (mask.data != nullptr &&
            !(mask.data[run.image * mask.image + location * mask.location + c * mask.channel] > 0))
          return;
        sum +=
            weights[tap] * in.data[run.image * in.image + location * in.location + c * in.channel];
      });
    }
    const auto& out = level.target;
    out.data[run.image * out.image + (y * level.width + x) * out.location + k * out.channel] =
        a.relu && sum < 0 ? 0 : sum;
  };
  for_each_run<most_run_tiles>(
      a, task.first_tile, task.last_tile, [&](const tile_run<double>& run) {
        const auto& level = *run.level;
        const index_t first_y = run.row * a.tile, first_x = run.column * a.tile;
        for (index_t y = first_y; y < first_y + a.tile && y < level.height; ++y)
          for (index_t x = first_x; x < first_x + run.count * a.tile && x < level.width; ++x)
            for (index_t k = first; k < last; ++k) output(run, y, x, k);
      });
}

inline void weight_grad_directly(const detail::conv3x3_args<double>& a,
                                 const detail::conv3x3_weight_grad<double>& out, index_t first,
                                 index_t last) {
  const auto add = [&](const detail::conv3x3_level<double>& level, index_t image, index_t k) {
    const auto& in = level.source;
    const auto& up = level.upstream;
    const auto& mask = level.mask;
    for (index_t y = 0; y < level.height; ++y)
      for (index_t x = 0; x < level.width; ++x) {
        const index_t at = y * level.width + x;
        if (mask.data != nullptr &&
            !(mask.data[image * mask.image + at * mask.location + k * mask.channel] > 0))
          continue;
        const double gradient = up.data[image * up.image + at * up.location + k * up.channel];
        if (out.bias != nullptr) out.bias[k] += gradient;
        for_each_tap(level, y, x, [&](int tap, index_t location) {
          const double* const from = in.data + image * in.image + location * in.location;
          double* const to = out.data + k * out.target_step + tap * out.tap_step;
          for (index_t c = 0; c < a.source_channels; ++c)
            to[c * out.source_step] += gradient * from[c * in.channel];
        });
      }
  };
  for (index_t k = first; k < last; ++k) {
    if (out.bias != nullptr) out.bias[k] = 0;
    for (index_t c = 0; c < a.source_channels; ++c)
      for (index_t tap = 0; tap < 9; ++tap)
        out.data[k * out.target_step + c * out.source_step + tap * out.tap_step] = 0;
    for (index_t l = 0; l < a.level_count; ++l) {
      const auto& level = a.levels[l];
      const index_t in_image = level.tile_rows * level.tile_columns;
      const index_t tiles = level.last_tile - level.first_tile;
      for (index_t image = 0; image * in_image < tiles; ++image) add(level, image, k);
    }
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
