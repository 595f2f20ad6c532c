// SPDX-License-Identifier: Apache-2.0
// A problem of RoIAlign, with the results of the functions and of the reference. Arrays are in
// NCHW; calls use the problem's layout.
#pragma once

#include "random.hpp"
#include "relaid.hpp"
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

/// Equal if all bits are.
template <class T>
struct roi_results {
  std::vector<T> out, grad;

  bool operator==(const roi_results& other) const {
    return same_bits(out, other.out) && same_bits(grad, other.grad);
  }
};

template <class T, template <class> class Vector = in_heap>
struct roi_problem {
  using real = compute_type<T>;
  index_t images = 2, channels = 3, height = 19, width = 21, rows = 7, columns = 7;
  feature_layout layout = feature_layout::nchw;
  roi_align_params params;
  threading policy = threading::parallel;
  Vector<T> features, upstream;
  Vector<real> boxes;
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
    Vector<real> kept;
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

  /// Views of arrays in NCHW, or in the layout of the calls.
  template <class U>
  feature_view<U> map(U* data, feature_layout how) const {
    return {data, images, channels, height, width, how};
  }
  template <class U>
  feature_view<U> bins(U* data, feature_layout how) const {
    return {data, count(), channels, rows, columns, how};
  }
  Vector<T> laid_features() const { return relaid(features, map(features.data(), nchw), layout); }
  Vector<T> laid_upstream() const { return relaid(upstream, bins(upstream.data(), nchw), layout); }

  /// On arrays in the layout of the calls.
  void run_forward(const Vector<T>& from, Vector<T>& out, roi_align_workspace& workspace) const {
    roi_align(map(from.data(), layout), call_boxes(), bins(out.data(), layout), params, workspace,
              policy);
  }
  void run_backward(const Vector<T>& from, Vector<T>& grad, roi_align_workspace& workspace) const {
    roi_align_grad(bins(from.data(), layout), call_boxes(), map(grad.data(), layout), params,
                   workspace, policy);
  }

  Vector<T> forward() const {
    roi_align_workspace workspace;
    Vector<T> out(static_cast<std::size_t>(count() * channels * rows * columns), to<T>(77));
    run_forward(laid_features(), out, workspace);
    return relaid(out, bins(out.data(), layout), nchw);
  }
  Vector<T> backward() const {
    return backward(
        Vector<T>(static_cast<std::size_t>(images * channels * height * width), to<T>(77)));
  }
  Vector<T> backward(Vector<T> grad) const {
    roi_align_workspace workspace;
    run_backward(laid_upstream(), grad, workspace);
    return relaid(grad, map(grad.data(), layout), nchw);
  }
  roi_results<T> run() const { return {forward(), backward()}; }

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
    exact_bins result;
    for_each_box([&](index_t, index_t n, const double* box) {
      for (const bool magnitudes : {false, true}) {
        const auto found = reference::roi_align(map(features.data(), nchw), n, box, rows, columns,
                                                options(), magnitudes);
        auto& to_bins = magnitudes ? result.magnitudes : result.values;
        to_bins.insert(to_bins.end(), found.begin(), found.end());
      }
    });
    return result;
  }
  exact_bins exact_grad() const {
    exact_bins result;
    for (auto* grad : {&result.values, &result.magnitudes}) {
      grad->resize(static_cast<std::size_t>(images * channels * height * width));
      for_each_box([&](index_t i, index_t n, const double* box) {
        std::vector<double> arriving;
        for (index_t k = 0; k < channels * rows * columns; ++k) {
          const auto u = static_cast<double>(
              upstream[static_cast<std::size_t>(i * channels * rows * columns + k)]);
          arriving.push_back(grad == &result.magnitudes ? std::abs(u) : u);
        }
        reference::roi_align_grad(arriving, n, box, rows, columns, options(),
                                  map(grad->data(), nchw));
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

 private:
  static constexpr feature_layout nchw = feature_layout::nchw;
};

}  // namespace vecdet::test
