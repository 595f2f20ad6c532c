// SPDX-License-Identifier: Apache-2.0
// The reference of RoIAlign against torchvision's results in double.
#include "support/data.hpp"
#include <vecdet/reference/roi_align.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

TEST_CASE("reference RoIAlign: equals torchvision's results") {
  if (!has_data("golden_step/roi_out_0.npy", "reference RoIAlign: torchvision's results")) return;
  const auto features = golden_step<float>("roi_features"), rois = golden_step<float>("roi_boxes");
  const auto upstream = golden_step<float>("roi_upstream");
  const index_t boxes = 40, channels = 5, height = 25, width = 20, rows = 7, columns = 5;
  const index_t bins = channels * rows * columns;
  const feature_view<const float> map(features.values.data(), 2, channels, height, width,
                                      feature_layout::nchw);
  int variant = 0;
  for (const auto& [aligned, sampling] : std::vector<std::pair<bool, index_t>>{
           {true, 2}, {false, 2}, {true, -1}, {false, -1}, {true, 3}}) {
    const std::string number = std::to_string(variant++);
    INFO("variant ", number);
    const auto expected = golden_step<double>("roi_out_" + number);
    const auto expected_grad = golden_step<double>("roi_grad_" + number);
    const reference::roi_align_options options{0.125, sampling, aligned};
    std::vector<double> grad(expected_grad.values.size());
    double worst = 0, worst_grad = 0;
    for (index_t i = 0; i < boxes; ++i) {
      const float* const roi = rois.values.data() + 5 * i;
      const double box[] = {roi[1], roi[2], roi[3], roi[4]};
      const auto image = static_cast<index_t>(roi[0]);
      const auto out = reference::roi_align(map, image, box, rows, columns, options);
      for (index_t k = 0; k < bins; ++k)
        worst = std::max(worst, std::abs(out[static_cast<std::size_t>(k)] -
                                         expected.values[static_cast<std::size_t>(i * bins + k)]));
      const float* const from = upstream.values.data() + i * bins;
      reference::roi_align_grad(
          std::vector<double>(from, from + bins), image, box, rows, columns, options,
          feature_view<double>(grad.data(), 2, channels, height, width, feature_layout::nchw));
    }
    for (std::size_t k = 0; k < grad.size(); ++k)
      worst_grad = std::max(worst_grad, std::abs(grad[k] - expected_grad.values[k]));
    CHECK(worst < 1e-14);
    CHECK(worst_grad < 1e-13);
  }
}

TEST_CASE("reference RoIAlign: a sample between four locations") {
  const std::vector<double> map{0, 1, 10, 11};
  const feature_view<const double> view(map.data(), 1, 1, 2, 2, feature_layout::nchw);
  const double box[] = {0, 0, 1, 0.5};
  reference::roi_align_options options;
  options.sampling_ratio = 1;
  options.aligned = false;  // one location high: the sample is at (0.5, 0.5)
  CHECK(reference::roi_align(view, 0, box, 1, 1, options)[0] == 5.5);
  options.aligned = true;  // at (0, -0.25), which the border's row extends to
  CHECK(reference::roi_align(view, 0, box, 1, 1, options)[0] == 0);
  options.spatial_scale = 2;  // at (0.5, 0)
  CHECK(reference::roi_align(view, 0, box, 1, 1, options)[0] == 0.5);
}
