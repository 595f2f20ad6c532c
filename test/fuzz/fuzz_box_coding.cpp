// SPDX-License-Identifier: Apache-2.0
// Box coding and what else is done to boxes, on any numbers; tame ones as the reference has it.
#include "box_input.hpp"
#include <vecdet/reference/box_coding.hpp>

using namespace vecdet;

namespace {

template <class T>
void box_coding(fuzz::input& in) {
  const index_t boxes = in.integer(0, 70);
  const fuzz::box_kind kind = fuzz::any_box_kind(in);
  coder_params params = fuzz::any_coder(in);
  if (in.byte() < 8) params.weight_x = 0;
  params.anchors = in.one_of({box_format::xyxy, box_format::cxcywh});
  const distance_params distances{in.flag(), params.anchors};
  const image_size image{in.tame(0, 800), in.tame(0, 800)};
  const auto anchors = fuzz::some_boxes<T>(in, boxes, kind);
  const auto targets = fuzz::some_boxes<T>(in, boxes, kind);
  const auto from = in.one_of({box_format::xyxy, box_format::xywh, box_format::cxcywh});
  const auto to = in.one_of({box_format::xyxy, box_format::xywh, box_format::cxcywh});
  const boxes_view<const T> a(anchors), g(targets);
  const auto elements = static_cast<std::size_t>(targets.size());

  const fuzz::tensor<T> deltas(4 * boxes), out(4 * boxes), areas(boxes);
  const fuzz::tensor<std::uint8_t> mask(boxes);
  const fuzz::tensor<index_t> indices(boxes);
  fuzz::on_every_isa(
      std::string("box coding ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        const boxes_view<T> deltas_view(deltas), out_view(out);
        const execution sequential = execution::sequential;
        encode_boxes(g, a, deltas_view, params, sequential);
        results.add(deltas);
        decode_boxes(boxes_view<const T>(deltas), a, out_view, params, sequential);
        results.add(out);
        decode_boxes(boxes_view<const T>(deltas), a, image, out_view, params, sequential);
        results.add(out);
        if (boxes > 0 && boxes % 2 == 0) {
          const image_size images[] = {image, {1, 2}};
          const boxes_view<const T> half(anchors.data(), boxes / 2);
          decode_boxes(boxes_view<const T>(deltas), half, vector_view<const image_size>(images, 2),
                       out_view, params, execution::parallel);
          results.add(out);
        }
        encode_distances(g, a, deltas_view, distances, sequential);
        results.add(deltas);
        decode_distances(boxes_view<const T>(deltas), a, out_view, distances, sequential);
        results.add(out);
        decode_distances(boxes_view<const T>(deltas), a, image, out_view, distances, sequential);
        results.add(out);
        convert_boxes(g, from, to, out_view, sequential);
        results.add(out);
        clip_boxes(g, image, out_view, sequential);
        results.add(out);
        for (std::size_t k = 0; k < elements; ++k) {
          const double bound = k % 2 == 0 ? image.width : image.height;
          const double v = static_cast<double>(out[k]);
          if (!(std::isnan(v) || (v >= 0 && v <= bound * 1.01)))
            fuzz::fail("clipped outside the image");
        }
        box_areas(g, vector_view<T>(areas), sequential);
        results.add(areas);

        large_box_mask(g, image.width / 8, vector_view<std::uint8_t>(mask), sequential);

        const index_t count = large_boxes(g, image.width / 8, vector_view<index_t>(indices));
        index_t marked = 0;
        for (const std::uint8_t m : mask) marked += m;
        if (marked != count) fuzz::fail("large_boxes differs from large_box_mask");
        for (const std::uint8_t m : mask) results.add(static_cast<double>(m));
      },
      [&](const char* set, const std::vector<double>& values) {
        if (kind != fuzz::box_kind::tame || params.anchors != box_format::xyxy) return;
        const reference::coder_weights weights{params.weight_x, params.weight_y, params.weight_w,
                                               params.weight_h};
        const bool is_bf16 = std::is_same<T, bfloat16>::value;
        for (index_t i = 0; i < boxes; ++i) {
          const reference::box anchor = reference::load_box<double>(a, i);
          const reference::box target = reference::load_box<double>(g, i);
          if (!(anchor.width() > 0 && anchor.height() > 0 && target.width() > 0 &&
                target.height() > 0))
            continue;  // rounding to bfloat16 may leave nothing of a side
          const reference::box exact = reference::encode_box(target, anchor, weights);
          const double e[] = {exact.x1, exact.y1, exact.x2, exact.y2};
          const double t[] = {target.x1, target.y1, target.x2, target.y2};
          for (std::size_t k = 0; k < 4; ++k) {
            const std::size_t at = static_cast<std::size_t>(4 * i) + k;
            fuzz::expect_near([&] { return std::string(set) + " delta"; }, values[at], e[k],
                              fuzz::tolerance<T>(), 1e-4);
            if (!is_bf16 && std::abs(e[2] / params.weight_w) < params.size_limit &&
                std::abs(e[3] / params.weight_h) < params.size_limit)
              fuzz::expect_near([&] { return std::string(set) + " decoded"; },
                                values[elements + at], t[k], 1e-3, 0.1);
          }
        }
      });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { box_coding<decltype(zero)>(in); });
}
