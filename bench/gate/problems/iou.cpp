// SPDX-License-Identifier: Apache-2.0
// IoU of a block of anchors with an image's boxes, and of pairs of boxes.
#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/iou.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

struct two_sets {
  std::int64_t rows, cols;
  std::vector<float> first, second, out;

  two_sets(std::int64_t a, std::int64_t b, std::int64_t results)
      : rows(a),
        cols(b),
        first(clustered_boxes(a, 1)),
        second(clustered_boxes(b, 2)),
        out(static_cast<std::size_t>(results)) {}
  boxes_view<const float> a() const { return first; }
  boxes_view<const float> b() const { return second; }
  matrix_view<float> matrix() { return {out.data(), rows, cols}; }
};

const problems added{
    {"pairwise_iou/iou/f32/1024x64", make<two_sets>(1024, 64, 1024 * 64),
     VECDET_GATE_CALL(pairwise_iou(d.a(), d.b(), d.matrix(), {}, sequential))},
    {"elementwise_iou/iou/f32/4096", make<two_sets>(4096, 4096, 4096),
     VECDET_GATE_CALL(elementwise_iou(d.a(), d.b(), d.out, {}, sequential))},
};

}  // namespace
}  // namespace vecdet::gate
