// SPDX-License-Identifier: Apache-2.0
// RoIAlign of any boxes on a map of any shape and numbers, in either layout, forward and backward,
// on one map and on a pyramid, against the reference.
#include "fuzz_input.hpp"
#include <vecdet/reference/roi_align.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace vecdet;

namespace {

/// Coordinates mostly near the map, or any.
template <class Real>
fuzz::tensor<Real> any_boxes(fuzz::input& in, index_t count, double extent) {
  std::vector<Real> boxes;
  for (index_t i = 0; i < count; ++i) {
    const bool is_any = in.byte() < 24;
    for (int k = 0; k < 4; ++k)
      boxes.push_back(is_any ? in.number<Real>()
                             : static_cast<Real>(in.tame(-0.5 * extent, 1.5 * extent)));
  }
  return fuzz::tensor<Real>(boxes);
}

/// Whether the reference, which visits every sample, finishes in time.
bool is_small(const double* box, const reference::roi_align_options& options) {
  for (int k = 0; k < 4; ++k)
    if (std::abs(box[k]) * options.spatial_scale > 300) return false;
  return true;
}

template <class T>
void fuzz_type(fuzz::input& in) {
  using real = compute_type<T>;
  const index_t images = in.integer(1, 2), channels = in.one_of<index_t>({1, 3, 16, 19, 70});
  const index_t height = in.integer(0, 12), width = in.one_of<index_t>({1, 5, 16, 17, 33, 0});
  const index_t count = in.integer(0, 6);
  const index_t rows = in.integer(0, 8), columns = in.one_of<index_t>({7, 1, 2, 14, 16, 17, 33, 0});
  const feature_layout layout = in.flag() ? feature_layout::nchw : feature_layout::nhwc;
  roi_align_params params;
  params.spatial_scale = in.one_of({1.0, 0.25, 1.0 / 3});
  params.sampling_ratio = in.one_of<index_t>({0, 2, 1, 3, -1, 7});
  params.aligned = in.flag();
  params.add_to_grad = in.flag();
  const double extent = static_cast<double>(std::max(height, width)) / params.spatial_scale;
  const auto corners = any_boxes<real>(in, count, extent);
  std::vector<index_t> image;
  for (index_t i = 0; i < count; ++i) image.push_back(in.integer(0, images - 1));
  const auto features = in.numbers<T>(images * channels * height * width);
  const auto upstream = in.numbers<T>(count * channels * rows * columns);
  const fuzz::tensor<T> out(upstream.size()), grad(features.size()), other(features.size());
  const roi_boxes<real> boxes{boxes_view<const real>(corners.data(), count), image};
  const feature_view<const T> map(features.data(), images, channels, height, width, layout);
  const feature_view<const T> upstream_view(upstream.data(), count, channels, rows, columns,
                                            layout);
  const feature_view<T> bins(out.data(), count, channels, rows, columns, layout);
  const feature_view<T> grad_view(grad.data(), images, channels, height, width, layout);

  const reference::roi_align_options options{params.spatial_scale, params.sampling_ratio,
                                             params.aligned};
  bool is_known = true;
  std::vector<double> exact(static_cast<std::size_t>(out.size())), size(exact);
  std::vector<double> exact_grad(static_cast<std::size_t>(grad.size())), grad_size(exact_grad);
  for (index_t i = 0; i < count && is_known; ++i) {
    double box[4];
    for (std::size_t k = 0; k < 4; ++k)
      box[k] = static_cast<double>(corners[static_cast<std::size_t>(4 * i) + k]);
    bool is_finite = true;
    for (const double x : box) is_finite = is_finite && std::isfinite(x);
    if (!is_finite) continue;
    is_known = is_small(box, options);
    if (!is_known) break;
    reference::for_each_sample(
        box, rows, columns, height, width, options,
        [&](index_t p, index_t q, index_t y, index_t x, double weight) {
          if (weight == 0) return;
          for (index_t c = 0; c < channels; ++c) {
            const index_t n = image[static_cast<std::size_t>(i)];
            const auto at =
                static_cast<std::size_t>(&reference::feature_at(map, n, c, y, x) - features.data());
            const auto bin = static_cast<std::size_t>(
                &reference::feature_at(upstream_view, i, c, p, q) - upstream.data());
            const double f = weight * static_cast<double>(features[at]);
            const double g = weight * static_cast<double>(upstream[bin]);
            exact[bin] += f;
            size[bin] += std::abs(f);
            exact_grad[at] += g;
            grad_size[at] += std::abs(g);
          }
        });
  }
  // Sums near the end of float's range may overflow.
  const double most = 1e30, within = std::is_same<T, double>::value  ? 1e-9
                                     : std::is_same<T, float>::value ? 2e-5
                                                                     : 0x1p-7;
  const auto check = [&](const char* what, const fuzz::tensor<T>& actual,
                         const std::vector<double>& expected, const std::vector<double>& sum) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!(sum[i] < most)) continue;
      fuzz::expect_near([&] { return what; }, static_cast<double>(actual[i]), expected[i], 0,
                        within * sum[i] + 1e-36);
    }
  };
  roi_align_workspace workspace;
  fuzz::on_every_isa("RoIAlign", [&](fuzz::results& results) {
    roi_align(map, boxes, bins, params, workspace, threading::parallel);
    if (is_known) check("RoIAlign", out, exact, size);
    results.add(out);
    for (T& g : grad) g = test::to<T>(0);
    roi_align_grad(upstream_view, boxes, grad_view, params, workspace, threading::parallel);
    if (is_known) check("the gradient of RoIAlign", grad, exact_grad, grad_size);
    results.add(grad);
    // Two levels of the same size: the only difference is which boxes belong to which.
    const std::vector<double> scales{0.5, 0.25};
    multiscale_roi_align_params pyramid_params;
    pyramid_params.scales = scales;
    pyramid_params.sampling_ratio = params.sampling_ratio;
    pyramid_params.aligned = params.aligned;
    pyramid_params.canonical_size = 8;
    pyramid_params.canonical_level = 1;
    const std::vector<feature_view<const T>> maps{map, map};
    const std::vector<feature_view<T>> grads{
        grad_view, {other.data(), images, channels, height, width, layout}};
    multiscale_roi_align(vector_view<const feature_view<const T>>(maps), boxes, bins,
                         pyramid_params, workspace, threading::parallel);
    results.add(out);
    multiscale_roi_align_grad(upstream_view, boxes, vector_view<const feature_view<T>>(grads),
                              pyramid_params, workspace, threading::parallel);
    results.add(grad);
    results.add(other);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}
