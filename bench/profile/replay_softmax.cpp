// SPDX-License-Identifier: Apache-2.0
// Replays distribution focal loss, its decoding, and softmax cross entropy on as many rows; mined
// ones as those of one image.
#include "../../test/support/random.hpp"
#include "replay_inputs.hpp"
#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/softmax_cross_entropy.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace {

using namespace vecdet;

struct operands {
  index_t rows, cols;
  std::vector<float> logits, targets, points, out, each;
  std::vector<index_t> labels;
  softmax_cross_entropy_workspace workspace;

  operands(index_t row_count, index_t col_count)
      : rows(row_count),
        cols(col_count),
        out(static_cast<std::size_t>(rows * cols)),
        each(static_cast<std::size_t>(rows)),
        labels(profile::labels_like_training(rows, cols)) {
    test::random_generator generator(3);
    for (index_t i = 0; i < rows * cols; ++i)
      logits.push_back(static_cast<float>(2 * generator.normal()));
    for (index_t i = 0; i < rows; ++i) {
      targets.push_back(static_cast<float>(generator.uniform(0, static_cast<double>(cols) - 1)));
      points.push_back(static_cast<float>(generator.uniform(0, 640)));
    }
    std::replace(labels.begin(), labels.end(), index_t{-1}, index_t{0});
  }
  matrix_view<const float> x() const { return {logits.data(), rows, cols}; }
  matrix_view<float> grad() { return {out.data(), rows, cols}; }
};

profile::replay_call make_distribution(const profile::entry& e, execution policy) {
  const bool is_boxes = e.function == "decode_distribution_boxes";
  const bool decodes = is_boxes || e.function == "decode_distributions";
  const char* const variant = is_boxes ? "boxes" : decodes ? "distances" : "sides";
  if (e.variant != variant || e.type != "f32" || e.shape.size() != 2 || e.shape[1] < 2) return {};
  if (is_boxes && e.shape[0] % 4 != 0) return {};
  const auto data = std::make_shared<operands>(e.shape[0], e.shape[1]);
  if (is_boxes) {
    return [=] {
      const index_t boxes = data->rows / 4;
      decode_distribution_boxes(data->x(), {data->points.data(), boxes, 2},
                                {data->targets.data(), boxes}, data->each, policy);
    };
  }
  if (decodes) return [=] { decode_distributions(data->x(), data->each, policy); };
  if (e.function == "distribution_focal_loss")
    return [=] { distribution_focal_loss(data->x(), data->targets, {}, policy); };
  if (e.function == "distribution_focal_loss_unreduced") {
    return [=] {
      distribution_focal_loss_unreduced(data->x(), data->targets, data->each, {}, policy);
    };
  }
  return
      [=] { distribution_focal_loss_and_grad(data->x(), data->targets, data->grad(), {}, policy); };
}

profile::replay_call make_cross_entropy(const profile::entry& e, execution policy) {
  if (e.type != "f32" || e.shape.size() != 2 || e.shape[1] < 1) return {};
  const bool with_grad = e.function == "softmax_cross_entropy_loss_and_grad";
  const auto negatives = profile::number_after<index_t>("mined", e.variant);
  if (with_grad && negatives) {
    if (*negatives < 0) return {};
    hard_negative_mining mining;
    mining.negatives_per_foreground = *negatives;
    const auto data = std::make_shared<operands>(e.shape[0], e.shape[1]);
    return [=] {
      softmax_cross_entropy_loss_and_grad(data->x(), data->labels, mining, data->grad(), {},
                                          data->workspace, policy);
    };
  }
  if (e.variant != "rows") return {};
  const auto data = std::make_shared<operands>(e.shape[0], e.shape[1]);
  if (with_grad) {
    return [=] {
      softmax_cross_entropy_loss_and_grad(data->x(), data->labels, data->grad(), {}, policy);
    };
  }
  if (e.function == "softmax_cross_entropy_loss")
    return [=] { softmax_cross_entropy_loss(data->x(), data->labels, {}, policy); };
  return [=] {
    softmax_cross_entropy_loss_unreduced(data->x(), data->labels, data->each, {}, policy);
  };
}

const profile::replay_registration registered[] = {
    {"distribution_focal_loss", make_distribution},
    {"distribution_focal_loss_unreduced", make_distribution},
    {"distribution_focal_loss_and_grad", make_distribution},
    {"decode_distributions", make_distribution},
    {"decode_distribution_boxes", make_distribution},
    {"softmax_cross_entropy_loss", make_cross_entropy},
    {"softmax_cross_entropy_loss_unreduced", make_cross_entropy},
    {"softmax_cross_entropy_loss_and_grad", make_cross_entropy},
};

}  // namespace
