// SPDX-License-Identifier: Apache-2.0
// A head's levels in place: one level of 40 x 32 locations with 9 anchors.
#include "../../plain/box_coding.hpp"
#include "../../plain/postprocess.hpp"
#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/anchors.hpp>
#include <vecdet/box_coding.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/retinanet_loss.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

constexpr std::int64_t height = 40, width = 32, at_location = 9, classes = 80;
constexpr std::int64_t rows = height * width * at_location;
struct head {
  bool is_nchw;
  std::vector<float> logits = normal<float>(rows * classes, -4.6f, 1.0f);
  std::vector<float> deltas = normal<float>(rows * 4, 0.0f, 0.2f);
  std::vector<float> logits_grad = logits, deltas_grad = deltas, anchors, boxes;
  std::vector<std::int64_t> labels, ids;

  explicit head(bool nchw)
      : is_nchw(nchw), anchors(static_cast<std::size_t>(4 * rows)), boxes(clustered_boxes(32, 2)) {
    make_anchors(anchor_shapes{{32, 40, 50}, {0.5, 1, 2}}, {8 * height, 8 * width}, {height, width},
                 anchors);
    for (std::int64_t i = 0; i < rows; ++i)
      labels.push_back(i % 100 == 7 ? i % classes : i % 50 == 3 ? -2 : -1);
    for (std::int64_t i = 0; i < 32; ++i) ids.push_back(i);
  }
};

/// The data as levels, whose types belong to this module.
struct views {
  head_layout layout;
  head_level<const float> logits, deltas;
  head_level<float> logits_grad, deltas_grad;

  explicit views(head& d)
      : layout(d.is_nchw ? head_layout::nchw : head_layout::nhwc),
        logits{d.logits.data(), height, width},
        deltas{d.deltas.data(), height, width},
        logits_grad{d.logits_grad.data(), height, width},
        deltas_grad{d.deltas_grad.data(), height, width} {}

  head_view<const float> x() const { return {{&logits, 1}, 1, at_location, classes, layout}; }
  head_view<const float> d() const { return {{&deltas, 1}, 1, at_location, 4, layout}; }
  head_view<float> x_grad() const { return {{&logits_grad, 1}, 1, at_location, classes, layout}; }
  head_view<float> d_grad() const { return {{&deltas_grad, 1}, 1, at_location, 4, layout}; }
};

void focal(head& d) {
  const views v(d);
  sigmoid_focal_loss_and_grad(v.x(), d.labels, v.x_grad(), {}, {}, sequential);
}

void retinanet(head& d) {
  const views v(d);
  anchor_index& index = own<anchor_index>();
  if (index.size() == 0) index = anchor_index(boxes_view<const float>(d.anchors), sequential);
  ground_truth truth;
  truth.boxes = d.boxes;
  truth.classes = d.ids;
  retinanet_loss_and_grad<float>({v.x(), v.d(), v.x_grad(), v.d_grad()}, index, truth, {},
                                 own<retinanet_loss_workspace>(), sequential);
}

void regress(head& d) {
  const views v(d);
  regression_loss_and_grad(v.d(), d.anchors, d.anchors, d.labels, v.d_grad(), {}, {}, sequential);
}

void decode(head& d) {
  const views v(d);
  decode_boxes(v.d(), d.anchors, {}, d.deltas_grad, coder_params{}, sequential);
}

void topk(head& d) {
  const views v(d);
  filter_topk(v.x(), 0.05, 1000, own<filter_topk_workspace>(), sequential);
}

void plain_topk(head& d) {
  auto& best = own<bench::plain_postprocess_memory>().candidates;
  bench::native::plain_topk(
      {d.logits.data(), nullptr, nullptr, at_location, classes, height * width}, d.is_nchw,
      static_cast<float>(logit_of(0.05)), 1000, best);
}

const problems added{
    {"sigmoid_focal_loss_and_grad/levels/f32/11520x80", make<head>(false),
     VECDET_GATE_CALL(focal(d))},
    {"sigmoid_focal_loss_and_grad/nchw/f32/11520x80", make<head>(true), VECDET_GATE_CALL(focal(d))},
    {"retinanet_loss_and_grad/smooth_l1/f32/11520x80", make<head>(true),
     VECDET_GATE_CALL(retinanet(d))},
    {"regression_loss_and_grad/nchw_smooth_l1/f32/11520", make<head>(true),
     VECDET_GATE_CALL(regress(d))},
    {"decode_boxes/nchw/f32/11520", make<head>(true), VECDET_GATE_CALL(decode(d)),
     VECDET_GATE_CALL(bench::native::plain_decode_channels(
         d.deltas.data(), d.anchors.data(), d.deltas_grad.data(), at_location, height* width))},
    {"filter_topk/nchw/f32/11520x80", make<head>(true), VECDET_GATE_CALL(topk(d)),
     VECDET_GATE_CALL(plain_topk(d))},
};

}  // namespace
}  // namespace vecdet::gate
