// SPDX-License-Identifier: Apache-2.0
// Tensors that are read in place, without a copy: transposed logits, and bfloat16 under autocast.
#include "support.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

using namespace torch_test;

TEST_CASE("Transposed logits are read in place") {
  at::manual_seed(29);
  const Tensor level = at::randn({2, 3 * 5, 6, 7});
  const struct {
    const char* name;
    Tensor logits;
  } cases[] = {
      {"images x locations x classes", at::randn({3, 5, 40}).transpose(1, 2)},
      {"images x height x width x anchors x classes",
       level.view({2, 3, 5, 6, 7}).permute({0, 3, 4, 1, 2})},
  };
  for (const auto& c : cases) {
    INFO(std::string(c.name));
    const auto shape = c.logits.sizes().slice(0, c.logits.dim() - 1);
    const Tensor labels = at::randint(-2, 5, shape, at::kLong);
    const Tensor x = c.logits.detach().requires_grad_();
    const Tensor plain = c.logits.contiguous().detach().requires_grad_();
    for (const std::int64_t reduction : {sum, mean}) {
      Tensor loss;
      CHECK(copies([&] { loss = ops::sigmoid_focal_loss(x, labels, 0.25, 2, reduction); }) == 0);
      const Tensor expected = ops::sigmoid_focal_loss(plain, labels, 0.25, 2, reduction);
      CHECK(near(loss, expected));
      const Tensor grad = torch::autograd::grad({loss}, {x})[0];
      CHECK(at::equal(grad, torch::autograd::grad({expected}, {plain})[0]));
      CHECK(grad.strides() == x.strides());
    }
  }
}

TEST_CASE("Autocast reads bfloat16 without conversion, with the results of float32") {
  at::manual_seed(30);
  const auto narrow = [](const Tensor& tensor) { return tensor.to(at::kBFloat16); };
  const Tensor x = narrow(at::randn({2, 30, 4})), labels = at::randint(-1, 4, {2, 30}, at::kLong);
  const Tensor anchors = some_boxes(30), deltas = narrow(at::randn({30, 4}) * 0.1);
  const Tensor scores = at::rand({2, 30});
  const head levels(2, true, at::kBFloat16), boxes(4, true, at::kBFloat16);
  const Tensor level_labels = at::randint(-1, 2, {2, 3 * 37}, at::kLong);
  const Tensor many = some_boxes(3 * 37), truth = some_boxes(2),
               classes = at::zeros({2}, at::kLong);
  const auto wide = [](const std::vector<Tensor>& list) {
    std::vector<Tensor> result;
    for (const Tensor& tensor : list) result.push_back(tensor.to(at::kFloat));
    return result;
  };
  using inputs = std::vector<Tensor>;
  const double size[] = {90, 90, 90, 90};
  const struct {
    const char* name;
    inputs narrow;
    std::function<Tensor(const inputs&)> call;
  } cases[] = {
      {"focal",
       {x},
       [&](const inputs& i) { return ops::sigmoid_focal_loss(i[0], labels, 0.25, 2, sum); }},
      {"quality",
       {x},
       [&](const inputs& i) { return ops::quality_focal_loss(i[0], labels, scores, 2, sum); }},
      {"varifocal",
       {x},
       [&](const inputs& i) {
         return ops::varifocal_loss(i[0], labels, scores, 0.75, 2, true, mean);
       }},
      {"regression",
       {deltas},
       [&](const inputs& i) { return ops::regression_loss(i[0], anchors, anchors + 1); }},
      {"levels", levels.levels,
       [&](const inputs& i) { return ops::sigmoid_focal_loss_levels(i, level_labels); }},
      {"retinanet", levels.levels,
       [&](const inputs& i) {
         return std::get<0>(ops::retinanet_loss(
             i, i[0].scalar_type() == at::kFloat ? wide(boxes.levels) : boxes.levels, many, truth,
             classes, {1, 1}));
       }},
      {"decoding", {deltas}, [&](const inputs& i) { return ops::decode_boxes(i[0], anchors); }},
      {"top-k", {x}, [&](const inputs& i) { return std::get<0>(ops::filter_topk(i[0], 0.3, 9)); }},
      {"postprocess",
       {x},
       [&](const inputs& i) {
         const Tensor d = deltas.expand({2, 30, 4}).contiguous().to(i[0].scalar_type());
         return std::get<0>(ops::postprocess(i[0], d, anchors, size));
       }},
  };
  for (const auto& c : cases) {
    INFO(std::string(c.name));
    const bool is_loss = c.call(wide(c.narrow)).dim() == 0;
    inputs tracked, exact;
    for (const Tensor& tensor : c.narrow) {
      tracked.push_back(tensor.detach().requires_grad_(is_loss));
      exact.push_back(tensor.to(at::kFloat).requires_grad_(is_loss));
    }
    Tensor result;
    {
      const autocast enabled;
      CHECK(copies([&] { result = c.call(tracked); }) == 0);
    }
    const Tensor expected = c.call(exact);
    CHECK((result.scalar_type() == at::kFloat));
    CHECK(at::equal(result, expected));
    if (!is_loss) continue;
    const auto grads = torch::autograd::grad({result * 2}, tracked);
    const auto expected_grads = torch::autograd::grad({expected * 2}, exact);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      CHECK((grads[i].scalar_type() == at::kBFloat16));
      CHECK(at::equal(grads[i], narrow(expected_grads[i])));
    }
  }
  // Results that are not a scalar are computed and returned in float32.
  const autocast enabled;
  const Tensor each = ops::sigmoid_focal_loss(x, labels);
  CHECK(at::equal(each, ops::sigmoid_focal_loss(x.to(at::kFloat), labels)));
  CHECK((ops::distribution_focal_loss(x, scores).scalar_type() == at::kFloat));
  const Tensor doubles = x.to(at::kDouble);
  CHECK((ops::sigmoid_focal_loss(doubles, labels, 0.25, 2, sum).scalar_type() == at::kDouble));
}
