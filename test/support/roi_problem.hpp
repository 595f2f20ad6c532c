// SPDX-License-Identifier: Apache-2.0
// A problem of RoIAlign, with the results of the functions and of the reference. Arrays are in
// NCHW; calls use the problem's layout.
#pragma once

#include "random.hpp"
#include "values.hpp"
#include <vecdet/reference/roi_align.hpp>
#include <vecdet/roi_align.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace vecdet::test {

struct exact_bins {
  std::vector<double> values, magnitudes;  ///< sums of the terms' magnitudes
};

template <class T>
std::vector<T> in_layout(const std::vector<T>& from, index_t images, index_t channels,
                         index_t locations, feature_layout layout, bool back = false) {
  if (layout == feature_layout::nchw) return from;
  std::vector<T> to(from.size());
  for (index_t n = 0; n < images; ++n)
    for (index_t c = 0; c < channels; ++c)
      for (index_t i = 0; i < locations; ++i) {
        const auto planes = static_cast<std::size_t>((n * channels + c) * locations + i);
        const auto last = static_cast<std::size_t>((n * locations + i) * channels + c);
        (back ? to[planes] : to[last]) = back ? from[last] : from[planes];
      }
  return to;
}

template <class T>
struct roi_problem {
  using real = compute_type<T>;
  index_t images = 2, channels = 3, height = 19, width = 21, rows = 7, columns = 7;
  feature_layout layout = feature_layout::nchw;
  roi_align_params params;
  threading policy = threading::parallel;
  std::vector<T> features, upstream;
  std::vector<real> boxes;
  std::vector<int> image;
  std::vector<index_t> offsets;
  bool no_images = false;

  index_t count() const { return static_cast<index_t>(boxes.size()) / 4; }
  std::string name() const {
    return std::string(dtype_name<T>()) + (layout == feature_layout::nchw ? " nchw" : " nhwc") +
           " sampling " + std::to_string(params.sampling_ratio) + " aligned " +
           std::to_string(params.aligned) + " channels " + std::to_string(channels) + " map " +
           std::to_string(height) + "x" + std::to_string(width) + " bins " + std::to_string(rows) +
           "x" + std::to_string(columns);
  }

  /// Features, and boxes that are mostly inside the map.
  void make(index_t number_of_boxes, std::uint64_t seed) {
    random_generator generator(seed);
    features.resize(static_cast<std::size_t>(images * channels * height * width));
    for (T& f : features) f = to<T>(generator.normal());
    for (index_t i = 0; i < number_of_boxes; ++i) {
      const double w = static_cast<double>(width) / params.spatial_scale;
      const double h = static_cast<double>(height) / params.spatial_scale;
      const double x = generator.uniform(-0.2 * w, w), y = generator.uniform(-0.2 * h, h);
      for (const double v : {x, y, x + generator.uniform() * w, y + generator.uniform() * h})
        boxes.push_back(static_cast<real>(v));
    }
    place_boxes(seed + 1);
  }
  /// Chooses the boxes' images, and the upstream gradient of their bins.
  void place_boxes(std::uint64_t seed) {
    random_generator generator(seed);
    image.clear();
    for (index_t i = 0; i < count(); ++i)
      image.push_back(static_cast<int>(generator.below(images)));
    upstream.resize(static_cast<std::size_t>(count() * channels * rows * columns));
    for (T& u : upstream) u = to<T>(generator.normal());
  }
  void drop_boxes_above(double size) {
    std::vector<real> kept;
    for (index_t i = 0; i < count(); ++i) {
      const real* const b = boxes.data() + 4 * i;
      if (std::abs(static_cast<double>(b[2]) - static_cast<double>(b[0])) > size) continue;
      kept.insert(kept.end(), b, b + 4);
    }
    boxes = kept;
    place_boxes(6);
  }

  T& feature(index_t n, index_t c, index_t y, index_t x) {
    return features[static_cast<std::size_t>(((n * channels + c) * height + y) * width + x)];
  }

  roi_boxes<real> call_boxes() const {
    roi_boxes<real> result{boxes_view<const real>(boxes.data(), count())};
    if (!offsets.empty()) {
      result.image_offsets = offsets;
    } else if (!no_images) {
      result.images = image;
    }
    return result;
  }

  // In the layout of the calls.

  void run_forward(std::vector<T>& out, roi_align_workspace& workspace) const {
    const auto map = in_layout(features, images, channels, height * width, layout);
    run_forward(map, out, workspace);
  }
  void run_backward(std::vector<T>& grad, roi_align_workspace& workspace) const {
    const auto bins = in_layout(upstream, count(), channels, rows * columns, layout);
    run_backward(bins, grad, workspace);
  }
  void run_forward(const std::vector<T>& map, std::vector<T>& out,
                   roi_align_workspace& workspace) const {
    roi_align(feature_view<const T>(map.data(), images, channels, height, width, layout),
              call_boxes(), feature_view<T>(out.data(), count(), channels, rows, columns, layout),
              params, workspace, policy);
  }
  void run_backward(const std::vector<T>& bins, std::vector<T>& grad,
                    roi_align_workspace& workspace) const {
    roi_align_grad(feature_view<const T>(bins.data(), count(), channels, rows, columns, layout),
                   call_boxes(),
                   feature_view<T>(grad.data(), images, channels, height, width, layout), params,
                   workspace, policy);
  }

  std::vector<T> forward() const {
    roi_align_workspace workspace;
    std::vector<T> out(static_cast<std::size_t>(count() * channels * rows * columns), to<T>(77));
    run_forward(out, workspace);
    return in_layout(out, count(), channels, rows * columns, layout, true);
  }
  std::vector<T> backward() const {
    return backward(
        std::vector<T>(static_cast<std::size_t>(images * channels * height * width), to<T>(77)));
  }
  std::vector<T> backward(std::vector<T> grad) const {
    roi_align_workspace workspace;
    run_backward(grad, workspace);
    return in_layout(grad, images, channels, height * width, layout, true);
  }

  reference::roi_align_options options() const {
    return {params.spatial_scale, params.sampling_ratio, params.aligned};
  }
  template <class Use>
  void for_each_box(const Use& use) const {
    for (index_t i = 0; i < count(); ++i) {
      double box[4];
      for (int k = 0; k < 4; ++k)
        box[k] = static_cast<double>(boxes[static_cast<std::size_t>(4 * i + k)]);
      use(i, no_images ? 0 : image[static_cast<std::size_t>(i)], box);
    }
  }
  exact_bins exact() const {
    const feature_view<const T> map(features.data(), images, channels, height, width,
                                    feature_layout::nchw);
    exact_bins result;
    for_each_box([&](index_t, index_t n, const double* box) {
      for (const bool magnitudes : {false, true}) {
        const auto bins = reference::roi_align(map, n, box, rows, columns, options(), magnitudes);
        auto& to_bins = magnitudes ? result.magnitudes : result.values;
        to_bins.insert(to_bins.end(), bins.begin(), bins.end());
      }
    });
    return result;
  }
  exact_bins exact_grad() const {
    exact_bins result;
    for (auto* grad : {&result.values, &result.magnitudes}) {
      grad->resize(static_cast<std::size_t>(images * channels * height * width));
      const feature_view<double> map(grad->data(), images, channels, height, width,
                                     feature_layout::nchw);
      for_each_box([&](index_t i, index_t n, const double* box) {
        std::vector<double> bins;
        for (index_t k = 0; k < channels * rows * columns; ++k) {
          const auto u = static_cast<double>(
              upstream[static_cast<std::size_t>(i * channels * rows * columns + k)]);
          bins.push_back(grad == &result.magnitudes ? std::abs(u) : u);
        }
        reference::roi_align_grad(bins, n, box, rows, columns, options(), map);
      });
    }
    return result;
  }
  /// The weight that each bin gives to one feature.
  std::vector<double> exact_touch(index_t n, index_t c, index_t y, index_t x) const {
    roi_problem one = *this;
    for (T& f : one.features) f = to<T>(0);
    one.feature(n, c, y, x) = to<T>(1);
    return one.exact().values;
  }
};

}  // namespace vecdet::test
