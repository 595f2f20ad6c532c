// SPDX-License-Identifier: Apache-2.0
// IoU of 32 ground-truth boxes with RetinaNet's anchors at 800 x 800, and of the anchors with
// nearby boxes, pair by pair.
#include "plain/iou.hpp"
#include "support/implementations.hpp"
#include "support/planes.hpp"
#include "support/scene.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/iou.hpp>
#include <vecdet/reference/iou.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t rows = 32, cols = 120087;

struct pairs {
  std::vector<float> truth, anchors, out;

  matrix_view<float> view() { return {out.data(), rows, cols}; }
};

std::shared_ptr<pairs> make_pairs() {
  return shared_data([] {
    pairs data;
    data.truth = built_in_picture(rows).boxes;
    data.anchors = retinanet_anchors();
    data.out.resize(static_cast<std::size_t>(rows * cols));
    return data;
  });
}

template <plain_iou Kind>
void register_pairwise(const char* variant, const iou_params& params) {
  constexpr double size = static_cast<double>(rows * cols);
  const std::string problem = std::string("pairwise_iou/") + variant + "/f32/32x120087";
  const work amount{size, 4 * (size + 4.0 * static_cast<double>(rows + cols))};
  if (Kind == plain_iou::torchvision) {
    register_implementation(problem, "reference", 1, amount, [](benchmark::State& state) {
      const auto data = make_pairs();
      std::vector<double> out(static_cast<std::size_t>(rows * cols));
      time_calls(state, [&] {
        reference::pairwise_iou(boxes_view<const float>(data->truth),
                                boxes_view<const float>(data->anchors),
                                matrix_view<double>(out.data(), rows, cols));
        benchmark::ClobberMemory();
      });
    });
  }
  register_with_plain(
      problem, amount, make_pairs,
      [params](pairs& data, threading policy) {
        pairwise_iou(boxes_view<const float>(data.truth), data.anchors, data.view(), params,
                     policy);
      },
      [](pairs& data) {
        VECDET_PLAIN(plain_pairwise_iou<Kind>)
        (data.truth.data(), rows, data.anchors.data(), cols, data.out.data());
      },
      &pairs::out);
}

/// Anchors, the boxes that a head decodes from them, and both with one array per coordinate.
struct neighbours {
  std::vector<float> a, b, a_planes, b_planes, out;
};

std::shared_ptr<neighbours> make_neighbours() {
  return shared_data([] {
    neighbours data;
    data.a = retinanet_anchors();
    data.b.resize(data.a.size());
    const auto deltas = head_deltas<float>(cols);
    decode_boxes(boxes_view<const float>(deltas), data.a, data.b);
    data.a_planes = as_planes(data.a);
    data.b_planes = as_planes(data.b);
    data.out.resize(static_cast<std::size_t>(cols));
    return data;
  });
}

template <plain_iou Kind>
void register_elementwise(const char* variant, const iou_params& params) {
  constexpr double size = static_cast<double>(cols);
  const work amount{size, 36 * size};
  register_with_plain(
      std::string("elementwise_iou/") + variant + "/f32/120087", amount, make_neighbours,
      [params](neighbours& data, threading policy) {
        elementwise_iou(boxes_view<const float>(data.a), data.b, data.out, params, policy);
      },
      [](neighbours& data) {
        VECDET_PLAIN(plain_elementwise_iou<Kind, plain_layout::rows>)
        (data.a.data(), data.b.data(), cols, data.out.data());
      },
      &neighbours::out);
  register_with_plain(
      std::string("elementwise_iou/soa_") + variant + "/f32/120087", amount, make_neighbours,
      [params](neighbours& data, threading policy) {
        elementwise_iou(planes(data.a_planes), planes(data.b_planes), data.out, params, policy);
      },
      [](neighbours& data) {
        VECDET_PLAIN(plain_elementwise_iou<Kind, plain_layout::planes>)
        (data.a_planes.data(), data.b_planes.data(), cols, data.out.data());
      },
      &neighbours::out);
}

template <plain_iou Kind>
void register_kind(const char* variant, iou_kind kind, empty_iou empty = empty_iou::nan) {
  register_pairwise<Kind>(variant, {kind, empty});
  register_elementwise<Kind>(variant, {kind, empty});
}

const bool registered = [] {
  register_kind<plain_iou::torchvision>("torchvision", iou_kind::iou);
  register_kind<plain_iou::detectron2>("detectron2", iou_kind::iou, empty_iou::zero);
  register_kind<plain_iou::giou>("giou", iou_kind::giou);
  register_kind<plain_iou::diou>("diou", iou_kind::diou);
  register_kind<plain_iou::ciou>("ciou", iou_kind::ciou);
  show_in_figures("pairwise_iou/torchvision/f32/32x120087");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
