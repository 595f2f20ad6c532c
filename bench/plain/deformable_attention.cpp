// SPDX-License-Identifier: Apache-2.0
#include "deformable_attention.hpp"

#include <algorithm>
#include <cmath>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// Calls use(location, bilinear weight, its derivatives with respect to x and y) for each of the
/// four locations around a point that is inside the level.
template <class Use>
void for_each_corner(const plain_attention_level& level, const float* point, const Use& use) {
  const auto width = static_cast<float>(level.width), height = static_cast<float>(level.height);
  const float x = point[0] * width - 0.5f, y = point[1] * height - 0.5f;
  if (!(x > -1 && y > -1 && x < width && y < height)) return;
  const float left = std::floor(x), upper = std::floor(y), fx = x - left, fy = y - upper;
  for (int down = 0; down < 2; ++down)
    for (int across = 0; across < 2; ++across) {
      const std::int64_t row = static_cast<std::int64_t>(upper) + down;
      const std::int64_t column = static_cast<std::int64_t>(left) + across;
      if (row < 0 || column < 0 || row >= level.height || column >= level.width) continue;
      const float along_x = across == 0 ? 1 - fx : fx, along_y = down == 0 ? 1 - fy : fy;
      use(row * level.width + column, along_x * along_y, (across == 0 ? -width : width) * along_y,
          (down == 0 ? -height : height) * along_x);
    }
}

/// Calls use(level, first location of the level, index among all points) for the points of a query
/// in a head.
template <class Use>
void for_each_point(const plain_attention_level* levels, std::int64_t level_count, const Use& use) {
  std::int64_t first = 0, point = 0;
  for (std::int64_t l = 0; l < level_count; ++l) {
    for (std::int64_t k = 0; k < levels[l].points; ++k) use(levels[l], first, point++);
    first += levels[l].height * levels[l].width;
  }
}

std::int64_t all_points(const plain_attention_level* levels, std::int64_t level_count) {
  std::int64_t points = 0;
  for (std::int64_t l = 0; l < level_count; ++l) points += levels[l].points;
  return points;
}

}  // namespace

void plain_deformable_attention(const float* value, const float* points, const float* weights,
                                const plain_attention_level* levels, std::int64_t level_count,
                                std::int64_t queries, std::int64_t heads, std::int64_t channels,
                                float* out) {
  const std::int64_t count = all_points(levels, level_count);
  for (std::int64_t i = 0; i < queries * heads; ++i) {
    float* const to = out + i * channels;
    std::fill(to, to + channels, 0.0f);
    for_each_point(levels, level_count, [&](const auto& level, std::int64_t first, std::int64_t p) {
      for_each_corner(
          level, points + 2 * (i * count + p), [&](std::int64_t at, float bilinear, float, float) {
            const float* const from = value + ((first + at) * heads + i % heads) * channels;
            const float weight = weights[i * count + p] * bilinear;
            for (std::int64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
          });
    });
  }
}

void plain_deformable_attention_grad(const float* upstream, const float* value, const float* points,
                                     const float* weights, const plain_attention_level* levels,
                                     std::int64_t level_count, std::int64_t locations,
                                     std::int64_t queries, std::int64_t heads,
                                     std::int64_t channels, float* value_grad, float* point_grad,
                                     float* weight_grad) {
  const std::int64_t count = all_points(levels, level_count);
  std::fill(value_grad, value_grad + locations * heads * channels, 0.0f);
  for (std::int64_t i = 0; i < queries * heads; ++i) {
    const float* const g = upstream + i * channels;
    for_each_point(levels, level_count, [&](const auto& level, std::int64_t first, std::int64_t p) {
      float by_x = 0, by_y = 0, by_weight = 0;
      for_each_corner(level, points + 2 * (i * count + p),
                      [&](std::int64_t at, float bilinear, float slope_x, float slope_y) {
                        const std::int64_t first_channel =
                            ((first + at) * heads + i % heads) * channels;
                        const float* const from = value + first_channel;
                        float* const to = value_grad + first_channel;
                        const float weight = weights[i * count + p] * bilinear;
                        float sum = 0;
                        for (std::int64_t c = 0; c < channels; ++c) {
                          sum += g[c] * from[c];
                          to[c] += weight * g[c];
                        }
                        by_weight += bilinear * sum;
                        by_x += slope_x * sum;
                        by_y += slope_y * sum;
                      });
      const std::int64_t at = i * count + p;
      weight_grad[at] = by_weight;
      point_grad[2 * at] = weights[at] * by_x;
      point_grad[2 * at + 1] = weights[at] * by_y;
    });
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
