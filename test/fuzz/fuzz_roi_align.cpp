// SPDX-License-Identifier: Apache-2.0
// RoIAlign of any boxes on a map of any shape and numbers, in either layout, forward and backward,
// on one map and on a pyramid, against the reference.
#include "fuzz_input.hpp"
#include "support/roi_problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace vecdet;

namespace {

/// Whether the reference, which visits every sample, finishes in time. Boxes with NaN or infinity
/// have few samples.
template <class Problem>
bool is_small(const Problem& p) {
  bool all_small = true;
  p.for_each_box([&](index_t, index_t, const double* box) {
    const auto is_finite = [](double x) { return std::isfinite(x); };
    const auto is_near = [&](double x) { return std::abs(x) * p.params.spatial_scale <= 300; };
    all_small =
        all_small && (!std::all_of(box, box + 4, is_finite) || std::all_of(box, box + 4, is_near));
  });
  return all_small;
}

template <class T>
void fuzz_type(fuzz::input& in) {
  using real = compute_type<T>;
  test::roi_problem<T, fuzz::guarded> p;
  p.images = in.integer(1, 2);
  p.channels = in.one_of<index_t>({1, 3, 16, 19, 70});
  p.height = in.integer(0, 12);
  p.width = in.one_of<index_t>({1, 5, 16, 17, 33, 0});
  const index_t count = in.integer(0, 6);
  p.rows = in.integer(0, 8);
  p.columns = in.one_of<index_t>({7, 1, 2, 14, 16, 17, 33, 0});
  p.layout = in.flag() ? feature_layout::nchw : feature_layout::nhwc;
  p.params.spatial_scale = in.one_of({1.0, 0.25, 1.0 / 3});
  p.params.sampling_ratio = in.one_of<index_t>({0, 2, 1, 3, -1, 7});
  p.params.aligned = in.flag();
  p.params.add_to_grad = in.flag();
  // Coordinates mostly near the map, or any.
  const double extent = static_cast<double>(std::max(p.height, p.width)) / p.params.spatial_scale;
  p.boxes = fuzz::guarded<real>(static_cast<std::size_t>(4 * count));
  for (std::size_t i = 0; i < p.boxes.size(); i += 4) {
    const bool is_any = in.byte() < 24;
    for (std::size_t k = i; k < i + 4; ++k)
      p.boxes[k] =
          is_any ? in.number<real>() : static_cast<real>(in.tame(-0.5 * extent, 1.5 * extent));
  }
  for (index_t i = 0; i < count; ++i)
    p.image.push_back(static_cast<int>(in.integer(0, p.images - 1)));
  in.fill(p.features, p.images * p.channels * p.height * p.width);
  in.fill(p.upstream, count * p.channels * p.rows * p.columns);

  const bool is_known = is_small(p);
  test::exact_bins exact, exact_grad;
  if (is_known) {
    exact = p.exact();
    exact_grad = p.exact_grad();
  }
  // Sums near the end of float's range may overflow.
  const double most = 1e30, within = std::is_same<T, double>::value  ? 1e-9
                                     : std::is_same<T, float>::value ? 2e-5
                                                                     : 0x1p-7;
  const auto check = [&](const char* what, const fuzz::guarded<T>& actual,
                         const test::exact_bins& expected) {
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      if (!(expected.magnitudes[i] < most)) continue;
      fuzz::expect_near([&] { return what; }, static_cast<double>(actual[i]), expected.values[i], 0,
                        within * expected.magnitudes[i] + 1e-36);
    }
  };
  // Two levels of the same size: the only difference is which boxes belong to which.
  const std::vector<double> scales{0.5, 0.25};
  multiscale_roi_align_params pyramid_params;
  pyramid_params.scales = scales;
  pyramid_params.sampling_ratio = p.params.sampling_ratio;
  pyramid_params.aligned = p.params.aligned;
  pyramid_params.canonical_size = 8;
  pyramid_params.canonical_level = 1;
  const auto features = p.laid_features(), upstream = p.laid_upstream();
  fuzz::guarded<T> out(upstream.size()), grad(features.size()), other(features.size());
  const std::vector<feature_view<const T>> maps(2, p.map(features.data(), p.layout));
  const std::vector<feature_view<T>> grads{p.map(grad.data(), p.layout),
                                           p.map(other.data(), p.layout)};
  roi_align_workspace workspace;
  fuzz::on_every_isa("RoIAlign", [&](fuzz::results& results) {
    const auto found = p.forward();
    check("RoIAlign", found, exact);
    results.add(found);
    const auto found_grad = p.backward(fuzz::guarded<T>(features.size(), test::to<T>(0)));
    check("the gradient of RoIAlign", found_grad, exact_grad);
    results.add(found_grad);
    multiscale_roi_align(vector_view<const feature_view<const T>>(maps), p.call_boxes(),
                         p.bins(out.data(), p.layout), pyramid_params, workspace,
                         threading::parallel);
    results.add(out);
    multiscale_roi_align_grad(p.bins(upstream.data(), p.layout), p.call_boxes(),
                              vector_view<const feature_view<T>>(grads), pyramid_params, workspace,
                              threading::parallel);
    results.add(grad);
    results.add(other);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}
