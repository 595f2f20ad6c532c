// SPDX-License-Identifier: Apache-2.0
// Box coding of some 4000 boxes.
#include "../../plain/box_coding.hpp"

#include "../module/problem.hpp"
#include "image.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/box_coding.hpp>

#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

template <class T>
struct coding {
  std::vector<T> deltas, anchors, targets, out;

  explicit coding(std::int64_t boxes)
      : deltas(normal<T>(4 * boxes, 0.0f, 0.2f)), out(deltas.size(), T(0.0f)) {
    for (const float x : clustered_boxes(boxes, 1)) anchors.push_back(T(x));
    for (const float x : clustered_boxes(boxes, 2)) targets.push_back(T(x));
  }
  boxes_view<const T> in() const { return deltas; }
  boxes_view<const T> t() const { return targets; }
};

const problems added{
    {"decode_boxes/clip/f32/4096", make<coding<float>>(4096),
     VECDET_GATE_CALL(decode_boxes(d.in(), d.anchors, square_image(800), d.out, {}, sequential)),
     VECDET_GATE_CALL(bench::native::plain_decode_and_clip(d.deltas.data(), d.anchors.data(),
                                                           d.out.data(), 4096, 800, 800))},
    {"decode_boxes/clip/bf16/4096", make<coding<bfloat16>>(4096),
     VECDET_GATE_CALL(decode_boxes(d.in(), d.anchors, square_image(800), d.out, {}, sequential))},
    {"encode_boxes/weights1/f32/4096", make<coding<float>>(4096),
     VECDET_GATE_CALL(encode_boxes(d.t(), d.anchors, d.out, {}, sequential)),
     VECDET_GATE_CALL(
         bench::native::plain_encode(d.targets.data(), d.anchors.data(), d.out.data(), 4096))},
    {"encode_boxes/weights1/bf16/4096", make<coding<bfloat16>>(4096),
     VECDET_GATE_CALL(encode_boxes(d.t(), d.anchors, d.out, {}, sequential))},
};

}  // namespace
}  // namespace vecdet::gate
