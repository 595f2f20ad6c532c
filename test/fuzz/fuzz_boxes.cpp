// SPDX-License-Identifier: Apache-2.0
// Smooth L1, box coding and what else is done to boxes, on any numbers.
#include "fuzz_input.hpp"
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/reference/smooth_l1.hpp>

using namespace vecdet;

namespace {

template <class T>
void smooth_l1(fuzz::input& in) {
  const index_t boxes = in.integer(0, 300);
  smooth_l1_params params;
  params.beta = in.one_of({1.0 / 9, 1.0, 0.0, 1e-3, in.tame(0, 5), -1.0});
  params.scale = in.one_of({1.0, 1.0 / 37, -2.0, 0.0});
  std::vector<float> weights;
  if (in.flag()) {
    for (index_t i = 0; i < boxes; ++i) weights.push_back(in.one_of({1.0f, 0.5f, 3.0f, 0.0f}));
    params.box_weights = fuzz::tensor<float>(weights);
  }
  std::vector<index_t> labels, list;
  for (index_t i = 0; i < boxes; ++i) {
    labels.push_back(in.one_of<index_t>({-1, -1, -2, 0, 7}));
    if (in.byte() < 64) list.push_back(i);
  }
  if (!list.empty() && in.byte() < 8) list[0] = in.one_of<index_t>({-1, boxes});
  const int selected = in.byte() % 3;
  const box_selection selection = selected == 0   ? box_selection::all()
                                  : selected == 1 ? box_selection(labels)
                                                  : box_selection::list(list);
  const auto predictions = in.numbers<T>(4 * boxes), targets = in.numbers<T>(4 * boxes);
  const boxes_view<const T> p(predictions), t(targets);

  const fuzz::tensor<T> out(4 * boxes);
  fuzz::on_every_isa(
      std::string("smooth L1 ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        for (T& element : out) element = test::to<T>(-12345);
        smooth_l1_loss_unreduced(p, t, selection, boxes_view<T>(out), params,
                                 execution::sequential);
        results.add(out);
        const double sum = smooth_l1_loss_and_grad(p, t, selection, boxes_view<T>(out), params,
                                                   execution::sequential);
        results.add(out);
        if (!fuzz::same_number(sum, smooth_l1_loss(p, t, selection, params, execution::parallel)))
          fuzz::fail("the loss alone differs from the loss with gradient");
        results.add(sum);
      },
      [&](const char* set, const std::vector<double>& values) {
        const auto elements = static_cast<std::size_t>(predictions.size());
        for (std::size_t k = 0; k < elements; ++k) {
          const auto box = static_cast<index_t>(k / 4);
          bool counts = selected == 0 || (selected == 1 && labels[k / 4] >= 0);
          for (const index_t i : list) counts = counts || (selected == 2 && i == box);
          const double d = static_cast<double>(predictions[k]) - static_cast<double>(targets[k]);
          const double scale =
              params.scale * (weights.empty() ? 1.0 : static_cast<double>(weights[k / 4]));
          if (counts && (!(std::abs(d) < 1e30) || scale == 0)) continue;  // overflow and 0 * inf
          const double loss = counts ? scale * reference::smooth_l1_loss(d, params.beta) : 0;
          const double grad = counts ? scale * reference::smooth_l1_loss_grad(d, params.beta) : 0;
          const std::string of = std::string(set) + " of difference " + std::to_string(d);
          fuzz::expect_near("smooth L1 loss " + of, values[k], loss, fuzz::tolerance<T>(), 1e-36);
          fuzz::expect_near("smooth L1 gradient " + of, values[elements + k], grad,
                            fuzz::tolerance<T>(), 1e-36);
        }
      });
}

/// Boxes that formulas are well conditioned on, or any numbers.
template <class T>
fuzz::tensor<T> some_boxes(fuzz::input& in, index_t boxes, bool tame) {
  if (!tame) return in.numbers<T>(4 * boxes);
  std::vector<T> values;
  for (index_t i = 0; i < boxes; ++i) {
    const double x = in.tame(0, 500), y = in.tame(0, 500), w = in.tame(1, 300), h = in.tame(1, 300);
    for (const double v : {x, y, x + w, y + h}) values.push_back(test::to<T>(v));
  }
  return fuzz::tensor<T>(values);
}

template <class T>
void box_coding(fuzz::input& in) {
  const index_t boxes = in.integer(0, 70);
  const bool tame = in.flag();
  coder_params params;
  params.weight_x = params.weight_y = in.one_of({1.0, 10.0, in.tame(0.1, 20), 0.0});
  params.weight_w = params.weight_h = in.one_of({1.0, 5.0, in.tame(0.1, 20)});
  params.clamp = in.one_of({size_clamp::above, size_clamp::both, size_clamp::none});
  const image_size image{in.tame(0, 800), in.tame(0, 800)};
  const bool by_size = in.flag();
  const auto anchors = some_boxes<T>(in, boxes, tame), targets = some_boxes<T>(in, boxes, tame);
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
        encode_distances(g, a, deltas_view, {by_size, box_format::xyxy}, sequential);
        results.add(deltas);
        decode_distances(boxes_view<const T>(deltas), a, out_view, {by_size, box_format::xyxy},
                         sequential);
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
        if (!tame) return;
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
            fuzz::expect_near(std::string(set) + " delta", values[at], e[k], fuzz::tolerance<T>(),
                              1e-4);
            if (!is_bf16 && std::abs(e[2] / params.weight_w) < 4 &&
                std::abs(e[3] / params.weight_h) < 4)
              fuzz::expect_near(std::string(set) + " decoded", values[elements + at], t[k], 1e-3,
                                0.1);
          }
        }
      });
}

template <class T>
void one_family(fuzz::input& in) {
  if (in.flag()) {
    smooth_l1<T>(in);
  } else {
    box_coding<T>(in);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::memory().release();
  fuzz::input in(data, size);
  switch (in.byte() % 3) {
    case 0:
      one_family<float>(in);
      break;
    case 1:
      one_family<bfloat16>(in);
      break;
    default:
      one_family<double>(in);
  }
  return 0;
}
