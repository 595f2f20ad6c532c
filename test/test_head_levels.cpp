// SPDX-License-Identifier: Apache-2.0
// Boxes of a head's levels in place: gradients and decoded boxes are bit-identical to those of the
// same boxes in one array, in both layouts, also as some of several channels; selections, scales of
// images, and every documented error.
#include "support/box_tensor.hpp"
#include "support/head_tensor.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/sanitizer.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/profile.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/smooth_l1.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

template <class T>
std::vector<T> random_numbers(index_t size, std::uint64_t seed, double low, double high) {
  random_generator generator(seed);
  std::vector<T> numbers;
  for (index_t i = 0; i < size; ++i) numbers.push_back(to<T>(generator.uniform(low, high)));
  return numbers;
}

/// Heads of boxes, the expected results, and the selection.
template <class T>
struct problem {
  head_tensor<T> in, grad;
  std::vector<T> numbers;
  std::vector<float> anchors;
  std::vector<index_t> labels, list;
  std::vector<float> scales, weights;  ///< of images, and of rows by their images

  problem(head_layout layout, index_t images, index_t anchors_at_location, index_t others,
          std::uint64_t seed, double low = -1, double high = 1)
      : in(layout, images, anchors_at_location, 4, {{9, 7}, {5, 4}, {1, 1}, {0, 3}}, others),
        grad(layout, images, anchors_at_location, 4, {{9, 7}, {5, 4}, {1, 1}, {0, 3}}, others,
             to<T>(-12345)) {
    numbers = random_numbers<T>(4 * in.rows(), seed, low, high);
    in.set(numbers);
    anchors = random_boxes<float>(in.anchors_per_image(), seed + 1);
    random_generator generator(seed);
    for (index_t n = 0; n < images; ++n)
      scales.push_back(static_cast<float>(0.1 + generator.uniform()));
    for (index_t i = 0; i < in.rows(); ++i) {
      labels.push_back(generator.chance(0.2)   ? generator.below(5)
                       : generator.chance(0.9) ? -1
                                               : -2);
      if (labels.back() >= 0) list.push_back(i);
      weights.push_back(scales[static_cast<std::size_t>(i / in.anchors_per_image())]);
    }
  }

  std::vector<float> anchors_of_all() const {
    std::vector<float> all;
    for (index_t n = 0; n < in.images; ++n) all.insert(all.end(), anchors.begin(), anchors.end());
    return all;
  }

  /// Compares the loss and gradient of on_levels(predictions, grad), two heads, with those of
  /// on_rows, two arrays.
  template <class OnLevels, class OnRows>
  void check(const OnLevels& on_levels, const OnRows& on_rows) {
    std::vector<T> expected(numbers.size());
    const double sum = on_rows(boxes_view<const T>(numbers), boxes_view<T>(expected));
    const double levels_loss = on_levels(in.const_view(), grad.view());
    INFO("layout ", static_cast<int>(in.layout), " anchors ", in.anchors, " channels ",
         in.channels);
    CHECK(levels_loss == doctest::Approx(sum).epsilon(1e-6));
    CHECK(same_bits(grad.flat(), expected));
    // Other channels are as they were.
    for (T& x : expected) x = to<T>(-12345);
    grad.set(expected);
    for (const std::vector<T>& level : grad.data)
      for (const T x : level) REQUIRE(static_cast<double>(x) == static_cast<double>(to<T>(-12345)));
  }
};

constexpr int many = under_sanitizer ? 150 : 600;  // anchors per location

}  // namespace

TEST_CASE_TEMPLATE("levels: regression loss is bit-identical to rows", T, float, bfloat16) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const head_layout layout : all_layouts) {
      for (const index_t others : {0, 3}) {
        for (const index_t anchors : {1, 3, many}) {
          problem<T> p(layout, 2, anchors, anchors == many ? 0 : others, ++seed);
          const std::vector<float> all = p.anchors_of_all();
          const std::vector<float> truth = random_boxes<float>(7, ++seed);
          random_generator generator(seed);
          std::vector<index_t> matches;
          for (const index_t label : p.labels)
            matches.push_back(label < 0 ? label : generator.below(7));
          const regression_targets<float> targets(truth, matches);
          for (const box_loss loss : {box_loss::smooth_l1, box_loss::giou, box_loss::ciou}) {
            regression_loss_params params;
            params.loss = loss;
            params.scale = 3;
            regression_loss_params weighted = params;
            weighted.box_weights = p.weights;
            p.check(
                [&](const auto& in, const auto& grad) {
                  return regression_loss_and_grad(in, p.anchors, targets, p.labels, grad, p.scales,
                                                  params);
                },
                [&](const auto& in, const auto& grad) {
                  return regression_loss_and_grad(in, boxes_view<const float>(all), targets,
                                                  p.labels, grad, weighted);
                });
          }
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("levels: smooth L1 and IoU losses are bit-identical to rows", T, float, bfloat16,
                   double) {
  for (const head_layout layout : all_layouts) {
    for (const index_t others : {0, 3}) {
      problem<T> p(layout, 2, 3, others, 5);
      const std::vector<T> targets = random_numbers<T>(4 * p.in.rows(), 9, -1, 1);
      const auto check = [&](const box_selection& selection) {
        p.check(
            [&](const auto& in, const auto& grad) {
              return smooth_l1_loss_and_grad(in, targets, selection, grad);
            },
            [&](const auto& in, const auto& grad) {
              return smooth_l1_loss_and_grad(in, targets, selection, grad);
            });
      };
      check(box_selection::all());
      check(p.labels);
      // With a list, the gradient must not overwrite the boxes.
      std::vector<T> expected(p.numbers.size());
      const double sum =
          smooth_l1_loss_and_grad(boxes_view<const T>(p.numbers), targets,
                                  box_selection::list(p.list), boxes_view<T>(expected));
      CHECK(smooth_l1_loss_and_grad(p.in.const_view(), targets, box_selection::list(p.list),
                                    p.grad.view()) == doctest::Approx(sum).epsilon(1e-6));
      CHECK(same_bits(p.grad.flat(), expected));
      CHECK_THROWS_WITH_AS(
          smooth_l1_loss_and_grad(p.in.const_view(), targets, box_selection::list(p.list),
                                  p.in.view()),
          doctest::Contains("grad.levels()[0] is in the memory of predictions.levels()[0]"),
          std::invalid_argument);

      problem<T> q(layout, 2, 3, others, 6);
      q.numbers = random_boxes<T>(q.in.rows(), 7);
      q.in.set(q.numbers);
      const std::vector<T> boxes = random_boxes<T>(q.in.rows(), 8);
      iou_loss_params params;
      params.box_weights = q.weights;
      for (const iou_kind kind : {iou_kind::giou, iou_kind::diou, iou_kind::ciou}) {
        q.check(
            [&](const auto& in, const auto& grad) {
              return iou_loss_and_grad(in, boxes, box_selection::all(), grad, kind, q.scales);
            },
            [&](const auto& in, const auto& grad) {
              return iou_loss_and_grad(in, boxes, grad, kind, params);
            });
      }
    }
  }
}

TEST_CASE_TEMPLATE("levels: boxes of levels of any size are bit-identical to rows", T, float,
                   bfloat16, double) {
  for (const head_layout layout : all_layouts) {
    for (const index_t anchors : {1, 3, 9}) {
      for (const index_t others : {0, 3}) {
        for (index_t locations = 1; locations <= 70; ++locations) {
          CAPTURE(anchors);
          CAPTURE(others);
          CAPTURE(locations);
          head_tensor<T> in(layout, 2, anchors, 4, {{1, locations}}, others);
          random_generator generator(static_cast<std::uint64_t>(locations));
          in.for_each([&](T& x, index_t, index_t) { x = to<T>(generator.normal()); });
          const std::vector<T> rows = in.flat(), targets(rows.size(), to<T>(0.5));
          std::vector<T> expected(rows.size());
          smooth_l1_loss_and_grad(boxes_view<const T>(rows), targets, box_selection::all(),
                                  expected);
          head_tensor<T> grad(layout, 2, anchors, 4, in.sizes, others, to<T>(7));
          const head_tensor<T> before = grad;
          smooth_l1_loss_and_grad(in.const_view(), targets, box_selection::all(), grad.view());
          const std::vector<T> written = grad.flat();
          bool same = true;
          for (std::size_t i = 0; i < written.size(); ++i)
            same = same && std::memcmp(&written[i], &expected[i], sizeof(T)) == 0;
          CHECK(same);
          // Other channels keep their contents.
          grad.set(std::vector<T>(rows.size(), to<T>(7)));
          CHECK(std::memcmp(grad.data[0].data(), before.data[0].data(),
                            before.data[0].size() * sizeof(T)) == 0);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("levels: decoded boxes equal those of rows", T, float, bfloat16) {
  for_each_isa([](isa) {
    for (const head_layout layout : all_layouts) {
      for (const index_t others : {0, 1}) {
        for (const index_t anchors : {1, 3, 600}) {
          problem<T> p(layout, 2, anchors, others, 3);
          const image_size images[] = {image_size::height_width(40, 30),
                                       image_size::height_width(20, 50)};
          const vector_view<const image_size> sizes(images, 2);
          std::vector<float> boxes(p.numbers.size()), expected(p.numbers.size());
          const index_t per_image = p.in.anchors_per_image();
          decode_boxes(p.in.const_view(), p.anchors, sizes, boxes);
          decode_boxes(boxes_view<const T>(p.numbers), p.anchors, sizes,
                       boxes_view<float>(expected));
          CHECK(same_bits(boxes, expected));
          decode_boxes(p.in.const_view(), p.anchors, {}, boxes, coder_params{});
          decode_boxes(boxes_view<const T>(p.numbers), p.anchors_of_all(),
                       boxes_view<float>(expected));
          CHECK(same_bits(boxes, expected));
          decode_distances(p.in.const_view(), p.anchors, sizes, boxes);
          for (index_t n = 0; n < 2; ++n) {
            decode_distances(boxes_view<const T>(p.numbers.data() + 4 * n * per_image, per_image),
                             p.anchors, images[n],
                             boxes_view<float>(expected.data() + 4 * n * per_image, per_image));
          }
          CHECK(same_bits(boxes, expected));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("levels: the profiler counts the bytes and operations of rows", T, float,
                   bfloat16) {
  problem<T> p(head_layout::nhwc, 1, 3, 0, 3);
  const boxes_view<const T> rows(p.numbers);
  const image_size images[] = {image_size::height_width(40, 30)};
  const vector_view<const image_size> sizes(images, 1);
  std::vector<float> boxes(p.numbers.size());
  std::vector<T> grad(p.numbers.size());
  const auto recorded = [](const auto& run) {
    profile::enable();
    profile::reset();
    run();
    const profile::report report = profile::snapshot();
    profile::disable();
    profile::reset();
    REQUIRE(report.entries.size() == 1);
    return std::make_pair(report.entries[0].bytes, report.entries[0].flops);
  };

  const auto decoded =
      recorded([&] { decode_boxes(p.in.const_view(), p.anchors, {}, boxes, coder_params{}); });
  CHECK(decoded == recorded([&] { decode_boxes(rows, p.anchors, boxes_view<float>(boxes)); }));
  CHECK(decoded.first == p.in.rows() * (4 * index_t{sizeof(T)} + 16 + 16));
  CHECK(recorded([&] { decode_boxes(p.in.const_view(), p.anchors, sizes, boxes); }) ==
        recorded([&] { decode_boxes(rows, p.anchors, images[0], boxes_view<float>(boxes)); }));
  for (const bool by_size : {false, true}) {
    distance_params params;
    params.by_size = by_size;
    CHECK(recorded([&] { decode_distances(p.in.const_view(), p.anchors, {}, boxes, params); }) ==
          recorded([&] { decode_distances(rows, p.anchors, boxes_view<float>(boxes), params); }));
    CHECK(recorded([&] { decode_distances(p.in.const_view(), p.anchors, sizes, boxes, params); }) ==
          recorded([&] {
            decode_distances(rows, p.anchors, images[0], boxes_view<float>(boxes), params);
          }));
  }

  const std::vector<float> targets = random_boxes<float>(p.in.rows(), 5);
  for (const box_selection& selection : {box_selection::all(), box_selection(p.labels)}) {
    CHECK(recorded([&] {
            regression_loss_and_grad(p.in.const_view(), p.anchors, targets, selection,
                                     p.grad.view());
          }) == recorded([&] {
            regression_loss_and_grad(rows, p.anchors, targets, selection, boxes_view<T>(grad));
          }));
  }
  const std::vector<T> against = random_boxes<T>(p.in.rows(), 6);
  CHECK(recorded([&] {
          iou_loss_and_grad(p.in.const_view(), against, box_selection::all(), p.grad.view(),
                            iou_kind::giou);
        }) ==
        recorded([&] { iou_loss_and_grad(rows, against, boxes_view<T>(grad), iou_kind::giou); }));
}

TEST_CASE("levels: bad arguments throw errors that name them and write nothing") {
  problem<float> p(head_layout::nchw, 2, 3, 1, 1);
  const std::vector<float> targets = random_boxes<float>(p.in.rows(), 5);
  const auto before = p.grad.data;
  const auto fails = refusals(p.grad.data);
  const auto regress = [&](const regression_loss_params& params) {
    return [&p, &targets, params] {
      regression_loss_and_grad(p.in.const_view(), p.anchors, targets, p.labels, p.grad.view(),
                               p.scales, params);
    };
  };
  regression_loss_params params;
  params.beta = -1;
  fails("regression_loss_and_grad: params.beta is -1", regress(params));
  params = {};
  params.coder.weight_h = 0;
  fails("params.coder.weight_h is 0", regress(params));
  params = {};
  params.box_weights = p.scales;
  fails("params.box_weights.size() is 2", regress(params));
  const head_view<float> five(p.grad.levels, 2, 3, 5, head_layout::nchw);
  const head_view<const float> five_classes(p.in.const_levels, 2, 3, 5, head_layout::nchw);
  fails("deltas.classes() is 5, expected 4",
        [&] { regression_loss_and_grad(five_classes, p.anchors, targets, p.labels, five); });
  fails("grad.classes() is 5",
        [&] { regression_loss_and_grad(p.in.const_view(), p.anchors, targets, p.labels, five); });
  const std::vector<float> one(p.anchors.begin(), p.anchors.begin() + 4);
  fails("anchors.size() is 1", [&] {
    regression_loss_and_grad(p.in.const_view(), one, targets, p.labels, p.grad.view());
  });
  fails("targets.size() is 1", [&] {
    regression_loss_and_grad(p.in.const_view(), p.anchors, one, p.labels, p.grad.view());
  });
  fails("labels.size() is 2", [&] {
    regression_loss_and_grad(p.in.const_view(), p.anchors, targets, std::vector<int>(2),
                             p.grad.view());
  });
  std::vector<float> scales{1, std::nanf("")};
  fails("image_scales[1] is nan", [&] {
    regression_loss_and_grad(p.in.const_view(), p.anchors, targets, p.labels, p.grad.view(),
                             scales);
  });
  auto matches = p.labels;
  matches[static_cast<std::size_t>(p.list[2])] = 1000;
  fails("is 1000, expected 0 to ", [&] {
    regression_loss_and_grad(p.in.const_view(), p.anchors,
                             regression_targets<float>(p.anchors, matches), p.labels,
                             p.grad.view());
  });
  fails("targets.size() is 1",
        [&] { smooth_l1_loss_and_grad(p.in.const_view(), one, p.labels, p.grad.view()); });
  fails("params.epsilon is -1", [&] {
    iou_loss_params negative;
    negative.epsilon = -1;
    iou_loss_and_grad(p.in.const_view(), targets, p.labels, p.grad.view(), iou_kind::giou, {},
                      negative);
  });
  std::vector<float> boxes(targets.size());
  fails("boxes.size() is 1", [&] {
    decode_boxes(p.in.const_view(), p.anchors, {}, boxes_view<float>(boxes.data(), 1));
  });
  const image_size image = image_size::height_width(10, -1);
  fails("images.size() is 1", [&] {
    decode_boxes(p.in.const_view(), p.anchors, vector_view<const image_size>(&image, 1), boxes);
  });
  const image_size images[] = {image_size::height_width(1, 1), image};
  fails("images[1].width is -1", [&] {
    decode_boxes(p.in.const_view(), p.anchors, vector_view<const image_size>(images, 2), boxes);
  });
}
