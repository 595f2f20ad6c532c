// SPDX-License-Identifier: Apache-2.0
// IoU of 32 ground truth boxes with RetinaNet's anchors at 800 x 800, and of the anchors with boxes
// near them, one by one.
#include "plain_iou.hpp"
#include "support/implementations.hpp"
#include "support/planes.hpp"
#include "support/scene.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/iou.hpp>
#include <vecdet/reference/iou.hpp>

#include <memory>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

constexpr index_t rows = 32, cols = 120087;

struct pairs {
  std::vector<float> truth, anchors, out;

  matrix_view<float> view() { return {out.data(), rows, cols}; }
};

std::shared_ptr<pairs> make_pairs() {
  static std::weak_ptr<pairs> known;
  auto data = known.lock();
  if (data != nullptr) return data;
  data = std::make_shared<pairs>();
  data->truth = built_in_picture(rows).boxes;
  data->anchors = retinanet_anchors();
  data->out.resize(static_cast<std::size_t>(rows * cols));
  known = data;
  return data;
}

void register_kind(const char* variant, const iou_params& params) {
  constexpr double size = static_cast<double>(rows * cols);
  const std::string problem = std::string("pairwise_iou/") + variant + "/f32/32x120087";
  const work amount{size, 4 * (size + 4.0 * static_cast<double>(rows + cols))};
  if (params.kind == iou_kind::iou) {
    register_implementation(problem, "reference", 1, amount, [](benchmark::State& state) {
      const auto data = make_pairs();
      std::vector<double> out(static_cast<std::size_t>(rows * cols));
      for (auto _ : state) {
        reference::pairwise_iou(boxes_view<const float>(data->truth),
                                boxes_view<const float>(data->anchors),
                                matrix_view<double>(out.data(), rows, cols));
        benchmark::ClobberMemory();
      }
    });
    register_implementation(problem, "plain", 1, amount, [](benchmark::State& state) {
      const auto data = make_pairs();
      for (auto _ : state) {
        plain_pairwise_iou(data->truth.data(), rows, data->anchors.data(), cols, data->out.data());
        benchmark::ClobberMemory();
      }
    });
  }
  register_vecdet(problem, amount, make_pairs, [params](pairs& data, execution policy) {
    pairwise_iou(boxes_view<const float>(data.truth), data.anchors, data.view(), params, policy);
  });
}

/// Anchors, the boxes that a head decodes from them, and both with an array a coordinate.
struct neighbours {
  std::vector<float> a, b, a_planes, b_planes, out;
};

std::shared_ptr<neighbours> make_neighbours() {
  static std::weak_ptr<neighbours> known;
  auto data = known.lock();
  if (data != nullptr) return data;
  data = std::make_shared<neighbours>();
  data->a = retinanet_anchors();
  data->b.resize(data->a.size());
  const auto deltas = head_deltas<float>(cols);
  decode_boxes(boxes_view<const float>(deltas), data->a, data->b);
  data->a_planes = as_planes(data->a);
  data->b_planes = as_planes(data->b);
  data->out.resize(static_cast<std::size_t>(cols));
  known = data;
  return data;
}

void register_elementwise() {
  constexpr double size = static_cast<double>(cols);
  const work amount{size, 36 * size};
  const std::string problem = "elementwise_iou/torchvision/f32/120087";
  register_implementation(problem, "plain", 1, amount, [](benchmark::State& state) {
    const auto data = make_neighbours();
    for (auto _ : state) {
      plain_elementwise_iou(data->a.data(), data->b.data(), cols, data->out.data());
      benchmark::ClobberMemory();
    }
  });
  register_vecdet(problem, amount, make_neighbours, [](neighbours& data, execution policy) {
    elementwise_iou(boxes_view<const float>(data.a), data.b, data.out, {}, policy);
  });
  register_vecdet("elementwise_iou/soa_torchvision/f32/120087", amount, make_neighbours,
                  [](neighbours& data, execution policy) {
                    elementwise_iou(planes(data.a_planes), planes(data.b_planes), data.out, {},
                                    policy);
                  });
}

const bool registered = [] {
  register_elementwise();
  register_kind("torchvision", {});
  register_kind("giou", {iou_kind::giou, empty_iou::nan});
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
