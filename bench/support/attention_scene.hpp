// SPDX-License-Identifier: Apache-2.0
// Deformable attention in a detector. The encoder's queries are the locations of all levels, row by
// row. As after initialisation, the points of each of the eight heads are in one direction, one to
// four locations away; random offsets stand for what the layer has learnt. The decoder's queries
// are boxes at random positions, and their points are inside the boxes.
#pragma once

#include <vecdet/deformable_attention.hpp>
#include <vecdet/dtype.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace vecdet::bench {

template <class T>
struct attention_scene {
  using real = compute_type<T>;
  std::vector<attention_level> levels;
  attention_shape shape;
  std::vector<T> value, upstream, out;
  std::vector<real> points, weights;
  std::vector<real> grad;     ///< of points, weights and, if it has this type, the value
  std::vector<T> value_grad;  ///< of the value, if it has another type
  deformable_attention_workspace workspace;

  static constexpr index_t heads = 8, channels = 32;

  /// A layer of an encoder for a picture of 800 x 1066.
  static std::vector<attention_level> encoder_levels() {
    return {{100, 134, 4}, {50, 67, 4}, {25, 34, 4}, {13, 17, 4}};
  }
  /// A layer of RT-DETR's decoder for a picture of 640 x 640.
  static std::vector<attention_level> decoder_levels() {
    return {{80, 80, 4}, {40, 40, 4}, {20, 20, 4}};
  }

  /// queries = 0: an encoder with one query per location.
  attention_scene(std::vector<attention_level> pyramid, index_t queries)
      : levels(std::move(pyramid)) {
    shape.images = 1;
    shape.heads = heads;
    shape.channels = channels;
    shape.levels = levels;
    shape.queries = queries > 0 ? queries : shape.locations();
    const auto size = [](index_t n) { return static_cast<std::size_t>(n); };
    value.resize(size(shape.locations() * heads * channels));
    upstream.resize(size(shape.queries * heads * channels));
    out.resize(upstream.size());
    weights.resize(size(shape.queries * heads * shape.points()));
    constexpr bool is_narrow = std::is_same<T, bfloat16>::value;
    grad.resize(3 * weights.size() + (is_narrow ? 0 : value.size()));
    if (is_narrow) value_grad.resize(value.size());
    for (auto* numbers : {&value, &upstream})
      for (T& x : *numbers) x = T(static_cast<real>(next() * 2 - 1));
    for (real& x : weights) x = static_cast<real>(2 * next() / static_cast<double>(shape.points()));
    if (queries > 0) {
      for (index_t q = 0; q < queries; ++q) {
        const double x = next(), y = next(), w = 0.05 + 0.3 * next(), h = 0.05 + 0.3 * next();
        for (index_t k = 0; k < heads * shape.points(); ++k)
          add_point(x + w * (next() - 0.5), y + h * (next() - 0.5));
      }
      return;
    }
    for (const attention_level& of : levels)
      for (index_t y = 0; y < of.height; ++y)
        for (index_t x = 0; x < of.width; ++x)
          add_points_around((static_cast<double>(x) + 0.5) / static_cast<double>(of.width),
                            (static_cast<double>(y) + 0.5) / static_cast<double>(of.height));
  }

  void forward(threading policy) {
    deformable_attention(vector_view<const T>(value), points, weights, vector_view<T>(out), shape,
                         workspace, policy);
  }
  void backward(threading policy) {
    deformable_attention_grads<T> grads;
    grads.points = vector_view<real>(grad.data(), points.size());
    grads.weights = vector_view<real>(grad.data() + points.size(), weights.size());
    if constexpr (std::is_same<T, real>::value)
      grads.value = vector_view<T>(grad.data() + 3 * weights.size(), value.size());
    else
      grads.value = value_grad;
    deformable_attention_grad(vector_view<const T>(upstream), value, points, weights, grads, shape,
                              workspace, policy);
  }

 private:
  void add_point(double x, double y) {
    points.push_back(static_cast<real>(x));
    points.push_back(static_cast<real>(y));
  }
  void add_points_around(double x, double y) {
    for (index_t h = 0; h < heads; ++h) {
      const double angle = static_cast<double>(h) * 0.7853981633974483;
      for (const attention_level& level : levels)
        for (index_t k = 1; k <= level.points; ++k) {
          const auto away = static_cast<double>(k);
          add_point(x + (away * std::cos(angle) + off()) / static_cast<double>(level.width),
                    y + (away * std::sin(angle) + off()) / static_cast<double>(level.height));
        }
    }
  }
  /// A random offset in locations, with mean 0 and variance 1.
  double off() { return 2 * (next() + next() + next() - 1.5); }
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  std::uint64_t state_ = 1;
};

}  // namespace vecdet::bench
