// SPDX-License-Identifier: Apache-2.0
// The IoU loss kernels against the reference and torchvision's golden vectors: every instruction
// set, element type and kind, at lengths around a group of boxes, with weights and scale;
// degenerate boxes; and every documented error.
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/exact_box_losses.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/iou_loss.hpp>
#include <vecdet/reference/iou_loss.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;
using reference::box;

namespace {

const iou_kind all_kinds[] = {iou_kind::giou, iou_kind::diou, iou_kind::ciou};
const char* const names[] = {"iou", "giou", "diou", "ciou"};

reference::iou_kind as_reference(iou_kind kind) {
  return static_cast<reference::iou_kind>(static_cast<int>(kind));
}

template <class T>
void check_losses(const std::vector<T>& predicted, const std::vector<T>& targets, iou_kind kind,
                  iou_loss_params params, const std::vector<float>& weights) {
  params.box_weights = weights;
  const marked<T> p(predicted, 1), t(targets, 2);
  const index_t count = p.size() / 4;
  INFO("boxes ", count, " kind ", std::string(names[static_cast<int>(kind)]), " ",
       std::string(dtype_name<T>()));
  marked<T> grad(4 * count, 3), loss(count, 1);
  const double with_grad = iou_loss_and_grad(p.boxes(), t.boxes(), grad.boxes(), kind, params);
  const double alone = iou_loss(p.boxes(), t.boxes(), kind, params);
  CHECK((with_grad == alone || std::isnan(alone)));
  iou_loss_unreduced(p.boxes(), t.boxes(), loss.each(), kind, params);
  double exact_sum = 0, size = 1e-30;
  for (index_t i = 0; i < count; ++i) {
    const box a = reference::load_box(p.boxes(), i), b = reference::load_box(t.boxes(), i);
    const reference::box_loss exact = reference::iou_loss(as_reference(kind), a, b, params.epsilon);
    const double factor =
        params.scale * (weights.empty() ? 1.0 : weights[static_cast<std::size_t>(i)]);
    if (std::isnan(exact.loss)) {  // CIoU of a box that is a point
      CHECK(std::isnan(static_cast<double>(loss[i])));
      CHECK(std::isnan(with_grad));
      size = std::numeric_limits<double>::infinity();
      continue;
    }
    exact_sum += factor * exact.loss;
    size += std::abs(factor);
    CHECK(is_close_loss(loss[i], factor * exact.loss, factor));
    const std::array<double, 4> g{exact.grad.x1, exact.grad.y1, exact.grad.x2, exact.grad.y2};
    const auto terms = numbers(largest_terms<T>(as_reference(kind), a, b, params.epsilon));
    for (int k = 0; k < 4; ++k) {
      const double e = factor * g[static_cast<std::size_t>(k)];
      const double term = std::abs(factor) * terms[static_cast<std::size_t>(k)];
      if (!std::isfinite(term)) continue;  // the size of the terms is unknown
      if (is_close(grad[4 * i + k], e, 16, term)) continue;
      FAIL_CHECK("gradient " << k << " of box " << i << " is "
                             << static_cast<double>(grad[4 * i + k]) << ", exact " << e << ": "
                             << ulp_distance(grad[4 * i + k], e) << " ulp; largest term " << term);
      return;
    }
  }
  if (std::isfinite(size)) CHECK(std::abs(with_grad - exact_sum) <= loss_within<T> * size);
  CHECK(grad.marks_untouched());
  CHECK(loss.marks_untouched());
}

template <class T>
std::vector<T> jittered(const std::vector<T>& boxes, std::uint64_t seed, double by) {
  random_generator generator(seed);
  std::vector<T> out;
  for (const T x : boxes) out.push_back(to<T>(static_cast<double>(x) + by * generator.uniform()));
  return out;
}

}  // namespace

TEST_CASE_TEMPLATE("IoU losses", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const iou_kind kind : all_kinds) {
      for (index_t count = 0; count <= 40; ++count) {
        const auto p = random_boxes<T>(count, ++seed, 200);
        check_losses(p, random_boxes<T>(count, seed + 50, 200), kind, {}, {});
      }
      const auto p = random_boxes<T>(500, ++seed, 800);
      std::vector<float> weights;
      random_generator generator(seed);
      for (int i = 0; i < 500; ++i) weights.push_back(static_cast<float>(generator.uniform(0, 2)));
      iou_loss_params params;
      params.scale = 1.0 / 77;
      check_losses(p, random_boxes<T>(500, seed + 50, 800), kind, params, weights);
      // Boxes near the target, equal to it, and with some sides equal.
      check_losses(p, jittered(p, seed, 0.5), kind, {}, {});
      check_losses(p, p, kind, {}, {});
      check_losses(random_boxes<T>(500, seed, 64, 8), random_boxes<T>(500, seed + 1, 64, 8), kind,
                   {}, {});
      params.epsilon = 0.5;
      check_losses(p, jittered(p, seed, 9), kind, params, {});
      params.epsilon = 0;
      for (const double by : {0.0, 1e-4, 0.5, 9.0})
        check_losses(p, jittered(p, seed, by), kind, params, {});
    }
  });
}

TEST_CASE("IoU losses: distant boxes with nearly equal aspect ratios") {
  // The rounding error of the difference of their angles is as large as the other terms.
  random_generator generator(91);
  std::vector<float> predicted, targets;
  for (int i = 0; i < 20000; ++i) {
    const double w = std::exp(4 * generator.uniform()), h = w * std::exp(generator.uniform());
    const double size = std::exp(generator.uniform());
    const double wider = 1 + 0.4 * generator.uniform() * std::pow(0.1, 3 * generator.uniform());
    const double x = w * std::exp(8 * generator.uniform()), y = generator.uniform();
    for (const double coordinate : {0.0, 0.0, w, h})
      predicted.push_back(static_cast<float>(coordinate));
    for (const double coordinate : {x, y, x + w * size * wider, y + h * size})
      targets.push_back(static_cast<float>(coordinate));
  }
  for_each_isa([&](isa) { check_losses<float>(predicted, targets, iou_kind::ciou, {}, {}); });
}

TEST_CASE("IoU losses: golden vectors") {
  // test_reference_iou compares the reference with torchvision's results.
  if (!has_data("golden/pair_pred.npy", "IoU losses of golden vectors")) return;
  const auto p = golden<float>("pair_pred").values, t = golden<float>("pair_target").values;
  for_each_isa([&](isa) {
    for (const iou_kind kind : all_kinds) check_losses(p, t, kind, {}, {});
  });
}

TEST_CASE("IoU losses: degenerate boxes") {
  for_each_isa([](isa) {
    const auto boxes = special_boxes_as<float>();
    std::vector<float> p, t;
    for (std::size_t i = 0; i < boxes.size(); i += 4)
      for (std::size_t j = 0; j < boxes.size(); j += 4)
        for (std::size_t k = 0; k < 4; ++k) {
          p.push_back(boxes[i + k]);
          t.push_back(boxes[j + k]);
        }
    const boxes_view<const float> pv(p), tv(t);
    std::vector<float> grad(p.size()), loss(p.size() / 4);
    for (const iou_kind kind : all_kinds) {
      iou_loss_and_grad(pv, tv, grad, kind, {});
      iou_loss_unreduced(pv, tv, loss, kind, {});
      for (index_t i = 0; i < pv.size(); ++i) {
        const box a = reference::load_box(pv, i), b = reference::load_box(tv, i);
        double largest = 0;
        bool has_nan = false;
        for (int k = 0; k < 4; ++k) {
          largest = std::max({largest, std::abs(static_cast<double>(pv(i, k))),
                              std::abs(static_cast<double>(tv(i, k)))});
          has_nan = has_nan || std::isnan(pv(i, k)) || std::isnan(tv(i, k));
        }
        const float mine = loss[static_cast<std::size_t>(i)];
        CAPTURE(i);
        if (has_nan) CHECK(std::isnan(mine));
        if (has_nan || largest > 1e9) continue;
        const double exact = reference::iou_loss(as_reference(kind), a, b).loss;
        // In float, products of sides of 1e-20 or less are 0, and v may be 0 too.
        if (std::isnan(exact)) CHECK(std::isnan(mine));
        if (std::isnan(exact) || i % 25 == 13 || i % 25 == 14 || i / 25 == 13 || i / 25 == 14)
          continue;
        CAPTURE(mine);
        CAPTURE(exact);
        CHECK(std::abs(static_cast<double>(mine) - exact) <= 2e-6 * std::max(1.0, std::abs(exact)));
      }
    }
  });
}

TEST_CASE_TEMPLATE("IoU losses: 0 times infinity is 0 for weights", T, float, bfloat16, double) {
  const index_t boxes = 42;
  std::vector<T> p = random_boxes<T>(boxes, 1, 100), t = random_boxes<T>(boxes, 2, 100);
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (i / 4 % 3 == 0) p[i] = t[i];       // loss 0
    if (i / 4 % 5 == 1) p[i] = to<T>(0);   // no area: some gradients are infinite
    if (i / 4 % 10 == 1) t[i] = to<T>(0);  // and some losses NaN, because epsilon is 0
  }
  for_each_isa([&](isa) {
    for (const iou_kind kind : all_kinds) {
      for (const index_t width : {index_t{1}, index_t{4}}) {
        check_special_weights<T>(
            boxes, width, [&](index_t first, const std::vector<float>& weights, double scale) {
              const auto count = static_cast<index_t>(weights.size());
              iou_loss_params params;
              params.epsilon = 0;
              params.scale = scale;
              params.box_weights = weights;
              std::vector<T> out(static_cast<std::size_t>(width) * weights.size());
              const boxes_view<const T> a(p.data() + 4 * first, count),
                  b(t.data() + 4 * first, count);
              if (width == 1) {
                iou_loss_unreduced(a, b, vector_view<T>(out), kind, params);
              } else {
                iou_loss_and_grad(a, b, boxes_view<T>(out), kind, params);
              }
              return out;
            });
      }
    }
  });
}

TEST_CASE_TEMPLATE("IoU losses: a NaN at any of the eight places is NaN", T, float, bfloat16,
                   double) {
  const index_t count = 90;  // one of nine pairs has no NaN
  auto p = random_boxes<T>(count, 1, 100), t = random_boxes<T>(count, 2, 100);
  for (index_t i = 0; i < count; ++i)
    if (i % 9 < 8) (i % 9 < 4 ? p : t)[static_cast<std::size_t>(4 * i + i % 9 % 4)] = to<T>(NAN);
  std::vector<T> grad(p.size()), loss(p.size() / 4);
  for_each_isa([&](isa) {
    for (const iou_kind kind : all_kinds) {
      const boxes_view<const T> pv(p), tv(t);
      CHECK(std::isnan(iou_loss_and_grad(pv, tv, grad, kind, {})));
      CHECK(std::isnan(iou_loss(pv, tv, kind, {})));
      iou_loss_unreduced(pv, tv, loss, kind, {});
      for (index_t i = 0; i < count; ++i) {
        INFO(std::string(names[static_cast<int>(kind)]), " NaN at place ", i % 9, " of box ", i);
        CHECK(std::isnan(static_cast<double>(loss[static_cast<std::size_t>(i)])) == (i % 9 < 8));
        for (index_t k = 0; k < 4; ++k)
          CHECK(std::isnan(static_cast<double>(grad[static_cast<std::size_t>(4 * i + k)])) ==
                (i % 9 < 8));
      }
    }
  });
}

TEST_CASE("IoU losses: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> four(16, 1), three(12, 1);
  marked<float> out(12, 0);
  iou_loss_params params;
  const auto refused = refusals(out);
  const auto fails = [&](const char* message, const auto& call) {
    refused(message, call);
    params = {};
  };
  const boxes_view<const float> p(four), q(three);
  params.epsilon = -1;
  fails("iou_loss_and_grad: params.epsilon is -1, expected a finite float, 0 or more",
        [&] { iou_loss_and_grad(q, three, out.boxes(), iou_kind::giou, params); });
  params.scale = std::nan("");
  fails("iou_loss: params.scale is nan", [&] { iou_loss(q, three, iou_kind::ciou, params); });
  params.box_weights = four;
  fails("params.box_weights.size() is 16", [&] { iou_loss(q, three, iou_kind::diou, params); });
  fails("iou_loss: targets.size() is 3", [&] { iou_loss(p, three, iou_kind::diou); });
  fails("iou_loss: kind is iou, expected giou, diou or ciou",
        [&] { iou_loss(p, four, iou_kind::iou); });
  fails("iou_loss_and_grad: kind is iou",
        [&] { iou_loss_and_grad(q, three, out.boxes(), iou_kind::iou); });
  fails("grad.size() is 3", [&] { iou_loss_and_grad(p, four, out.boxes(), iou_kind::giou); });
  fails("iou_loss_unreduced: loss.size() is 12",
        [&] { iou_loss_unreduced(p, four, out.each(), iou_kind::giou); });
}
