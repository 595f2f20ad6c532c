// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss of 500 foreground boxes' sides, the decoding of a detector's 8400 boxes,
// and softmax cross entropy of four images of SSD300, all rows and mined.
#include "../test/support/random.hpp"
#include "plain/softmax.hpp"
#include "support/implementations.hpp"
#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/softmax_cross_entropy.hpp>

#include <memory>
#include <vector>

namespace vecdet::bench {
namespace {

struct softmax_rows {
  index_t rows, cols;
  std::vector<float> logits, targets, points, strides, out;
  std::vector<index_t> labels;

  softmax_rows(index_t row_count, index_t col_count, std::size_t results)
      : rows(row_count), cols(col_count), out(results) {
    test::random_generator generator(3);
    for (index_t i = 0; i < rows * cols; ++i)
      logits.push_back(static_cast<float>(2 * generator.normal()));
    for (index_t i = 0; i < rows; ++i) {
      targets.push_back(static_cast<float>(generator.uniform(0, static_cast<double>(cols) - 1.01)));
      points.push_back(static_cast<float>(generator.uniform(0, 640)));
      strides.push_back(static_cast<float>(8 << generator.below(3)));
      // A default box in 400 is foreground.
      labels.push_back(generator.chance(1.0 / 400) ? 1 + generator.below(cols - 1) : 0);
    }
  }
  matrix_view<const float> x() const { return {logits.data(), rows, cols}; }
  matrix_view<float> grad() { return {out.data(), rows, cols}; }
};

auto rows_with_grad(index_t rows, index_t cols) {
  return [=] {
    return std::make_shared<softmax_rows>(rows, cols, static_cast<std::size_t>(rows * cols));
  };
}

constexpr index_t sides = 4 * 8400, bins = 16;
constexpr index_t images = 4, per_image = 8732, rows = images * per_image, classes = 21;

const bool registered = [] {
  register_with_plain(
      "distribution_focal_loss_and_grad/sides/f32/2000x17", {2000 * 17, 2000 * (17 * 8 + 4)},
      rows_with_grad(2000, 17),
      [](softmax_rows& data, threading policy) {
        return distribution_focal_loss_and_grad(data.x(), data.targets, data.grad(), {}, policy);
      },
      [](softmax_rows& data) {
        return VECDET_PLAIN(plain_distribution_focal_loss)(data.logits.data(), data.targets.data(),
                                                           data.out.data(), data.rows, data.cols);
      },
      &softmax_rows::out);
  register_with_plain(
      "decode_distributions/distances/f32/33600x16", {sides * bins, sides * (bins + 1) * 4},
      [] { return std::make_shared<softmax_rows>(sides, bins, std::size_t{sides}); },
      [](softmax_rows& data, threading policy) {
        decode_distributions(data.x(), data.out, policy);
      },
      [](softmax_rows& data) {
        VECDET_PLAIN(plain_decode_distributions)
        (data.logits.data(), data.out.data(), data.rows, data.cols);
      },
      &softmax_rows::out);
  register_with_plain(
      "decode_distribution_boxes/boxes/f32/33600x16", {sides * bins, sides * (bins + 1.75) * 4},
      [] { return std::make_shared<softmax_rows>(sides, bins, std::size_t{sides}); },
      [](softmax_rows& data, threading policy) {
        decode_distribution_boxes(data.x(), {data.points.data(), sides / 4, 2},
                                  {data.strides.data(), sides / 4}, data.out, policy);
      },
      [](softmax_rows& data) {
        VECDET_PLAIN(plain_decode_distribution_boxes)
        (data.logits.data(), data.points.data(), data.strides.data(), data.out.data(), sides / 4,
         bins);
      },
      &softmax_rows::out);
  register_with_plain(
      "softmax_cross_entropy_loss_and_grad/rows/f32/34928x21",
      {rows * classes, rows * (classes * 8 + 8)}, rows_with_grad(rows, classes),
      [](softmax_rows& data, threading policy) {
        return softmax_cross_entropy_loss_and_grad(data.x(), data.labels, data.grad(), {}, policy);
      },
      [](softmax_rows& data) {
        return VECDET_PLAIN(plain_softmax_cross_entropy)(data.logits.data(), data.labels.data(),
                                                         data.out.data(), rows, classes);
      },
      &softmax_rows::out);
  register_with_plain(
      "softmax_cross_entropy_loss_and_grad/mined3/f32/34928x21",
      {rows * classes, rows * (classes * 8 + 8)}, rows_with_grad(rows, classes),
      [](softmax_rows& data, threading policy) {
        static softmax_cross_entropy_workspace workspace;
        hard_negative_mining mining;
        mining.images = images;
        return softmax_cross_entropy_loss_and_grad(data.x(), data.labels, mining, data.grad(), {},
                                                   workspace, policy);
      },
      [](softmax_rows& data) {
        return VECDET_PLAIN(plain_mined_softmax_cross_entropy)(
            data.logits.data(), data.labels.data(), data.out.data(), images, per_image, classes);
      },
      &softmax_rows::out);
  show_in_figures("distribution_focal_loss_and_grad/sides/f32/2000x17");
  show_in_figures("softmax_cross_entropy_loss_and_grad/mined3/f32/34928x21");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
