// SPDX-License-Identifier: Apache-2.0
// Where an output may be the input's own memory, a million boxes on all threads give the bits that
// they give elsewhere; where it may not, that is an error.
#include "support/box_tensor.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr index_t million = 1000000;

/// call(in, out) gives the same bits where both are one, time and again.
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

}  // namespace

TEST_CASE("in place: box coding and box operations") {
  const auto anchors = random_boxes<float>(million, 1), boxes = random_boxes<float>(million, 2);
  std::vector<float> deltas(boxes.size());
  encode_boxes(boxes_view<const float>(boxes), anchors, deltas);
  const image_size image{300, 200};
  const auto check = [&](const char* what, const std::vector<float>& from, const auto& call) {
    check_in_place(what, from, [&](const float* in, float* out) {
      call(boxes_view<const float>(in, million), boxes_view<float>(out, million));
    });
  };
  check("encode_boxes", boxes, [&](auto in, auto out) { encode_boxes(in, anchors, out); });
  check("decode_boxes", deltas, [&](auto in, auto out) { decode_boxes(in, anchors, image, out); });
  check("decode_boxes of a batch", deltas, [&](auto in, auto out) {
    const image_size images[] = {{300, 200}, {200, 300}};
    decode_boxes(in, boxes_view<const float>(anchors.data(), million / 2),
                 vector_view<const image_size>(images, 2), out);
  });
  check("encode_distances", boxes, [&](auto in, auto out) { encode_distances(in, anchors, out); });
  check("decode_distances", deltas,
        [&](auto in, auto out) { decode_distances(in, anchors, image, out); });
  check("clip_boxes", boxes, [&](auto in, auto out) { clip_boxes(in, image, out); });
  check("convert_boxes", boxes,
        [&](auto in, auto out) { convert_boxes(in, box_format::xyxy, box_format::cxcywh, out); });

  const auto planes = [](auto* data) {
    using number = std::remove_pointer_t<decltype(data)>;
    return boxes_soa_view<number>(data, data + million, data + 2 * million, data + 3 * million,
                                  million);
  };
  const auto anchor_planes = as_planes(anchors);
  check_in_place("encode_boxes in four arrays", as_planes(boxes), [&](const float* in, float* out) {
    encode_boxes(planes(in), planes(anchor_planes.data()), planes(out));
  });
  check_in_place("decode_boxes in four arrays", as_planes(deltas),
                 [&](const float* in, float* out) {
                   decode_boxes(planes(in), planes(anchor_planes.data()), planes(out));
                 });
}

TEST_CASE("in place: gradients") {
  const auto boxes = random_boxes<float>(million, 3), targets = random_boxes<float>(million, 4);
  const auto check = [&](const char* what, const auto& loss_and_grad) {
    check_in_place(what, boxes, [&](const float* in, float* out) {
      loss_and_grad(boxes_view<const float>(in, million), boxes_view<float>(out, million));
    });
  };
  check("smooth L1", [&](auto in, auto out) {
    smooth_l1_loss_and_grad(in, targets, box_selection::all(), out);
  });
  check("GIoU", [&](auto in, auto out) { giou_loss_and_grad(in, targets, out); });
  check("DIoU", [&](auto in, auto out) { diou_loss_and_grad(in, targets, out); });
  check("CIoU", [&](auto in, auto out) { ciou_loss_and_grad(in, targets, out); });

  std::vector<int> labels(million, -1);
  for (std::size_t i = 0; i < labels.size(); i += 37) labels[i] = static_cast<int>(i % 4);
  check_in_place("focal loss", boxes, [&](const float* in, float* out) {
    sigmoid_focal_loss_and_grad(matrix_view<const float>(in, million, 4), labels,
                                matrix_view<float>(out, million, 4));
  });
}

TEST_CASE("in place: other outputs are refused where they share memory with an input") {
  const auto boxes = random_boxes<float>(100, 5);
  std::vector<float> memory = boxes;
  const boxes_view<const float> in(memory);
  const auto fails = [&](const char* message, const auto& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), std::invalid_argument);
    CHECK(same_bits(memory, boxes));
  };
  // From its first element on, from its last one, and up to its first one.
  std::vector<float> wide(boxes.size() + 198);
  std::copy(boxes.begin(), boxes.end(), wide.begin() + 99);
  const boxes_view<const float> inside(wide.data() + 99, 100);
  for (const std::size_t begin : {std::size_t{0}, std::size_t{99}, std::size_t{498}}) {
    CAPTURE(begin);
    fails("box_areas: areas is boxes, expected memory apart from it",
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
  fails("large_box_mask: mask is boxes", [&] {
    large_box_mask(in, 5, {reinterpret_cast<std::uint8_t*>(begin + 7), 100});
  });
  fails("large_boxes: indices is boxes", [&] {
    large_boxes(in, 5, {reinterpret_cast<index_t*>(begin), 100});
  });
  const vector_view<float> shared(begin + 300, 100);
  const boxes_view<const float> other(boxes);
  fails("elementwise_iou: out is a", [&] { elementwise_iou(in, other, shared); });
  fails("elementwise_iou: out is b", [&] { elementwise_iou(other, in, shared); });
  const boxes_soa_view<const float> planes(begin, begin + 100, begin + 200, begin + 300, 100);
  fails("elementwise_iou: out is a", [&] { elementwise_iou(planes, planes, shared); });
  fails("giou_loss_unreduced: loss is predicted", [&] { giou_loss_unreduced(in, other, shared); });
  fails("ciou_loss_unreduced: loss is targets", [&] { ciou_loss_unreduced(other, in, shared); });

  std::vector<float> rows(600, 1);
  const matrix_view<const float> detections(rows.data(), 100, 5, 6);
  const auto split_fails = [&](const char* message, boxes_view<float> b, vector_view<float> s) {
    fails(message, [&] { split_detections(detections, b, s); });
  };
  std::vector<float> b(400), s(100);
  split_fails("split_detections: boxes is detections", {rows.data(), 100}, s);
  split_fails("split_detections: scores is detections", b, {rows.data() + 500, 100});
}
