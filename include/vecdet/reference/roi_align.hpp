// SPDX-License-Identifier: Apache-2.0
// RoIAlign in plain scalar double, sample by sample, as in the paper.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/reference/feature_at.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

struct roi_align_options {
  double spatial_scale = 1;
  index_t sampling_ratio = 0;  ///< below 1: adaptive
  bool aligned = false;
};

/// The positions of a box's samples along one axis.
struct roi_axis {
  double start, bin, samples;
  roi_axis(double low, double high, index_t bins, const roi_align_options& options) {
    const double offset = options.aligned ? 0.5 : 0;
    start = low * options.spatial_scale - offset;
    double size = (high * options.spatial_scale - offset) - start;
    if (!options.aligned) size = std::max(size, 1.0);
    bin = size / static_cast<double>(bins);
    samples =
        options.sampling_ratio > 0 ? static_cast<double>(options.sampling_ratio) : std::ceil(bin);
    if (!std::isfinite(start) || !std::isfinite(bin)) samples = 0;
  }
  double position(index_t bin_index, double sample) const {
    return start + static_cast<double>(bin_index) * bin + (sample + 0.5) * bin / samples;
  }
};

/// Calls visit(y, x, weight) for the four locations whose interpolation is the sample at (y, x).
template <class Visit>
void interpolate(double y, double x, index_t height, index_t width, const Visit& visit) {
  const auto beyond = [](double at, index_t size) {
    return at < -1 || at > static_cast<double>(size);
  };
  if (height == 0 || width == 0 || beyond(y, height) || beyond(x, width)) return;
  y = std::min(std::max(y, 0.0), static_cast<double>(height - 1));
  x = std::min(std::max(x, 0.0), static_cast<double>(width - 1));
  const auto top = static_cast<index_t>(y), left = static_cast<index_t>(x);
  const index_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
  const double down = y - static_cast<double>(top), across = x - static_cast<double>(left);
  visit(top, left, (1 - down) * (1 - across));
  visit(top, right, (1 - down) * across);
  visit(bottom, left, down * (1 - across));
  visit(bottom, right, down * across);
}

/// Calls visit(bin's row, bin's column, y, x, weight) for every location that contributes to a
/// box's bins. A box of a million locations has as many samples.
template <class Visit>
void for_each_sample(const double* box, index_t rows, index_t columns, index_t height,
                     index_t width, const roi_align_options& options, const Visit& visit) {
  const roi_axis along_y(box[1], box[3], rows, options), along_x(box[0], box[2], columns, options);
  if (!(along_y.samples > 0 && along_x.samples > 0)) return;
  const double count = along_y.samples * along_x.samples;
  for (index_t p = 0; p < rows; ++p)
    for (index_t q = 0; q < columns; ++q)
      for (double i = 0; i < along_y.samples; ++i)
        for (double j = 0; j < along_x.samples; ++j)
          interpolate(
              along_y.position(p, i), along_x.position(q, j), height, width,
              [&](index_t y, index_t x, double weight) { visit(p, q, y, x, weight / count); });
}

/// One box's bins, channels x rows x columns. With `magnitudes`, the bins of |features|.
template <class T>
std::vector<double> roi_align(const feature_view<const T>& features, index_t image,
                              const double* box, index_t rows, index_t columns,
                              const roi_align_options& options, bool magnitudes = false) {
  std::vector<double> out(static_cast<std::size_t>(features.channels() * rows * columns));
  for_each_sample(box, rows, columns, features.height(), features.width(), options,
                  [&](index_t p, index_t q, index_t y, index_t x, double weight) {
                    if (weight == 0) return;
                    for (index_t c = 0; c < features.channels(); ++c) {
                      const auto f = static_cast<double>(feature_at(features, image, c, y, x));
                      out[static_cast<std::size_t>((c * rows + p) * columns + q)] +=
                          weight * (magnitudes ? std::abs(f) : f);
                    }
                  });
  return out;
}

/// Adds one box's part of the gradient to `grad`, which has the features' layout. `upstream` is
/// channels x rows x columns.
inline void roi_align_grad(const std::vector<double>& upstream, index_t image, const double* box,
                           index_t rows, index_t columns, const roi_align_options& options,
                           const feature_view<double>& grad) {
  for_each_sample(box, rows, columns, grad.height(), grad.width(), options,
                  [&](index_t p, index_t q, index_t y, index_t x, double weight) {
                    if (weight == 0) return;
                    for (index_t c = 0; c < grad.channels(); ++c)
                      feature_at(grad, image, c, y, x) +=
                          weight * upstream[static_cast<std::size_t>((c * rows + p) * columns + q)];
                  });
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
