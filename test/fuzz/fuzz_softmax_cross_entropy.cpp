// SPDX-License-Identifier: Apache-2.0
// Softmax cross entropy of any numbers under any strides, against the reference; mined rows against
// a sort of the losses.
#include "fuzz_input.hpp"
#include <vecdet/reference/softmax_cross_entropy.hpp>

using namespace vecdet;

void fuzz::target(input& in) {
  const index_t images = in.integer(1, 4), per_image = in.integer(0, 60), rows = images * per_image;
  const index_t classes = in.flag() ? in.integer(1, 30) : in.integer(120, 300);
  const index_t stride = classes + in.one_of<index_t>({0, 0, 1, 5});
  softmax_cross_entropy_params params;
  params.scale = in.one_of({1.0, 1.0 / 37, -2.0});
  params.ignore = in.one_of<index_t>({-2, -100, 7});
  hard_negative_mining mining;
  mining.images = images;
  mining.negatives_per_foreground = in.one_of<index_t>({3, 0, 1, 1000, -1});
  mining.background = in.one_of<index_t>({0, classes - 1});
  std::vector<index_t> labels;
  for (index_t i = 0; i < rows; ++i)
    labels.push_back(in.one_of<index_t>(
        {mining.background, mining.background, params.ignore, in.integer(0, classes - 1)}));
  const auto logits = in.numbers<float>(rows == 0 ? 0 : (rows - 1) * stride + classes);
  const matrix_view<const float> x(logits.data(), rows, classes, stride);
  const tensor<float> out(logits.size()), mined(logits.size()), each(rows);
  const matrix_view<float> grad(out.data(), rows, classes, stride);
  const matrix_view<float> mined_view(mined.data(), rows, classes, stride);
  softmax_cross_entropy_workspace workspace;
  on_every_isa(
      "softmax cross entropy",
      [&](results& results) {
        softmax_cross_entropy_params unscaled = params;
        unscaled.scale = 1;
        softmax_cross_entropy_loss_unreduced(x, labels, each, unscaled, threading::sequential);
        results.add(
            softmax_cross_entropy_loss_and_grad(x, labels, grad, params, threading::parallel));
        results.add(softmax_cross_entropy_loss_and_grad(x, labels, mining, mined_view, params,
                                                        workspace, threading::parallel));
        for (index_t image = 0; image < images; ++image) {
          const index_t first = image * per_image;
          const std::vector<double> losses(each.begin() + first, each.begin() + first + per_image);
          const auto counted =
              reference::mined_rows(losses, {labels.data() + first, per_image}, mining.background,
                                    params.ignore, mining.negatives_per_foreground);
          for (index_t i = 0; i < per_image; ++i) {
            const bool counts = std::binary_search(counted.begin(), counted.end(), i);
            for (index_t c = 0; c < classes; ++c) {
              const double all = static_cast<double>(grad(first + i, c));
              if (!same_number(static_cast<double>(mined_view(first + i, c)), counts ? all : 0.0))
                fail("the mined rows differ from those of a sort");
              results.add(all);
            }
          }
        }
      },
      [&](const char* set, const std::vector<double>& values) {
        std::vector<double> exact(static_cast<std::size_t>(classes));
        for (index_t i = 0; i < rows; ++i) {
          const index_t label = labels[static_cast<std::size_t>(i)];
          std::fill(exact.begin(), exact.end(), 0.0);
          if (label != params.ignore)
            reference::softmax_cross_entropy({x.row(i), classes}, label, exact);
          for (index_t c = 0; c < classes; ++c)
            expect_near([&] { return std::string("gradient of softmax cross entropy on ") + set; },
                        values[static_cast<std::size_t>(2 + i * classes + c)],
                        params.scale * exact[static_cast<std::size_t>(c)], 1e-6,
                        1e-6 * std::abs(params.scale) + 1e-36);
        }
      });
}
