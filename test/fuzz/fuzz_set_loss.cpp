// SPDX-License-Identifier: Apache-2.0
// Losses of any outputs, boxes and matches; where numbers are moderate, against the reference.
#include "fuzz_input.hpp"
#include <vecdet/reference/set_loss.hpp>

using namespace vecdet;

namespace {

/// Whether sides of a row's box and of its ground-truth box nearly meet: gradients jump there.
bool is_at_jump(const reference::set_loss_layer& layer, const fuzz::tensor<float>& known,
                index_t row) {
  const index_t box = layer.matched[static_cast<std::size_t>(row)];
  if (box < 0) return false;
  double target[4];
  for (std::size_t k = 0; k < 4; ++k)
    target[k] = static_cast<double>(known[4 * static_cast<std::size_t>(box) + k]);
  const auto p = reference::corners_of_centre(layer.boxes.data() + 4 * row);
  const auto t = reference::corners_of_centre(target);
  const auto meet = [](double a, double b) { return std::abs(a - b) < 1e-5; };
  return meet(p.x1, t.x1) || meet(p.x1, t.x2) || meet(p.x2, t.x1) || meet(p.x2, t.x2) ||
         meet(p.y1, t.y1) || meet(p.y1, t.y2) || meet(p.y2, t.y1) || meet(p.y2, t.y2);
}

template <class T>
void losses_of(fuzz::input& in) {
  const index_t images = in.integer(1, 3), queries = in.integer(0, 40), groups = in.integer(1, 2);
  const index_t classes = in.integer(2, 9), rows = images * queries;
  const bool is_tame = in.flag();
  std::vector<index_t> offsets{0}, categories;
  for (index_t i = 0; i < images; ++i) offsets.push_back(offsets.back() + in.integer(0, 9));
  for (index_t k = 0; k < offsets.back(); ++k) categories.push_back(in.integer(0, classes - 2));
  const index_t boxes = offsets.back();
  reference::set_loss_layer exact;
  exact.rows = rows;
  exact.classes = classes;
  exact.matched.assign(static_cast<std::size_t>(rows), -1);
  std::vector<index_t> matched;
  for (index_t g = 0; g < groups; ++g)
    for (index_t i = 0; i < images; ++i)
      for (index_t b = offsets[static_cast<std::size_t>(i)];
           b < offsets[static_cast<std::size_t>(i + 1)]; ++b) {
        const index_t query = queries == 0 ? -1 : in.integer(-1, queries - 1);
        const bool is_free =
            query >= 0 && exact.matched[static_cast<std::size_t>(i * queries + query)] < 0;
        matched.push_back(is_free ? query : -1);
        if (is_free) exact.matched[static_cast<std::size_t>(i * queries + query)] = b;
      }
  set_loss_params params;
  params.class_loss =
      in.one_of({set_class_loss::varifocal, set_class_loss::focal, set_class_loss::cross_entropy});
  params.alpha = in.one_of({0.75, 0.25, 0.0, 1.0});
  params.gamma = in.one_of({2.0, 0.0, 1.0, 0.3});
  params.no_object_weight = in.one_of({0.1, 0.0, 1.0});
  params.class_weight = in.one_of({1.0, 2.0, 0.0});
  params.boxes = in.one_of({0.0, 2.5});

  const auto tame = [&](auto zero, index_t count, double low, double high) {
    std::vector<decltype(zero)> values;
    for (index_t i = 0; i < count; ++i)
      values.push_back(
          test::to<decltype(zero)>(in.tame(low, high) + 1e-3 * static_cast<double>(i % 7)));
    return fuzz::tensor<decltype(zero)>(values);
  };
  const auto known = is_tame ? tame(0.0f, 4 * boxes, 0.1, 0.8) : in.numbers<float>(4 * boxes);
  const auto logits =
      is_tame ? tame(T(0.0f), rows * classes, -9, 9) : in.numbers<T>(rows * classes);
  const auto predicted = is_tame ? tame(T(0.0f), 4 * rows, 0.15, 0.8) : in.numbers<T>(4 * rows);
  const ground_truth truth{boxes_view<const float>(known), categories, offsets};
  const fuzz::tensor<T> logits_grad(rows * classes), boxes_grad(4 * rows);
  const fuzz::tensor<index_t> matches(matched);
  const std::vector<set_loss_layer<T>> layers{
      {{{logits.data(), rows, classes}, boxes_view<const T>(predicted)},
       vector_view<const index_t>(matches),
       {logits_grad.data(), rows, classes},
       boxes_view<T>(boxes_grad)}};
  std::vector<set_losses> losses(1);
  set_loss_workspace workspace;

  reference::set_loss_result expected;
  if (is_tame) {
    for (const T x : logits) exact.logits.push_back(static_cast<float>(x));
    for (const T x : predicted) exact.boxes.push_back(static_cast<double>(x));
    reference::set_loss_params p;
    p.class_loss = params.class_loss;
    p.alpha = params.alpha;
    p.gamma = params.gamma;
    p.no_object_weight = params.no_object_weight;
    p.class_weight = params.class_weight;
    p.divisor = std::max(1.0, params.boxes > 0 ? params.boxes : static_cast<double>(boxes)) *
                static_cast<double>(boxes > 0 ? groups : 1);
    expected = reference::set_loss(exact, {known.begin(), known.end()}, categories, p);
  }
  const auto check = [&](const char* what, double actual, double wanted, double size) {
    fuzz::expect_near([&] { return std::string("set_loss_and_grad: ") + what; }, actual, wanted,
                      std::is_same<T, float>::value ? 2e-5 : 1e-2, 1e-5 * size);
  };
  fuzz::on_every_isa("set_loss_and_grad", [&](fuzz::results& results) {
    set_loss_and_grad<T>(layers, truth, losses, params, workspace, threading::parallel);
    for (const double loss : {losses[0].classification, losses[0].l1, losses[0].giou})
      results.add(loss);
    results.add(logits_grad);
    results.add(boxes_grad);
    if (!is_tame) return;
    check("class loss", losses[0].classification, expected.classification, 1);
    check("L1", losses[0].l1, expected.l1, 1);
    check("GIoU", losses[0].giou, expected.giou, 1);
    const double size = std::is_same<T, float>::value ? 1 : 100;
    for (std::size_t i = 0; i < expected.logits_grad.size(); ++i)
      check("gradient of a logit", static_cast<double>(logits_grad[i]), expected.logits_grad[i],
            size);
    for (std::size_t i = 0; i < expected.boxes_grad.size(); ++i)
      if (!is_at_jump(exact, known, static_cast<index_t>(i / 4)))
        check("gradient of a box", static_cast<double>(boxes_grad[i]), expected.boxes_grad[i],
              10 * size);
  });
}

}  // namespace

void fuzz::target(input& in) {
  if (in.flag()) return losses_of<float>(in);
  losses_of<bfloat16>(in);
}
