// SPDX-License-Identifier: Apache-2.0
// Losses of scores and distributions, and of a head's levels, against the formulas in torch's own
// operators.
#include "support.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

namespace {

using namespace torch_test;

const at::ScalarType narrow_types[] = {at::kFloat, at::kBFloat16, at::kHalf};

/// Targets of rows with a label and a score.
Tensor scored_rows(const Tensor& labels, const Tensor& scores, std::int64_t classes) {
  return hot_rows(labels, classes) * scores.to(at::kDouble).unsqueeze(-1);
}

Tensor cross_entropy(const Tensor& x, const Tensor& t) {
  return at::binary_cross_entropy_with_logits(x, t, {}, {}, none);
}

}  // namespace

TEST_CASE("Losses of labels with scores") {
  at::manual_seed(21);
  const Tensor labels = at::randint(-2, 5, {47}, at::kLong), scores = at::rand({47});
  const Tensor counted = (labels != -2).to(at::kDouble).unsqueeze(-1);
  const Tensor t = scored_rows(labels, scores, 5), hot = hot_rows(labels, 5);
  for (const at::ScalarType type : types) {
    const Tensor x = at::randn({47, 5}).to(type);
    for (const std::int64_t reduction : reductions) {
      compare(
          [&](const Tensor& z) {
            return ops::quality_focal_loss(z, labels, scores, 2, reduction, 0.5);
          },
          [&](const Tensor& z) {
            const Tensor loss = (z.sigmoid() - t).abs().pow(2) * cross_entropy(z, t) * 0.5;
            return reduced(loss * counted, reduction);
          },
          x);
      for (const bool through : {true, false}) {
        compare(
            [&](const Tensor& z) {
              return ops::varifocal_loss(z, labels, scores, 0.75, 2, through, reduction);
            },
            [&](const Tensor& z) {
              const Tensor p = through ? z.sigmoid() : z.sigmoid().detach();
              const Tensor weight = hot * t + (1 - hot) * p.pow(2) * 0.75;
              return reduced(cross_entropy(z, t) * weight * counted, reduction);
            },
            x);
      }
      compare([&](const Tensor& z) { return ops::bce_loss(z, labels, scores, reduction); },
              [&](const Tensor& z) { return reduced(cross_entropy(z, t) * counted, reduction); },
              x);
    }
  }
  // With more dimensions, and with weights.
  const Tensor x = at::randn({3, 4, 5}, at::kDouble), weights = at::rand({3, 4});
  const Tensor of = at::randint(-1, 5, {3, 4}, at::kInt), score = at::rand({3, 4});
  compare([&](const Tensor& z) { return ops::bce_loss(z, of, score, sum, 1, weights); },
          [&](const Tensor& z) {
            const Tensor dense = scored_rows(of.flatten(), score.flatten(), 5).view({3, 4, 5});
            return (cross_entropy(z, dense) * weights.to(at::kDouble).unsqueeze(-1)).sum();
          },
          x);
}

TEST_CASE("Distributions") {
  at::manual_seed(22);
  const std::int64_t bins = 9;
  const Tensor targets = at::rand({6, 4}) * 8, weights = at::rand({6, 4});
  const auto formula = [&](const Tensor& z) {
    const Tensor low = targets.floor().clamp_max(7), log_p = z.log_softmax(-1);
    const auto bin_loss = [&](const Tensor& bin) {
      return -log_p.gather(-1, bin.to(at::kLong).unsqueeze(-1)).squeeze(-1);
    };
    return bin_loss(low) * (low + 1 - targets) + bin_loss(low + 1) * (targets - low);
  };
  for (const at::ScalarType type : narrow_types) {
    const Tensor x = at::randn({6, 4, bins}).to(type);
    for (const std::int64_t reduction : reductions) {
      compare(
          [&](const Tensor& z) {
            return ops::distribution_focal_loss(z, targets, reduction, 0.5, weights);
          },
          [&](const Tensor& z) { return reduced(formula(z) * weights * 0.5, reduction); }, x);
    }
    const Tensor expected = (x.to(at::kDouble).softmax(-1) * at::arange(bins, at::kDouble)).sum(-1);
    const Tensor distances = ops::decode_distributions(x);
    CHECK((distances.scalar_type() == type));
    CHECK(near(distances, expected));
    const Tensor points = at::rand({6, 2}) * 100, strides = at::full({6}, 8.0f);
    const Tensor boxes = ops::decode_distribution_boxes(x, points, strides);
    CHECK((boxes.scalar_type() == at::kFloat));
    const Tensor sides = expected * 8;
    CHECK(near(boxes, at::cat({points - sides.slice(1, 0, 2), points + sides.slice(1, 2, 4)}, 1)));
  }
}

TEST_CASE("Softmax cross entropy, of all rows and of the hardest negatives") {
  at::manual_seed(23);
  const Tensor labels = at::randint(0, 4, {37}, at::kLong);
  labels.slice(0, 0, 5).fill_(-2);
  for (const at::ScalarType type : narrow_types) {
    const Tensor x = at::randn({37, 4}).to(type);
    for (const std::int64_t reduction : reductions) {
      compare(
          [&](const Tensor& z) { return ops::softmax_cross_entropy_loss(z, labels, reduction); },
          [&](const Tensor& z) { return at::cross_entropy_loss(z, labels, {}, reduction, -2); }, x);
    }
  }
  CHECK(std::isnan(
      ops::softmax_cross_entropy_loss(at::randn({3, 4}), at::full({3}, -2, at::kLong), mean)
          .item<double>()));

  const Tensor x = at::randn({2, 50, 4}), sparse = at::zeros({2, 50}, at::kLong);
  sparse[0].slice(0, 3, 7).fill_(2);
  sparse[1][9] = 1;
  for (const std::int64_t per_foreground : {0, 3, 20}) {
    compare(
        [&](const Tensor& z) {
          return ops::mined_cross_entropy_loss(z, sparse, per_foreground, 0, 0.5);
        },
        [&](const Tensor& z) {
          const Tensor losses =
              at::cross_entropy_loss(z.reshape({100, 4}), sparse.flatten(), {}, none).view({2, 50});
          Tensor total = at::zeros({}, at::kDouble);
          for (std::int64_t image = 0; image < 2; ++image) {
            const Tensor is_foreground = sparse[image] > 0;
            const auto negatives =
                std::get<0>(losses[image].masked_select(~is_foreground).sort(0, true));
            const auto count = per_foreground * is_foreground.sum().item<std::int64_t>();
            total = total + losses[image].masked_select(is_foreground).sum() +
                    negatives.slice(0, 0, count).sum();
          }
          return total * 0.5;
        },
        x);
  }
}

TEST_CASE("The focal loss of a head's levels in place") {
  at::manual_seed(24);
  const std::int64_t classes = 4, anchors = 3 * (30 + 6 + 1);
  const Tensor labels = at::randint(-2, classes, {2, anchors}, at::kLong);
  const Tensor scales = at::tensor({0.5f, 0.125f});
  for (const at::ScalarType type : types) {
    for (const bool channels_last : {false, true}) {
      const head x(classes, channels_last, type);
      std::vector<Tensor> levels = x.tracked(), plain = x.tracked();
      Tensor loss;
      CHECK(copies([&] {
              loss = ops::sigmoid_focal_loss_levels(levels, labels, 0.3, 1.5, 2, scales);
            }) == (type == at::kHalf ? 3 : 0));
      const Tensor expected =
          ops::sigmoid_focal_loss(rows_of(plain, classes), labels, 0.3, 1.5, sum, 2,
                                  scales.unsqueeze(-1).expand({2, anchors}).contiguous());
      CHECK(near(loss, expected));
      const auto grads = torch::autograd::grad({loss * 3}, levels);
      const auto expected_grads = torch::autograd::grad({expected * 3}, plain);
      for (std::size_t l = 0; l < levels.size(); ++l) {
        CHECK(near(grads[l], expected_grads[l]));
        CHECK(grads[l].strides() == levels[l].strides());
        CHECK((grads[l].scalar_type() == type));
      }
      const at::NoGradGuard no_grad;
      CHECK(at::equal(ops::sigmoid_focal_loss_levels(levels, labels, 0.3, 1.5, 2, scales),
                      loss.detach()));
    }
  }
  // If layouts differ, the level with the other layout is copied.
  std::vector<Tensor> mixed = head(classes, true).levels;
  mixed[0] = mixed[0].contiguous();
  Tensor loss;
  CHECK(copies([&] { loss = ops::sigmoid_focal_loss_levels(mixed, labels); }) == 1);
  CHECK(near(loss, ops::sigmoid_focal_loss(rows_of(mixed, classes), labels, 0.25, 2, sum)));
}

TEST_CASE("The whole loss of RetinaNet equals that of its parts") {
  at::manual_seed(25);
  const std::int64_t class_count = 4, count = 3 * (30 + 6 + 1);
  const Tensor anchors = some_boxes(count), boxes = some_boxes(5), classes = at::arange(5) % 4;
  for (const bool channels_last : {false, true}) {
    for (const ops::regression kind : {ops::regression::smooth_l1, ops::regression::giou}) {
      const head x(class_count, channels_last), d(4, channels_last);
      std::vector<Tensor> logits = x.tracked(), deltas = d.tracked();
      Tensor classification, regression;
      CHECK(copies([&] {
              std::tie(classification, regression) =
                  ops::retinanet_loss(logits, deltas, anchors, boxes, classes, {3, 2}, 0.5, 0.4,
                                      true, 0.3, 1.5, kind, 0.1, {2, 2, 1, 1});
            }) == 0);

      std::vector<Tensor> plain_logits = x.tracked(), plain_deltas = d.tracked();
      const auto [matches, labels, ious] =
          ops::match_anchors(anchors, boxes, classes, {3, 2}, 0.5, 0.4);
      const Tensor foreground = (matches >= 0).sum(1).clamp_min(1);
      const Tensor weights =
          (0.5 / foreground.to(at::kDouble)).unsqueeze(-1).expand({2, count}).to(at::kFloat);
      const Tensor expected = ops::sigmoid_focal_loss(rows_of(plain_logits, class_count), labels,
                                                      0.3, 1.5, sum, 1, weights.contiguous());
      const Tensor expected_boxes =
          ops::regression_loss(rows_of(plain_deltas, 4).reshape({-1, 4}), anchors.repeat({2, 1}),
                               boxes, matches.flatten(), {}, kind, 0.1, 1e-7, {2, 2, 1, 1},
                               4.135166556742356, 1, weights.reshape({-1}));
      CHECK(near(classification, expected));
      CHECK(near(regression, expected_boxes));

      std::vector<Tensor> inputs = logits, plain = plain_logits;
      inputs.insert(inputs.end(), deltas.begin(), deltas.end());
      plain.insert(plain.end(), plain_deltas.begin(), plain_deltas.end());
      const auto grads = torch::autograd::grad({classification * 2 + regression * 3}, inputs);
      const auto expected_grads = torch::autograd::grad({expected * 2 + expected_boxes * 3}, plain);
      for (std::size_t i = 0; i < grads.size(); ++i) {
        CHECK(near(grads[i], expected_grads[i]));
        CHECK(grads[i].strides() == inputs[i].strides());
      }
    }
  }
}

TEST_CASE("The whole loss of RetinaNet: a single gradient, other types, one image, no boxes") {
  at::manual_seed(26);
  const Tensor anchors = some_boxes(3 * 37), nothing = at::empty({0, 4});
  const Tensor no_classes = at::empty({0}, at::kLong), boxes = some_boxes(4);
  const Tensor classes = at::zeros({4}, at::kLong);
  const head x(2, false), d(4, false);
  std::vector<Tensor> deltas = d.tracked();
  const auto losses = ops::retinanet_loss(x.levels, deltas, anchors, boxes, classes, {3, 1});
  CHECK(!std::get<0>(losses).requires_grad());
  CHECK(torch::autograd::grad({std::get<1>(losses)}, deltas)[0].abs().sum().item<double>() > 0);

  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    std::vector<Tensor> logits, wide;
    for (const Tensor& level : x.levels) {
      logits.push_back(level.to(type).requires_grad_());
      wide.push_back(logits.back().detach().to(at::kFloat).requires_grad_());
    }
    std::vector<Tensor> narrow_deltas;
    for (const Tensor& level : d.levels) narrow_deltas.push_back(level.to(type));
    const Tensor loss =
        std::get<0>(ops::retinanet_loss(logits, narrow_deltas, anchors, boxes, classes, {3, 1}));
    const Tensor exact =
        std::get<0>(ops::retinanet_loss(wide, d.levels, anchors, boxes, classes, {3, 1}));
    CHECK((loss.scalar_type() == type));
    CHECK(near(loss, exact));
    CHECK(near(torch::autograd::grad({loss}, logits)[0], torch::autograd::grad({exact}, wide)[0]));
  }

  const auto alone = ops::retinanet_loss({x.levels[0].slice(0, 0, 1)}, {d.levels[0].slice(0, 0, 1)},
                                         anchors.slice(0, 0, 90), nothing, no_classes);
  CHECK(std::get<1>(alone).item<double>() == 0);
  CHECK(near(std::get<0>(alone),
             ops::sigmoid_focal_loss(rows_of({x.levels[0].slice(0, 0, 1)}, 2),
                                     at::full({1, 90}, -1, at::kLong), 0.25, 2, sum)));
}

TEST_CASE("Training's operators: bit-identical on any number of threads") {
  at::manual_seed(31);
  const Tensor anchors = some_boxes(20000), boxes = some_boxes(9), bins = at::randn({20000, 9});
  const Tensor targets = at::rand({20000}) * 8, classes = at::randint(0, 4, {2, 10000}, at::kLong);
  const Tensor box_classes = at::arange(9) % 3, level = at::randn({2, 3 * 3, 60, 50});
  const Tensor deltas = at::randn({2, 3 * 4, 60, 50});
  const auto results = [&] {
    const Tensor x = level.detach().requires_grad_(), d = deltas.detach().requires_grad_();
    const auto losses =
        ops::retinanet_loss({x}, {d}, anchors.slice(0, 0, 9000), boxes, box_classes, {4, 5});
    const auto grads = torch::autograd::grad({std::get<0>(losses) + std::get<1>(losses)}, {x, d});
    return std::vector<Tensor>{std::get<0>(losses).detach(),
                               std::get<1>(losses).detach(),
                               grads[0],
                               grads[1],
                               std::get<0>(ops::match_anchors(anchors, boxes, {}, {4, 5})),
                               ops::distribution_focal_loss(bins, targets, sum),
                               ops::mined_cross_entropy_loss(bins.view({2, 10000, 9}), classes)};
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<Tensor> expected = results();
  for (const int count : {2, 5}) {
    at::set_num_threads(count);
    const std::vector<Tensor> found = results();
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(found[i], expected[i]));
  }
  at::set_num_threads(threads);
}

TEST_CASE("Errors of training's operators have the library's text") {
  const head x(3, false), d(4, false);
  const Tensor anchors = some_boxes(3 * 37), boxes = some_boxes(3), rows = at::randn({5, 3});
  const Tensor classes = at::zeros({3}, at::kLong), labels = at::zeros({5}, at::kLong);
  const Tensor tracked = at::rand({5}).requires_grad_();
  const struct {
    std::function<void()> call;
    const char* text;
  } cases[] = {
      {[&] { ops::quality_focal_loss(rows, labels, at::rand({4})); },
       "vecdet::quality_focal_loss: scores.shape is [4], expected the shape of labels"},
      {[&] { ops::bce_loss(rows, labels, tracked); },
       "vecdet::bce_loss: scores requires a gradient"},
      {[&] { ops::varifocal_loss(rows, labels + 9, at::rand({5})); },
       "vecdet::varifocal_loss_unreduced: labels[0] is 9, expected 0 to "},
      {[&] { ops::distribution_focal_loss(rows.to(at::kDouble), at::rand({5})); },
       "vecdet::distribution_focal_loss: logits.dtype is Double, expected float32"},
      {[&] { ops::softmax_cross_entropy_loss(rows, at::rand({5})); },
       "vecdet::softmax_cross_entropy_loss: labels.dtype is Float, expected integers"},
      {[&] { ops::mined_cross_entropy_loss(rows, labels); },
       "vecdet::mined_cross_entropy_loss: logits.shape is [5, 3], expected [images, anchors,"},
      {[&] {
         ops::decode_distribution_boxes(at::rand({2, 4, 8}), at::rand({3, 2}), at::rand({2}));
       },
       "vecdet::decode_distribution_boxes: points.shape is [3, 2], expected [..., 2], one point "
       "per "
       "box"},
      {[&] { ops::sigmoid_focal_loss_levels({}, labels); },
       "vecdet::sigmoid_focal_loss_levels: logits.size() is 0, expected 1 or more levels"},
      {[&] {
         ops::sigmoid_focal_loss_levels(x.levels, at::zeros({2, 100}, at::kLong));
       },
       "vecdet::sigmoid_focal_loss_levels: labels.shape is [2, 100], expected [images, anchors"},
      {[&] {
         ops::retinanet_loss(x.levels, d.levels, anchors, boxes, classes, {3, 1});
       },
       "vecdet::retinanet_loss: box_counts[1] is 1, expected 0 or more, with a total of"},
      {[&] {
         ops::retinanet_loss(x.levels, d.levels, anchors, boxes, classes + 3, {2, 1});
       },
       "truth.classes[0] is 3, expected 0 to 2 (3 classes); do your labels start at 1?"},
      {[&] {
         ops::retinanet_loss(x.levels, d.levels, boxes, boxes, classes, {2, 1});
       },
       "anchors.size() is 3, expected "},
      {[&] {
         ops::retinanet_loss(x.levels, x.levels, anchors, boxes, classes, {2, 1});
       },
       "vecdet::retinanet_loss: deltas.shape is [2, 9, 6, 5], expected [images, anchors x 4"},
      {[&] { ops::match_anchors(anchors, boxes, at::zeros({2}, at::kLong)); },
       "vecdet::match_anchors: classes.shape is [2], expected one integer per box"},
      {[&] { ops::match_anchors(anchors, boxes, {}, {}, std::nan("")); },
       "params.high_threshold is nan, expected"},
      {[&] {
         ops::assign_atss(anchors, {3, 3, 1}, boxes);
       },
       "vecdet::assign_atss: level_sizes.size() is 3, expected height and width"},
      {[&] {
         ops::assign_task_aligned(rows, boxes, at::rand({5, 2}), {1, 5}, boxes, classes);
       },
       "vecdet::assign_task_aligned: predicted.shape is [3, 4], expected [images, N, 4]"},
      {[&] {
         std::get<2>(ops::match_anchors(anchors.detach().requires_grad_(), boxes)).sum().backward();
       },
       "vecdet::match_anchors is not implemented"},
  };
  for (const auto& c : cases) {
    const std::string text = error_of(c.call);
    INFO(text);
    CHECK(text.find(std::string(c.text)) != std::string::npos);
  }
}

TEST_CASE("Training's operators on tensors without data") {
  const Tensor x = at::randn({2, 7, 3}), m_x = without_data(x);
  const Tensor labels = at::zeros({2, 7}, at::kLong), m_labels = without_data(labels);
  const Tensor scores = at::rand({2, 7}), m_scores = without_data(scores);
  for (const std::int64_t reduction : reductions) {
    check_same_shape(ops::quality_focal_loss(m_x, m_labels, m_scores, 2, reduction),
                     ops::quality_focal_loss(x, labels, scores, 2, reduction));
    check_same_shape(ops::distribution_focal_loss(m_x, m_scores, reduction),
                     ops::distribution_focal_loss(x, scores, reduction));
    check_same_shape(ops::softmax_cross_entropy_loss(m_x, m_labels, reduction),
                     ops::softmax_cross_entropy_loss(x, labels, reduction));
  }
  check_same_shape(ops::mined_cross_entropy_loss(m_x, m_labels),
                   ops::mined_cross_entropy_loss(x, labels));
  const Tensor wide = at::randn({7, 4, 8}), points = at::rand({7, 2}), strides = at::rand({7});
  check_same_shape(ops::decode_distributions(without_data(wide)), ops::decode_distributions(wide));
  check_same_shape(ops::decode_distribution_boxes(without_data(wide), without_data(points),
                                                  without_data(strides)),
                   ops::decode_distribution_boxes(wide, points, strides));
  const Tensor anchors = some_boxes(64), boxes = some_boxes(3);
  for (const std::vector<std::int64_t>& counts : {std::vector<std::int64_t>{}, {1, 2}}) {
    const auto found = ops::match_anchors(anchors, boxes, {}, counts);
    const auto shapes = ops::match_anchors(without_data(anchors), without_data(boxes), {}, counts);
    check_same_shape(std::get<0>(shapes), std::get<0>(found));
    check_same_shape(std::get<2>(shapes), std::get<2>(found));
    CHECK(ops::assign_atss(without_data(anchors), {8, 8}, without_data(boxes), counts).sizes() ==
          std::get<0>(found).sizes());
  }
  // The inner operators, for whose gradients a compiler allocates memory: in the levels' layout.
  const head last(3, true, at::kBFloat16);
  std::vector<Tensor> meta;
  for (const Tensor& level : last.levels) meta.push_back(without_data(level).requires_grad_());
  const Tensor loss =
      ops::sigmoid_focal_loss_levels(meta, at::empty({2, 3 * 37}, m_labels.options()));
  const auto grads = torch::autograd::grad({loss}, meta);
  for (std::size_t l = 0; l < grads.size(); ++l) CHECK(grads[l].strides() == meta[l].strides());
}
