// SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention in plain scalar double, point by point, as in arXiv 2010.04159,
// equation 3.
#pragma once

#include <vecdet/attention_shape.hpp>
#include <vecdet/views.hpp>

#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// A location around a point, inside the point's level; there are up to four.
struct attention_corner {
  index_t image, query, head;
  index_t point;      ///< index among all points
  index_t location;   ///< index among all locations of the image and head
  double weight;      ///< bilinear
  double by_x, by_y;  ///< derivatives of the weight with respect to the point's x and y, 0 to 1
};

/// Calls visit(attention_corner) for every corner of every point, in the points' order.
template <class Real, class Visit>
void for_each_attention_corner(const attention_shape& shape, const vector_view<const Real>& points,
                               const Visit& visit) {
  index_t point = 0;
  for (index_t image = 0; image < shape.images; ++image)
    for (index_t query = 0; query < shape.queries; ++query)
      for (index_t head = 0; head < shape.heads; ++head) {
        index_t first_location = 0;
        for (const attention_level& level : shape.levels) {
          const auto width = static_cast<double>(level.width);
          const auto height = static_cast<double>(level.height);
          for (index_t k = 0; k < level.points; ++k, ++point) {
            const double x = static_cast<double>(points[2 * point]) * width - 0.5;
            const double y = static_cast<double>(points[2 * point + 1]) * height - 0.5;
            for (const double down : {0.0, 1.0})
              for (const double across : {0.0, 1.0}) {
                const double column = std::floor(x) + across, row = std::floor(y) + down;
                if (!(column >= 0 && column < width && row >= 0 && row < height)) continue;
                // 1 - |distance| along each axis.
                const double along_x = 1 - std::abs(x - column), along_y = 1 - std::abs(y - row);
                const index_t location = first_location + static_cast<index_t>(row) * level.width +
                                         static_cast<index_t>(column);
                visit(attention_corner{image, query, head, point, location, along_x * along_y,
                                       (across == 0 ? -width : width) * along_y,
                                       (down == 0 ? -height : height) * along_x});
              }
          }
          first_location += level.height * level.width;
        }
      }
}

/// The index of the first channel of a location in the value, and of a query in the output.
inline index_t attention_value_at(const attention_shape& shape, const attention_corner& at) {
  return ((at.image * shape.locations() + at.location) * shape.heads + at.head) * shape.channels;
}
inline index_t attention_output_at(const attention_shape& shape, const attention_corner& at) {
  return ((at.image * shape.queries + at.query) * shape.heads + at.head) * shape.channels;
}

/// Returns images x queries x (heads x channels). With `magnitudes`, returns the sums of the terms'
/// magnitudes instead.
template <class T, class Real>
void deformable_attention(const attention_shape& shape, const vector_view<const T>& value,
                          const vector_view<const Real>& points,
                          const vector_view<const Real>& weights, const vector_view<double>& out,
                          bool magnitudes = false) {
  for (double& x : out) x = 0;
  for_each_attention_corner(shape, points, [&](const attention_corner& at) {
    const index_t from = attention_value_at(shape, at), to = attention_output_at(shape, at);
    for (index_t c = 0; c < shape.channels; ++c) {
      const double term =
          static_cast<double>(weights[at.point]) * at.weight * static_cast<double>(value[from + c]);
      out[to + c] += magnitudes ? std::abs(term) : term;
    }
  });
}

/// The gradients with respect to value, points and weights of a loss whose gradient with respect to
/// the output is `upstream`.
template <class T, class Real>
void deformable_attention_grad(const attention_shape& shape, const vector_view<const T>& upstream,
                               const vector_view<const T>& value,
                               const vector_view<const Real>& points,
                               const vector_view<const Real>& weights,
                               const vector_view<double>& value_grad,
                               const vector_view<double>& point_grad,
                               const vector_view<double>& weight_grad, bool magnitudes = false) {
  for (double& x : value_grad) x = 0;
  for (double& x : point_grad) x = 0;
  for (double& x : weight_grad) x = 0;
  const auto add = [&](double& sum, double term) { sum += magnitudes ? std::abs(term) : term; };
  for_each_attention_corner(shape, points, [&](const attention_corner& at) {
    const index_t from = attention_value_at(shape, at), to = attention_output_at(shape, at);
    const auto weight = static_cast<double>(weights[at.point]);
    for (index_t c = 0; c < shape.channels; ++c) {
      const auto g = static_cast<double>(upstream[to + c]);
      const double sample_term = g * static_cast<double>(value[from + c]);
      add(value_grad[from + c], weight * at.weight * g);
      add(weight_grad[at.point], at.weight * sample_term);
      add(point_grad[2 * at.point], weight * at.by_x * sample_term);
      add(point_grad[2 * at.point + 1], weight * at.by_y * sample_term);
    }
  });
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
