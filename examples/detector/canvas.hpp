// SPDX-License-Identifier: Apache-2.0
// Pictures on the network's input canvas: scaled, moved and flipped, together with their boxes.
#pragma once

#include "dataset.hpp"
#include "options.hpp"
#include "picture.hpp"
#include "random.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace detector {

/// The mean and deviation of ImageNet's colours, on a scale from 0 to 1. They normalise the
/// network's input.
constexpr float colour_mean[3] = {0.485f, 0.456f, 0.406f};
constexpr float colour_deviation[3] = {0.229f, 0.224f, 0.225f};

/// The position of a picture: point (x, y) of it is at (x * scale + left, y * scale + top).
struct placement {
  double scale = 1, left = 0, top = 0;
  int width = 0, height = 0;  ///< of the scaled picture
  bool flip_horizontal = false, flip_vertical = false;

  /// As large as fits, in the upper left corner.
  static placement fitted(int width, int height, canvas_size canvas, double scale = 1) {
    placement place;
    place.scale = scale * std::min(static_cast<double>(canvas.width) / width,
                                   static_cast<double>(canvas.height) / height);
    place.width = std::max(1, static_cast<int>(std::lround(width * place.scale)));
    place.height = std::max(1, static_cast<int>(std::lround(height * place.scale)));
    return place;
  }

  /// With a random scale, at a random position that either is within the canvas or covers it.
  static placement random(int width, int height, canvas_size canvas, const augmentation& params,
                          random_source& random) {
    const double scale = random.uniform(params.smallest_scale, params.largest_scale);
    placement place = fitted(width, height, canvas, scale);
    const double x = random.uniform(0, 1), y = random.uniform(0, 1);
    if (params.smallest_scale < params.largest_scale) {
      place.left = std::round((canvas.width - place.width) * x);
      place.top = std::round((canvas.height - place.height) * y);
    }
    place.flip_horizontal = random.uniform(0, 1) < params.horizontal_flip;
    place.flip_vertical = random.uniform(0, 1) < params.vertical_flip;
    return place;
  }

  /// Maps a box of the picture to the canvas; the result may be partly outside.
  box onto_canvas(const box& b) const {
    double x1 = b[0] * scale, x2 = b[2] * scale, y1 = b[1] * scale, y2 = b[3] * scale;
    if (flip_horizontal) std::tie(x1, x2) = std::make_pair(width - x2, width - x1);
    if (flip_vertical) std::tie(y1, y2) = std::make_pair(height - y2, height - y1);
    return {static_cast<float>(x1 + left), static_cast<float>(y1 + top),
            static_cast<float>(x2 + left), static_cast<float>(y2 + top)};
  }
  /// Maps a box of the canvas to the picture; for pictures that are not flipped.
  box onto_picture(const box& b) const {
    return {static_cast<float>((b[0] - left) / scale), static_cast<float>((b[1] - top) / scale),
            static_cast<float>((b[2] - left) / scale), static_cast<float>((b[3] - top) / scale)};
  }
};

/// Draws a picture of any size at `place`, as normalised planes of red, green and blue of the
/// canvas' size. Sampling is bilinear; the rest of the canvas is 0, the mean colour.
inline void draw_on_canvas(const picture& image, const placement& place, canvas_size canvas,
                           float* planes) {
  struct tap {
    int first, second;
    float weight;  ///< weight of the second
  };
  const auto taps_of = [](int from, int to, bool flip) {
    std::vector<tap> taps(static_cast<std::size_t>(to));
    for (int i = 0; i < to; ++i) {
      const int at = flip ? to - 1 - i : i;
      const double x = std::clamp((at + 0.5) * from / to - 0.5, 0.0, from - 1.0);
      const int first = static_cast<int>(x);
      taps[static_cast<std::size_t>(i)] = {first, std::min(first + 1, from - 1),
                                           static_cast<float>(x - first)};
    }
    return taps;
  };
  const std::vector<tap> across = taps_of(image.width, place.width, place.flip_horizontal);
  const std::vector<tap> down = taps_of(image.height, place.height, place.flip_vertical);
  const auto area =
      static_cast<std::size_t>(canvas.width) * static_cast<std::size_t>(canvas.height);
  std::fill_n(planes, 3 * area, 0.0f);
  const int left = static_cast<int>(place.left), top = static_cast<int>(place.top);
  for (int y = std::max(0, top); y < std::min(canvas.height, top + place.height); ++y) {
    const tap& v = down[static_cast<std::size_t>(y - top)];
    const std::uint8_t *upper = image.row(v.first), *lower = image.row(v.second);
    for (int x = std::max(0, left); x < std::min(canvas.width, left + place.width); ++x) {
      const tap& h = across[static_cast<std::size_t>(x - left)];
      float* const out = planes +
                         static_cast<std::size_t>(y) * static_cast<std::size_t>(canvas.width) +
                         static_cast<std::size_t>(x);
      for (std::size_t c = 0; c < 3; ++c) {
        const auto between = [&](const std::uint8_t* row) {
          const float a = row[static_cast<std::size_t>(3 * h.first) + c];
          const float b = row[static_cast<std::size_t>(3 * h.second) + c];
          return a + (b - a) * h.weight;
        };
        const float a = between(upper), b = between(lower);
        const float colour = (a + (b - a) * v.weight) / 255;
        out[c * area] = (colour - colour_mean[c]) / colour_deviation[c];
      }
    }
  }
}

/// The objects on the canvas, without crowds and without objects of which less than a quarter, or
/// less than a pixel, is visible.
inline std::vector<object> objects_on_canvas(const std::vector<object>& objects,
                                             const placement& place, canvas_size canvas) {
  std::vector<object> visible;
  for (const object& candidate : objects) {
    if (candidate.crowd) continue;
    const box whole = place.onto_canvas(candidate.corners);
    const auto width = static_cast<float>(canvas.width), height = static_cast<float>(canvas.height);
    const box part = {std::clamp(whole[0], 0.0f, width), std::clamp(whole[1], 0.0f, height),
                      std::clamp(whole[2], 0.0f, width), std::clamp(whole[3], 0.0f, height)};
    const float w = part[2] - part[0], h = part[3] - part[1];
    const float area = (whole[2] - whole[0]) * (whole[3] - whole[1]);
    if (w >= 1 && h >= 1 && w * h >= area / 4) visible.push_back({part, candidate.label, false});
  }
  return visible;
}

}  // namespace detector
