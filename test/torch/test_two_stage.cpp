// SPDX-License-Identifier: Apache-2.0
// RoIAlign, proposals, detections of a box head and samples on tensors.
#include "support.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace {

using namespace torch_test;

/// `map` (channels x height x width) interpolated at a point; 0 beyond -1 and size.
Tensor sample(const Tensor& map, double x, double y) {
  const auto height = map.size(1), width = map.size(2);
  if (x < -1 || y < -1 || x > static_cast<double>(width) || y > static_cast<double>(height))
    return at::zeros({map.size(0)}, map.options());
  const auto place = [](double at, std::int64_t size) {
    at = std::max(at, 0.0);
    const auto low = std::min(static_cast<std::int64_t>(at), size - 1);
    const auto high = std::min(low + 1, size - 1);
    return std::make_tuple(low, high, low == high ? 0.0 : at - static_cast<double>(low));
  };
  const auto [x0, x1, dx] = place(x, width);
  const auto [y0, y1, dy] = place(y, height);
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return map.select(1, row).select(1, column);
  };
  return at(y0, x0) * (1 - dy) * (1 - dx) + at(y0, x1) * (1 - dy) * dx +
         at(y1, x0) * dy * (1 - dx) + at(y1, x1) * dy * dx;
}

/// RoIAlign by its definition, for boxes with image indices.
Tensor roi_align_by_samples(const Tensor& features, const Tensor& boxes, std::int64_t height,
                            std::int64_t width, double scale, std::int64_t ratio, bool aligned) {
  std::vector<Tensor> bins;
  for (std::int64_t k = 0; k < boxes.size(0); ++k) {
    const Tensor map = features[boxes[k][0].item<std::int64_t>()];
    const auto at = [&](int i) {
      return boxes[k][i].item<double>() * scale - (aligned ? 0.5 : 0.0);
    };
    const double least = aligned ? -std::numeric_limits<double>::infinity() : 1;
    const double w = std::max(at(3) - at(1), least) / static_cast<double>(width);
    const double h = std::max(at(4) - at(2), least) / static_cast<double>(height);
    const auto count = [&](double size) {
      return ratio > 0 ? ratio : static_cast<std::int64_t>(std::ceil(size));
    };
    for (std::int64_t p = 0; p < height; ++p) {
      for (std::int64_t q = 0; q < width; ++q) {
        Tensor total = at::zeros({features.size(1)}, features.options());
        for (std::int64_t i = 0; i < count(h); ++i)
          for (std::int64_t j = 0; j < count(w); ++j)
            total =
                total +
                sample(map,
                       at(1) + w * (static_cast<double>(q) +
                                    (static_cast<double>(j) + 0.5) / static_cast<double>(count(w))),
                       at(2) + h * (static_cast<double>(p) + (static_cast<double>(i) + 0.5) /
                                                                 static_cast<double>(count(h))));
        bins.push_back(total / static_cast<double>(count(h) * count(w)));
      }
    }
  }
  return at::stack(bins)
      .view({boxes.size(0), height, width, features.size(1)})
      .permute({0, 3, 1, 2});
}

/// Boxes of two images in a square of side 100, with their images.
Tensor boxes_with_images(std::int64_t count) {
  const Tensor images = at::arange(count).remainder(2).to(at::kFloat).unsqueeze(1);
  return at::cat({images, some_boxes(count)}, 1);
}

Tensor in_layout(const Tensor& features, bool channels_last) {
  return features.contiguous(channels_last ? at::MemoryFormat::ChannelsLast
                                           : at::MemoryFormat::Contiguous);
}

}  // namespace

TEST_CASE("RoIAlign and its gradient match the definition, in every type and layout") {
  at::manual_seed(61);
  const Tensor boxes = boxes_with_images(9);
  const std::int64_t size[] = {3, 2};
  for (const at::ScalarType type : types) {
    for (const bool channels_last : {false, true}) {
      for (const bool aligned : {false, true}) {
        for (const std::int64_t ratio : {-1, 2}) {
          INFO(std::string(c10::toString(type)), channels_last, aligned, ratio);
          const Tensor values = in_layout(at::randn({2, 5, 13, 11}).to(type), channels_last);
          compare(
              [&](const Tensor& x) {
                Tensor out;
                const int copied =
                    copies([&] { out = ops::roi_align(x, boxes, size, 0.12, ratio, aligned); });
                // Features of float16, or boxes for features of float64.
                CHECK(copied == (type == at::kHalf || type == at::kDouble ? 1 : 0));
                CHECK(out.is_contiguous(channels_last ? at::MemoryFormat::ChannelsLast
                                                      : at::MemoryFormat::Contiguous));
                return out;
              },
              [&](const Tensor& x) {
                return roi_align_by_samples(x, boxes, 3, 2, 0.12, ratio, aligned);
              },
              values);
          const Tensor x = values.detach().requires_grad_();
          const Tensor grad =
              torch::autograd::grad({ops::roi_align(x, boxes, size, 0.12).sum()}, {x})[0];
          CHECK(grad.strides() == values.strides());
        }
      }
    }
  }
}

TEST_CASE("Boxes per image equal boxes with image indices, and strides do not matter") {
  at::manual_seed(62);
  const Tensor features = at::randn({2, 4, 10, 12}), boxes = some_boxes(7);
  const std::int64_t size[] = {2, 2}, counts[] = {3, 4};
  const Tensor images = at::tensor({0, 0, 0, 1, 1, 1, 1}).to(at::kFloat).unsqueeze(1);
  const Tensor expected = ops::roi_align(features, at::cat({images, boxes}, 1), size, 0.1, 2);
  CHECK(copies([&] {
          CHECK(at::equal(ops::roi_align(features, boxes, size, 0.1, 2, false, counts), expected));
        }) == 0);
  CHECK(at::equal(ops::roi_align(features, boxes.to(at::kDouble), size, 0.1, 2, false, counts),
                  expected));
  const Tensor strided = at::randn({2, 4, 20, 24}).slice(2, 0, 20, 2).slice(3, 0, 24, 2);
  const Tensor tracked = strided.detach().requires_grad_();
  const Tensor plain = strided.contiguous().detach().requires_grad_();
  const Tensor out = ops::roi_align(tracked, boxes, size, 0.1, 2, true, counts);
  CHECK(at::equal(out, ops::roi_align(plain, boxes, size, 0.1, 2, true, counts)));
  // An incoming gradient may have strides too: an expanded sum, and a transposed product.
  const Tensor weight = at::randn({2, 2, 4, 7}).permute({3, 2, 1, 0});
  for (const bool is_sum : {true, false}) {
    const auto loss = [&](const Tensor& x) {
      const Tensor bins = ops::roi_align(x, boxes, size, 0.1, 2, true, counts);
      return is_sum ? bins.sum() : (bins * weight).sum();
    };
    CHECK(at::equal(torch::autograd::grad({loss(tracked)}, {tracked})[0],
                    torch::autograd::grad({loss(plain)}, {plain})[0]));
  }
}

TEST_CASE("A pyramid's boxes go to the levels for their sizes") {
  at::manual_seed(63);
  const double scales[] = {0.25, 0.125, 0.0625};
  const std::int64_t size[] = {3, 3};
  const Tensor corner = at::rand({2, 2}) * 20;
  // Sides of 50, 120 and 300, which belong to levels 2, 3 and 4.
  Tensor boxes = at::zeros({6, 5});
  for (std::int64_t k = 0; k < 6; ++k) {
    const double side = k / 2 == 0 ? 50 : k / 2 == 1 ? 120 : 300;
    boxes[k][0] = k % 2;
    boxes[k].slice(0, 1, 3) = corner[k % 2];
    boxes[k].slice(0, 3, 5) = corner[k % 2] + side;
  }
  for (const bool channels_last : {false, true}) {
    std::vector<Tensor> levels, alone;
    for (const std::int64_t side : {80, 40, 20}) {
      levels.push_back(in_layout(at::randn({2, 6, side, side}), channels_last).requires_grad_());
      alone.push_back(levels.back().detach().requires_grad_());
    }
    const Tensor out = ops::multiscale_roi_align(levels, boxes, size, scales);
    std::vector<Tensor> parts;
    for (std::int64_t l = 0; l < 3; ++l)
      parts.push_back(ops::roi_align(alone[static_cast<std::size_t>(l)],
                                     boxes.slice(0, 2 * l, 2 * l + 2), size, scales[l], 2));
    const Tensor expected = at::cat(parts);
    CHECK(at::equal(out, expected));
    const Tensor weight = at::randn_like(out);
    const auto grads =
        torch::autograd::grad({(out * weight).sum()}, {levels[0], levels[1], levels[2]});
    const auto part_grads =
        torch::autograd::grad({(expected * weight).sum()}, {alone[0], alone[1], alone[2]});
    for (std::size_t l = 0; l < 3; ++l) {
      CHECK(at::equal(grads[l], part_grads[l]));
      CHECK(grads[l].strides() == levels[l].strides());
    }
    // If levels differ in type, the widest is used; a single level may have any scale.
    const Tensor mixed = ops::multiscale_roi_align(
        {levels[0].to(at::kBFloat16), levels[1], levels[2]}, boxes, size, scales);
    CHECK((mixed.scalar_type() == at::kFloat));
    CHECK(at::equal(ops::multiscale_roi_align({levels[0]}, boxes, size, {0.3}),
                    ops::roi_align(levels[0], boxes, size, 0.3, 2)));
  }
}

TEST_CASE("RoIAlign without boxes, bins or images") {
  const Tensor features = at::randn({2, 3, 8, 8}).requires_grad_();
  const std::int64_t size[] = {2, 2}, none_high[] = {0, 2};
  const Tensor out = ops::roi_align(features, at::zeros({0, 5}), size);
  CHECK(out.sizes() == at::IntArrayRef({0, 3, 2, 2}));
  CHECK(at::equal(torch::autograd::grad({out.sum()}, {features})[0], at::zeros_like(features)));
  CHECK(ops::roi_align(features, at::zeros({1, 5}), none_high).numel() == 0);
  CHECK(ops::roi_align(at::zeros({0, 3, 8, 8}), at::zeros({0, 5}), size).numel() == 0);
  CHECK(at::equal(ops::roi_align(features.detach(),
                                 at::tensor({0.0, 500.0, 500.0, 600.0, 600.0}).view({1, 5}), size),
                  at::zeros({1, 3, 2, 2})));
}

TEST_CASE("Under autocast, RoIAlign reads bfloat16 without conversion, with float32 boxes") {
  at::manual_seed(64);
  const Tensor features = at::randn({2, 4, 9, 9}).to(at::kBFloat16).requires_grad_();
  const Tensor boxes = boxes_with_images(5);
  const std::int64_t size[] = {2, 2};
  Tensor out;
  {
    const autocast enabled;
    out = ops::roi_align(features, boxes, size, 0.1, 2);
  }
  CHECK((out.scalar_type() == at::kBFloat16));
  CHECK(at::equal(out,
                  ops::roi_align(features.to(at::kFloat), boxes, size, 0.1, 2).to(at::kBFloat16)));
  CHECK((torch::autograd::grad({out.sum()}, {features})[0].scalar_type() == at::kBFloat16));
}

TEST_CASE("RoIAlign of tensors without data has the correct shapes") {
  const std::int64_t size[] = {3, 2};
  const double scales[] = {0.5, 0.25};
  const Tensor boxes = boxes_with_images(4);
  for (const bool channels_last : {false, true}) {
    const std::vector<Tensor> levels{in_layout(at::randn({2, 5, 8, 6}), channels_last),
                                     in_layout(at::randn({2, 5, 4, 3}), channels_last)};
    const std::vector<Tensor> empty{without_data(levels[0]), without_data(levels[1])};
    check_same_shape(ops::roi_align(empty[0], without_data(boxes), size),
                     ops::roi_align(levels[0], boxes, size));
    const Tensor tracked = without_data(levels[0]).requires_grad_();
    const Tensor out =
        ops::multiscale_roi_align({tracked, empty[1]}, without_data(boxes), size, scales);
    check_same_shape(out, ops::multiscale_roi_align(levels, boxes, size, scales));
    check_same_shape(torch::autograd::grad({out.sum()}, {tracked})[0], levels[0]);
  }
}

TEST_CASE("Several threads call RoIAlign at the same time") {
  at::manual_seed(65);
  const Tensor features = at::randn({2, 8, 30, 30}), boxes = boxes_with_images(40);
  const std::int64_t size[] = {7, 7};
  const auto step = [&] {
    const Tensor x = features.detach().requires_grad_();
    return torch::autograd::grad({ops::roi_align(x, boxes, size, 0.3, 2).square().sum()}, {x})[0];
  };
  const Tensor expected = step();
  std::vector<Tensor> found(4);
  std::vector<std::thread> callers;
  for (Tensor& grad : found) callers.emplace_back([&] { grad = step(); });
  for (std::thread& caller : callers) caller.join();
  for (const Tensor& grad : found) CHECK(at::equal(grad, expected));
}

TEST_CASE("Bad arguments of RoIAlign") {
  const Tensor features = at::randn({2, 3, 8, 8}), boxes = boxes_with_images(4);
  const std::int64_t size[] = {2, 2}, counts[] = {1, 2}, three[] = {2, 2, 2};
  const double scales[] = {0.5, 0.25}, uneven[] = {0.5, 0.2};
  const auto check_error = [](const std::string& expected, const std::function<void()>& call) {
    INFO(expected);
    CHECK(error_of(call).find(expected) != std::string::npos);
  };
  check_error("vecdet::roi_align: boxes.shape is [4, 3]", [&] {
    ops::roi_align(features, at::zeros({4, 3}), size);
  });
  check_error("vecdet::roi_align: features.shape is [3, 8, 8]",
              [&] { ops::roi_align(features[0], boxes, size); });
  check_error("vecdet::roi_align: output_size.size() is 3",
              [&] { ops::roi_align(features, boxes, three); });
  check_error("vecdet::roi_align: box_counts.size() is 0, expected 2, the number of images",
              [&] { ops::roi_align(features, boxes.slice(1, 1), size); });
  check_error("vecdet::roi_align: box_counts.size() is 2",
              [&] { ops::roi_align(features, boxes, size, 1, 2, false, counts); });
  check_error("vecdet::roi_align: the sum of box_counts is 3, expected 4, the number of boxes",
              [&] { ops::roi_align(features, boxes.slice(1, 1), size, 1, 2, false, counts); });
  check_error("vecdet::roi_align: boxes.images[0] is 2",
              [&] { ops::roi_align(features, boxes.clone().fill_(2), size); });
  check_error("vecdet::roi_align: params.spatial_scale is 0",
              [&] { ops::roi_align(features, boxes, size, 0); });
  check_error("vecdet::roi_align: features.dtype is Long",
              [&] { ops::roi_align(features.to(at::kLong), boxes, size); });
  check_error("vecdet::roi_align: boxes requires a gradient",
              [&] { ops::roi_align(features, boxes.clone().requires_grad_(), size); });
  check_error("vecdet::multiscale_roi_align: scales.size() is 1", [&] {
    ops::multiscale_roi_align({features, features}, boxes, size, {0.5});
  });
  check_error("vecdet::multiscale_roi_align: params.scales[1] is 0.2", [&] {
    ops::multiscale_roi_align({features, features}, boxes, size, uneven);
  });
  check_error("vecdet::multiscale_roi_align: features.shape is [2, 1, 8, 8]", [&] {
    ops::multiscale_roi_align({features, features.slice(1, 0, 1)}, boxes, size, scales);
  });
  const Tensor x = features.detach().requires_grad_();
  const Tensor grad = torch::autograd::grad({ops::roi_align(x, boxes, size).square().sum()}, {x},
                                            {}, true, true)[0];
  check_error("_multiscale_roi_align_grad is not implemented", [&] { grad.sum().backward(); });
}

TEST_CASE("Proposals are the best boxes of each level after NMS") {
  at::manual_seed(66);
  const Tensor anchors = some_boxes(3 * 37);
  const double sizes[] = {90, 95, 80, 100};
  for (const bool channels_last : {false, true}) {
    const head logits(1, channels_last), deltas(4, channels_last);
    const auto [boxes, scores, levels, offsets] =
        ops::rpn_postprocess(logits.levels, deltas.levels, anchors, sizes, 20, 0.6, 15);
    REQUIRE(offsets.sizes() == at::IntArrayRef({3}));
    const Tensor rows = rows_of(logits.levels, 1), delta_rows = rows_of(deltas.levels, 4);
    const std::int64_t ends[] = {0, 90, 108, 111};
    for (std::int64_t image = 0; image < 2; ++image) {
      std::vector<Tensor> found, found_scores, found_levels;
      for (std::int64_t l = 0; l < 3; ++l) {
        const Tensor per_level = rows[image].flatten().slice(0, ends[l], ends[l + 1]);
        const auto best =
            std::get<1>(per_level.topk(std::min<std::int64_t>(20, per_level.numel())));
        const double size[] = {sizes[2 * image], sizes[2 * image + 1]};
        found.push_back(ops::decode_boxes(delta_rows[image].index_select(0, best + ends[l]),
                                          anchors.index_select(0, best + ends[l]), {}, size));
        found_scores.push_back(at::sigmoid(per_level.index_select(0, best)));
        found_levels.push_back(at::full({best.numel()}, l, at::kLong));
      }
      const Tensor all = at::cat(found), all_scores = at::cat(found_scores);
      const Tensor size = all.slice(1, 2) - all.slice(1, 0, 2);
      const Tensor large = (size >= 1e-3).all(1).nonzero().flatten();
      const Tensor kept = large.index_select(
          0, ops::batched_nms(all.index_select(0, large), all_scores.index_select(0, large),
                              at::cat(found_levels).index_select(0, large), 0.6)
                 .slice(0, 0, 15));
      const std::int64_t first = offsets[image].item<std::int64_t>();
      const std::int64_t end = offsets[image + 1].item<std::int64_t>();
      CHECK(near(boxes.slice(0, first, end), all.index_select(0, kept)));
      CHECK(near(scores.slice(0, first, end), all_scores.index_select(0, kept)));
      CHECK(at::equal(levels.slice(0, first, end), at::cat(found_levels).index_select(0, kept)));
    }
  }
  const head logits(1, false), deltas(4, false);
  CHECK(error_of([&] {
          ops::rpn_postprocess(logits.levels, logits.levels, anchors, sizes);
        }).find("vecdet::rpn_postprocess: deltas.shape is") != std::string::npos);
  CHECK(error_of([&] {
          ops::rpn_postprocess(logits.levels, deltas.levels, anchors, {90, 95});
        }).find("vecdet::rpn_postprocess: image_sizes.size() is 2") != std::string::npos);
}

TEST_CASE("Detections of a box head") {
  at::manual_seed(67);
  const Tensor logits = at::randn({30, 5}) * 3, deltas = at::randn({30, 20}),
               proposals = some_boxes(30);
  const std::int64_t counts[] = {12, 0, 18};
  const double sizes[] = {90, 95, 50, 50, 80, 100};
  const auto [boxes, scores, classes, offsets] =
      ops::postprocess_box_head(logits, deltas, proposals, counts, sizes, 0.1, 0.4, 9);
  CHECK(offsets[1].item<std::int64_t>() == offsets[2].item<std::int64_t>());
  const Tensor p = logits.softmax(1);
  const std::int64_t ends[] = {0, 12, 12, 30};
  for (const std::int64_t image : {0, 2}) {
    const auto per_image = [&](const Tensor& rows) {
      return rows.slice(0, ends[image], ends[image + 1]);
    };
    const std::int64_t count = ends[image + 1] - ends[image];
    const double size[] = {sizes[2 * image], sizes[2 * image + 1]};
    const Tensor decoded = ops::decode_boxes(per_image(deltas).reshape({-1, 4}),
                                             per_image(proposals).repeat_interleave(5, 0),
                                             {10.0, 10.0, 5.0, 5.0}, size);
    const Tensor columns = at::arange(5).repeat({count});
    const Tensor score = per_image(p).flatten();
    const Tensor side = (decoded.slice(1, 2) - decoded.slice(1, 0, 2)).amin(1);
    const Tensor chosen = ((columns > 0) & (score > 0.1) & (side >= 1e-2)).nonzero().flatten();
    const Tensor kept = chosen.index_select(
        0, ops::batched_nms(decoded.index_select(0, chosen), score.index_select(0, chosen),
                            columns.index_select(0, chosen), 0.4)
               .slice(0, 0, 9));
    const std::int64_t first = offsets[image].item<std::int64_t>();
    const std::int64_t end = offsets[image + 1].item<std::int64_t>();
    CHECK(end > first);
    CHECK(near(boxes.slice(0, first, end), decoded.index_select(0, kept)));
    CHECK(near(scores.slice(0, first, end), score.index_select(0, kept)));
    CHECK(at::equal(classes.slice(0, first, end), columns.index_select(0, kept)));
  }
  CHECK(error_of([&] {
          ops::postprocess_box_head(logits, deltas, proposals, {12, 19}, {90, 95, 50, 50});
        }).find("vecdet::postprocess_box_head: proposal_counts[1] is 19") != std::string::npos);
  CHECK(error_of([&] {
          ops::postprocess_box_head(logits, deltas.slice(1, 0, 8), proposals, {30}, {90, 95});
        }).find("vecdet::postprocess_box_head: deltas.shape is [30, 8]") != std::string::npos);
}

TEST_CASE("Balanced samples") {
  const Tensor labels = at::full({300}, -1, at::kLong);
  labels.slice(0, 0, 300, 10).fill_(4);
  labels.slice(0, 5, 300, 10).fill_(-2);
  const std::int64_t counts[] = {100, 200};
  const auto [indices, offsets, positives] = ops::sample_balanced(labels, counts, 40, 0.25, 7);
  CHECK(at::equal(offsets, at::tensor({0, 40, 80}, at::kLong)));
  CHECK(at::equal(positives, at::tensor({10, 10}, at::kLong)));
  for (std::int64_t image = 0; image < 2; ++image) {
    const Tensor sample = indices.slice(0, 40 * image, 40 * image + 40);
    CHECK(at::equal(labels.index_select(0, sample.slice(0, 0, 10)), at::full({10}, 4, at::kLong)));
    CHECK(at::equal(labels.index_select(0, sample.slice(0, 10)), at::full({30}, -1, at::kLong)));
    CHECK((sample >= 100 * image).all().item<bool>());
    CHECK((sample < 100 + 200 * image).all().item<bool>());
  }
  CHECK(at::equal(std::get<0>(ops::sample_balanced(labels.to(at::kInt), counts, 40, 0.25, 7)),
                  indices));
  CHECK(!at::equal(std::get<0>(ops::sample_balanced(labels, counts, 40, 0.25, 8)), indices));
  CHECK(error_of([&] {
          ops::sample_balanced(labels, {100, 100});
        }).find("vecdet::sample_balanced: the sum of counts is 200") != std::string::npos);
}

TEST_CASE("FCOS's assigner matches the smallest box of an anchor's size") {
  // A grid of 8 x 8 anchors of side 8, and one of 4 x 4 of side 16.
  std::vector<Tensor> list;
  for (const std::int64_t side : {8, 4}) {
    const Tensor c = (at::arange(side) + 0.5).to(at::kFloat) * (64.0 / static_cast<double>(side));
    const double half = 32.0 / static_cast<double>(side);
    const Tensor x = c.repeat({side}), y = c.repeat_interleave(side);
    list.push_back(at::stack({x - half, y - half, x + half, y + half}, 1));
  }
  const Tensor anchors = at::cat(list);
  const Tensor boxes =
      at::tensor({8.0, 8.0, 40.0, 40.0, 16.0, 16.0, 30.0, 30.0}).to(at::kFloat).view({2, 4});
  const std::int64_t sizes[] = {8, 8, 4, 4}, counts[] = {1, 1};
  const Tensor matches = ops::assign_fcos(anchors, sizes, boxes);
  const Tensor centres = (anchors.slice(1, 0, 2) + anchors.slice(1, 2)) / 2;
  const Tensor widths = anchors.select(1, 2) - anchors.select(1, 0);
  for (std::int64_t a = 0; a < anchors.size(0); ++a) {
    std::int64_t expected = -1;
    for (const std::int64_t b : {0, 1}) {  // the second is the smaller one
      const Tensor near_side = centres[a] - boxes[b].slice(0, 0, 2),
                   far_side = boxes[b].slice(0, 2) - centres[a];
      const Tensor sides = at::cat({near_side, far_side});
      const Tensor off =
          (centres[a] - (boxes[b].slice(0, 0, 2) + boxes[b].slice(0, 2)) / 2).abs().max();
      const double width = widths[a].item<double>(), largest = sides.max().item<double>();
      const bool fits = a < 64 ? largest < 8 * width : largest > 4 * width;
      if (sides.min().item<double>() > 0 && off.item<double>() < 1.5 * width && fits) expected = b;
    }
    CHECK(matches[a].item<std::int64_t>() == expected);
  }
  CHECK((matches == 1).any().item<bool>());
  CHECK(ops::assign_fcos(anchors, sizes, boxes, counts).sizes() == at::IntArrayRef({2, 80}));
  CHECK(error_of([&] {
          ops::assign_fcos(anchors, {8, 8, 4, 5}, boxes);
        }).find("vecdet::assign_fcos") != std::string::npos);
}
