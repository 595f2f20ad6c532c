// SPDX-License-Identifier: Apache-2.0
// Outputs in the memory of an input: where that is allowed, the results are bit-identical; where it
// is not, the call throws std::invalid_argument and changes nothing.
#include "calls/catalogue.hpp"
#include "support/box_tensor.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// call(in, out) gives the same bits if both are the same memory, every time.
template <class Call>
void check_in_place(const char* what, const std::vector<float>& from, const Call& call) {
  CAPTURE(what);
  std::vector<float> other(from.size());
  call(from.data(), other.data());
  for (int i = 0; i < 5; ++i) {
    std::vector<float> same = from;
    call(same.data(), same.data());
    CHECK(same_bits(same, other));
  }
}

/// Leaves room behind each array, for an output that overlaps its end and is wrongly accepted.
class roomy_memory : public plain_memory {
 public:
  void* take(std::size_t bytes, std::size_t alignment) override {
    return plain_memory::take(bytes + (std::size_t{1} << 19), alignment);
  }
};

/// Places an output of a call in the memory of an input, `bytes` after its first byte, and restores
/// both.
class shared_memory {
 public:
  shared_memory(placed_bytes& output, const placed_bytes& input, std::size_t bytes)
      : output_(output),
        input_(input),
        address_(output.address),
        held_(static_cast<const char*>(input.address), input.bytes) {
    output.address = static_cast<char*>(input.address) + bytes;
  }
  ~shared_memory() {
    output_.address = address_;
    std::memcpy(input_.address, held_.data(), held_.size());
  }
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;

 private:
  placed_bytes& output_;
  const placed_bytes& input_;
  void* address_;
  std::string held_;
};

}  // namespace

TEST_CASE("in place: outputs that may overwrite inputs hold the same bits") {
  int overwritten = 0;
  const auto check = [&](const family& f, const call& c) {
    const accesses& arrays = c.arrays;
    if (arrays.replaceable.empty()) return;
    INFO(f.type, " ", c.name);
    const results apart = c.results_of(threading::sequential);
    for (int i = 0; i < 3; ++i) {
      std::deque<shared_memory> shared;
      for (std::size_t k = 0; k < arrays.replaceable.size(); ++k)
        shared.emplace_back(*arrays.outputs[k].array, *arrays.replaceable[k], 0);
      CHECK(c.results_in_place(threading::parallel) == apart);
      ++overwritten;
    }
  };
  for_each_isa([&](isa) {
    plain_memory at;
    for_each_call(at, 24000, source::ordinary, check);
    for (const index_t length : {1, 7, 8, 15, 16, 17, 31, 33, 300})
      for (const family& f : catalogue())
        for (const shape& s : f.sweep(length)) {
          CAPTURE(profile::shape_text(s));
          const call_set set = f.make(at, {s});
          for (const call& c : set.calls) check(f, c);
        }
  });
  CHECK(overwritten > 5000);
}

TEST_CASE("in place: other outputs are refused in the memory of an input") {
  int refused = 0;
  const auto check = [&](const call& c, std::size_t out, std::size_t in, bool is_shifted) {
    placed_bytes& output = *c.arrays.outputs[out].array;
    INFO("output ", out, ", input ", in, std::string(is_shifted ? ", shifted" : ""));
    const shared_memory shared(output, *c.arrays.inputs[in], is_shifted ? output.element : 0);
    const std::vector<std::string> inputs = c.arrays.copied_inputs();
    CHECK_THROWS_WITH_AS(c.run(threading::sequential),
                         doctest::Contains((c.function + ": ").c_str()), std::invalid_argument);
    CHECK(c.arrays.copied_inputs() == inputs);
    ++refused;
  };
  for (const family& f : catalogue()) {
    roomy_memory at;
    const call_set set = f.make(at, {f.sized(40)});
    for (const call& c : set.calls) {
      INFO(f.type, " ", c.name);
      for (std::size_t out = 0; out < c.arrays.outputs.size(); ++out) {
        for (std::size_t in = 0; in < c.arrays.inputs.size(); ++in) {
          if (c.arrays.outputs[out].array->element < c.arrays.inputs[in]->bytes)
            check(c, out, in, true);
          const bool is_allowed =
              out < c.arrays.replaceable.size() && c.arrays.replaceable[out] == c.arrays.inputs[in];
          if (!is_allowed) check(c, out, in, false);
        }
      }
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("in place: other outputs are refused if they share memory with an input") {
  const auto boxes = random_boxes<float>(100, 5);
  std::vector<float> memory = boxes;
  const boxes_view<const float> in(memory);
  const auto fails = refusals(memory);
  // From its first element on, from its last one, and up to its first one.
  std::vector<float> wide(boxes.size() + 198);
  std::copy(boxes.begin(), boxes.end(), wide.begin() + 99);
  const boxes_view<const float> inside(wide.data() + 99, 100);
  for (const std::size_t begin : {std::size_t{0}, std::size_t{99}, std::size_t{498}}) {
    CAPTURE(begin);
    fails("box_areas: areas is in the memory of boxes, expected separate memory",
          [&] { box_areas(inside, vector_view<float>(wide.data() + begin, 100)); });
  }
  std::vector<float> areas(100), apart(300);
  CHECK_NOTHROW(box_areas(boxes_view<const float>(wide.data() + 99, 100),
                          vector_view<float>(apart.data(), 100)));
  // Neighbours share nothing.
  std::vector<float> both(500);
  std::copy(boxes.begin(), boxes.end(), both.begin());
  const boxes_view<const float> first(both.data(), 100);
  box_areas(first, vector_view<float>(both.data() + 400, 100));
  box_areas(in, areas);
  CHECK(same_bits(areas.data(), both.data() + 400, 100));

  float* const begin = memory.data();
  fails("large_box_mask: mask is in the memory of boxes", [&] {
    large_box_mask(in, 5, {reinterpret_cast<std::uint8_t*>(begin + 7), 100});
  });
  fails("large_boxes: indices is in the memory of boxes", [&] {
    large_boxes(in, 5, {reinterpret_cast<index_t*>(begin), 100});
  });
  const vector_view<float> shared(begin + 300, 100);
  const boxes_view<const float> other(boxes);
  fails("elementwise_iou: out is in the memory of a", [&] { elementwise_iou(in, other, shared); });
  fails("elementwise_iou: out is in the memory of b", [&] { elementwise_iou(other, in, shared); });
  const boxes_soa_view<const float> planes(begin, begin + 100, begin + 200, begin + 300, 100);
  fails("elementwise_iou: out is in the memory of a",
        [&] { elementwise_iou(planes, planes, shared); });
  fails("iou_loss_unreduced: loss is in the memory of predicted",
        [&] { iou_loss_unreduced(in, other, shared, iou_kind::giou); });
  fails("iou_loss_unreduced: loss is in the memory of targets",
        [&] { iou_loss_unreduced(other, in, shared, iou_kind::ciou); });

  std::vector<float> rows(600, 1);
  const matrix_view<const float> detections(rows.data(), 100, 5, 6);
  const auto split_fails = [&](const char* message, boxes_view<float> b, vector_view<float> s) {
    fails(message, [&] { split_detections(detections, b, s); });
  };
  std::vector<float> b(400), s(100);
  split_fails("split_detections: boxes is in the memory of detections", {rows.data(), 100}, s);
  split_fails("split_detections: scores is in the memory of detections", b,
              {rows.data() + 500, 100});
  split_fails("split_detections: scores is in the memory of boxes", b, {b.data() + 399, 100});
  // The gap after the last row does not count as part of the rows.
  std::vector<float> after(700, 1);
  const matrix_view<const float> columns(after.data() + 1, 100, 5, 6);
  CHECK_NOTHROW(split_detections(columns, b, vector_view<float>(after.data() + 600, 100)));
}

TEST_CASE("in place: outputs are refused if they are part of an input, or shifted in it") {
  constexpr index_t n = 100;
  const auto boxes = random_boxes<float>(n, 6);
  std::vector<float> memory = boxes, others = boxes;
  memory.resize(boxes.size() + 4, 1);
  const std::vector<float> before = memory;
  const boxes_view<const float> in(memory.data(), n), other(others);
  const boxes_view<float> same(memory.data(), n), shifted(memory.data() + 4, n);
  const boxes_view<float> anchors(others);
  std::vector<float> elsewhere(boxes.size());
  const boxes_view<float> out(elsewhere);
  const auto fails = refusals(memory, others);
  const char* const apart_or_same = ", expected separate memory or exactly the same";
  const image_size image = image_size::height_width(9, 9);
  const std::vector<image_size> two(2, image);
  const boxes_view<const float> half(others.data(), n / 2);

  fails((std::string("encode_boxes: deltas is in the memory of targets") + apart_or_same).c_str(),
        [&] { encode_boxes(in, other, shifted); });
  fails("encode_boxes: deltas is in the memory of anchors, expected separate memory",
        [&] { encode_boxes(in, other, anchors); });
  fails("decode_boxes: boxes is in the memory of deltas",
        [&] { decode_boxes(in, other, shifted); });
  fails("decode_boxes: boxes is in the memory of deltas",
        [&] { decode_boxes(in, other, image, shifted); });
  fails("decode_boxes: boxes is in the memory of anchors",
        [&] { decode_boxes(in, half, two, anchors); });
  fails("encode_distances: distances is in the memory of targets",
        [&] { encode_distances(in, other, shifted); });
  fails("decode_distances: boxes is in the memory of anchors",
        [&] { decode_distances(in, other, anchors); });
  fails("clip_boxes: out is in the memory of boxes", [&] { clip_boxes(in, image, shifted); });
  fails("convert_boxes: out is in the memory of boxes",
        [&] { convert_boxes(in, box_format::xyxy, box_format::xywh, shifted); });
  // bfloat16 deltas are smaller than the boxes.
  const boxes_view<const bfloat16> narrow(reinterpret_cast<const bfloat16*>(memory.data()), n);
  fails("decode_boxes: boxes is in the memory of deltas, expected separate memory",
        [&] { decode_boxes(narrow, other, same); });

  const auto planes = [](auto* data) {
    using number = std::remove_pointer_t<decltype(data)>;
    return boxes_soa_view<number>(data, data + n, data + 2 * n, data + 3 * n, n);
  };
  fails("decode_boxes: boxes is in the memory of deltas",
        [&] { decode_boxes(planes(in.data()), planes(other.data()), planes(memory.data() + 1)); });
  fails("encode_boxes: deltas is in the memory of anchors", [&] {
    encode_boxes(planes(in.data()), planes(other.data()),
                 boxes_soa_view<float>(others.data() + 300, elsewhere.data(), elsewhere.data() + n,
                                       elsewhere.data() + 2 * n, n));
  });

  const matrix_view<float> in_a(memory.data() + 9, 5, 10), in_b(others.data() + 9, 5, 10);
  const boxes_view<const float> five(memory.data(), 5), ten(others.data(), 10);
  fails("pairwise_iou: out is in the memory of a, expected separate memory",
        [&] { pairwise_iou(five, ten, in_a); });
  fails("pairwise_iou: out is in the memory of b", [&] { pairwise_iou(five, ten, in_b); });

  std::vector<index_t> labels(n, 0);
  labels[3] = -1;
  const auto all = box_selection::all();
  const box_selection labelled(labels), listed = box_selection::list({labels.data(), 2});
  fails(
      "smooth_l1_loss_and_grad: grad is in the memory of predictions, expected separate memory or",
      [&] { smooth_l1_loss_and_grad(in, other, all, shifted); });
  // If only some boxes count, the gradient is set to 0 before they are read.
  for (const box_selection& some : {labelled, listed})
    fails("smooth_l1_loss_and_grad: grad is in the memory of predictions",
          [&] { smooth_l1_loss_and_grad(in, other, some, same); });
  fails("smooth_l1_loss_and_grad: grad is in the memory of targets",
        [&] { smooth_l1_loss_and_grad(in, other, all, anchors); });
  fails("smooth_l1_loss_unreduced: loss is in the memory of predictions",
        [&] { smooth_l1_loss_unreduced(in, other, all, shifted); });
  fails("iou_loss_and_grad: grad is in the memory of predicted",
        [&] { iou_loss_and_grad(in, other, shifted, iou_kind::giou); });
  fails("iou_loss_and_grad: grad is in the memory of targets",
        [&] { iou_loss_and_grad(in, other, anchors, iou_kind::ciou); });
  fails("regression_loss_and_grad: grad is in the memory of deltas",
        [&] { regression_loss_and_grad(in, other, other, all, same); });
  fails("regression_loss_and_grad: grad is in the memory of anchors",
        [&] { regression_loss_and_grad(in, other, in, all, anchors); });

  // Indices, which a gradient would overwrite before they are used.
  std::vector<index_t> numbers(2 * n, 0);
  const auto in_numbers = [&] {
    return boxes_view<float>(reinterpret_cast<float*>(numbers.data()), n);
  };
  const auto stays_zero = [&](const char* message, const auto& call) {
    fails(message, call);
    CHECK(numbers == std::vector<index_t>(2 * n, 0));
  };
  const box_selection by_list = box_selection::list({numbers.data(), 1});
  stays_zero("smooth_l1_loss_and_grad: grad is in the memory of labels", [&] {
    smooth_l1_loss_and_grad(in, other, labels_view(numbers.data(), n), in_numbers());
  });
  stays_zero("smooth_l1_loss_and_grad: grad is in the memory of indices",
             [&] { smooth_l1_loss_and_grad(in, other, by_list, in_numbers()); });
  const regression_targets<float> matched(other, {numbers.data(), n});
  stays_zero("regression_loss_and_grad: grad is in the memory of matches",
             [&] { regression_loss_and_grad(in, other, matched, all, in_numbers()); });
  stays_zero("regression_loss_and_grad: grad is in the memory of indices",
             [&] { regression_loss_and_grad(in, other, other, by_list, in_numbers()); });
  const vector_view<const float> weights(elsewhere.data() + 1, n);
  smooth_l1_params smooth;
  smooth.box_weights = weights;
  fails("grad is in the memory of params.box_weights",
        [&] { smooth_l1_loss_and_grad(in, other, all, out, smooth); });
  iou_loss_params iou;
  iou.box_weights = weights;
  fails("grad is in the memory of params.box_weights",
        [&] { iou_loss_and_grad(in, other, out, iou_kind::diou, iou); });
  fails("loss is in the memory of params.box_weights", [&] {
    iou_loss_unreduced(in, other, {elsewhere.data(), n}, iou_kind::diou, iou);
  });
  regression_loss_params regression;
  regression.box_weights = weights;
  fails("grad is in the memory of params.box_weights",
        [&] { regression_loss_and_grad(in, other, other, all, out, regression); });
}

TEST_CASE("focal loss: outputs may share memory only with the logits, as a whole") {
  constexpr index_t rows = 64, classes = 4, size = rows * classes;
  std::vector<float> x(size + 8, 1.0f), grad(size + 8, 0.0f), dense(size + 8, 0.5f);
  std::vector<float> arriving(size + 8, 1.0f), weights(rows, 1.0f), scores(rows, 0.5f);
  std::vector<index_t> labels(size, 0);
  const matrix_view<const float> logits(x.data(), rows, classes);
  const labels_view row_labels(labels.data(), rows);
  const auto at = [](std::vector<float>& memory, index_t shift) {
    return matrix_view<float>(memory.data() + shift, rows, classes);
  };
  const auto refused = refusals(labels, x);
  refused("grad is in the memory of logits",
          [&] { sigmoid_focal_loss_and_grad(logits, row_labels, at(x, 1)); });
  refused("grad is in the memory of logits", [&] {
    const matrix_view<const float> few(x.data(), rows / 2, classes);
    sigmoid_focal_loss_and_grad(few, labels_view(labels.data(), rows / 2),
                                matrix_view<float>(x.data(), rows / 2, classes, classes + 3));
  });
  refused("loss is in the memory of logits",
          [&] { sigmoid_focal_loss_unreduced(logits, row_labels, at(x, 0)); });
  refused("grad is in the memory of labels", [&] {
    const matrix_view<float> in_labels(reinterpret_cast<float*>(labels.data()), rows, classes);
    sigmoid_focal_loss_and_grad(logits, row_labels, in_labels);
  });
  refused("loss is in the memory of targets", [&] {
    const matrix_view<const float> targets(dense.data(), rows, classes);
    sigmoid_focal_loss_unreduced(logits, targets, at(dense, 1));
  });
  refused("grad is in the memory of upstream", [&] {
    const matrix_view<const float> upstream(arriving.data(), rows, classes);
    sigmoid_focal_loss_grad(logits, row_labels, upstream, at(arriving, 1));
  });
  refused("grad is in the memory of params.row_weights", [&] {
    focal_loss_params params;
    params.row_weights = vector_view<const float>(grad.data() + 5, rows);
    sigmoid_focal_loss_and_grad(logits, row_labels, at(grad, 0), params);
  });
  refused("grad is in the memory of scores", [&] {
    const scored_labels scored{row_labels, {grad.data() + 5, rows}};
    quality_focal_loss_and_grad(logits, scored, at(grad, 0));
  });
  const std::vector<head_level<const float>> level{{x.data(), rows, 1}};
  const std::vector<head_level<float>> shifted{{x.data() + 1, rows, 1}};
  const std::vector<head_level<float>> over_labels{
      {reinterpret_cast<float*>(labels.data()), rows, 1}};
  const head_view<const float> head(level, 1, 1, classes, head_layout::nhwc);
  refused("grad.levels()[0] is in the memory of logits.levels()[0]", [&] {
    sigmoid_focal_loss_and_grad(head, row_labels, {shifted, 1, 1, classes, head_layout::nhwc});
  });
  refused("grad.levels()[0] is in the memory of labels", [&] {
    sigmoid_focal_loss_and_grad(head, row_labels, {over_labels, 1, 1, classes, head_layout::nhwc});
  });
  sigmoid_focal_loss_and_grad(logits, row_labels, at(x, 0));
  sigmoid_focal_loss_and_grad(logits, row_labels, at(grad, 0));
  CHECK(x != std::vector<float>(size + 8, 1.0f));
}

TEST_CASE("matching: results share memory neither with each other nor with the ground truth") {
  const auto boxes = random_boxes<float>(40, 3);
  std::vector<index_t> matches(40, 7), labels(40, 7), offsets{0, 20}, classes(20, 1);
  std::vector<float> truth_boxes(boxes.begin(), boxes.begin() + 80);
  match_workspace workspace;
  ground_truth truth{boxes_view<const float>(truth_boxes), classes, offsets};
  const auto refused = [&](const char* message, const match_results& results) {
    CHECK_THROWS_WITH_AS(
        match_anchors(boxes_view<const float>(boxes), truth, results, {}, workspace),
        doctest::Contains(message), std::invalid_argument);
  };
  match_results results{matches, matches};
  refused("results.labels is in the memory of results.matches", results);
  results = {};
  truth.classes = labels_view(labels.data() + 20, 20);
  results.labels = labels;
  refused("results.labels is in the memory of truth.classes", results);
  results = {};
  offsets.resize(41);
  truth.image_offsets = vector_view<const index_t>(offsets.data(), 2);
  results.matches = vector_view<index_t>(offsets.data() + 1, 40);
  refused("results.matches is in the memory of truth.image_offsets", results);
  CHECK(matches == std::vector<index_t>(40, 7));
}

TEST_CASE("in place: a head's gradients, also all in one tensor") {
  // Channels of one tensor: at each of 9 anchors 5 logits, and then 4 deltas.
  constexpr index_t images = 2, anchors = 9, channels = 9, height = 30, width = 40;
  constexpr index_t plane = height * width, size = images * anchors * channels * plane;
  const auto numbers = random_boxes<float>(size / 4, 9);
  const auto boxes = random_boxes<float>(anchors * plane, 8),
             truth_boxes = random_boxes<float>(6, 7);
  const anchor_index index{boxes_view<const float>(boxes)};
  const std::vector<index_t> classes{0, 1, 2, 3, 4, 0}, offsets{0, 4, 6};
  const ground_truth truth{truth_boxes, classes, offsets};
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    const index_t first_delta = 5 * (layout == head_layout::nhwc ? 1 : plane);
    retinanet_loss_workspace workspace;
    check_in_place("RetinaNet's loss", numbers, [&](const float* in, float* out) {
      const head_level<const float> logits{in, height, width};
      const head_level<const float> deltas{in + first_delta, height, width};
      const head_level<float> logits_grad{out, height, width};
      const head_level<float> deltas_grad{out + first_delta, height, width};
      const retinanet_head<float> head{{{&logits, 1}, images, anchors, 5, layout, channels},
                                       {{&deltas, 1}, images, anchors, 4, layout, channels},
                                       {{&logits_grad, 1}, images, anchors, 5, layout, channels},
                                       {{&deltas_grad, 1}, images, anchors, 4, layout, channels}};
      retinanet_loss_and_grad(head, index, truth, {}, workspace);
    });
  }
}

TEST_CASE("in place: levels are refused if they share memory with another level") {
  constexpr index_t anchors = 3, height = 4, width = 5, count = anchors * height * width;
  std::vector<float> memory(static_cast<std::size_t>(4 * 4 * count), 1.0f);
  const auto before = memory;
  const auto boxes = random_boxes<float>(count, 8);
  const std::vector<index_t> labels(static_cast<std::size_t>(count), 0);
  const auto fails = refusals(memory);
  const auto run = [&](index_t in_at, index_t out_at, head_layout layout, index_t channels) {
    return [&memory, &boxes, &labels, in_at, out_at, layout, channels] {
      const head_level<const float> in{memory.data() + in_at, height, width};
      const head_level<float> out{memory.data() + out_at, height, width};
      smooth_l1_loss_and_grad(head_view<const float>({&in, 1}, 1, anchors, 4, layout, channels),
                              boxes, labels,
                              head_view<float>({&out, 1}, 1, anchors, 4, layout, channels));
    };
  };
  const char* const message =
      "grad.levels()[0] is in the memory of predictions.levels()[0], expected separate memory";
  constexpr index_t plane = height * width;
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    const index_t step = layout == head_layout::nhwc ? 1 : plane;
    fails(message, run(0, 1, layout, 4));
    fails(message, run(4 * count - 1, 0, layout, 4));
    // Of 9 channels, the four from 5 on are separate from the first four; the four from 3 on
    // overlap them, in the same and in the next anchor.
    fails(message, run(0, 3 * step, layout, 9));
    fails(message, run(0, 6 * step, layout, 9));
    fails(message, run(5 * step, 2 * step, layout, 9));
    fails(message, run(0, 9 * step, layout, 9));
    run(0, 5 * step, layout, 9)();
    run(5 * step, 0, layout, 9)();
    run(0, 4 * count, layout, 4)();
    memory = before;
  }
}
