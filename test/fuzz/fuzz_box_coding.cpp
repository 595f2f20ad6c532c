// SPDX-License-Identifier: Apache-2.0
// Box coding and other box functions on any numbers: bit-identical in either layout; bfloat16
// deltas act like floats; moderate boxes agree with the reference.
#include "box_input.hpp"
#include "support/exact_boxes.hpp"
#include "support/ulp.hpp"

using namespace vecdet;

namespace {

struct options {
  coder_params coder;
  distance_params distances;
  image_size image;
};

/// The decoders' results for deltas, in each layout: on `half` of the anchors for two images.
template <class Deltas, class Anchors, class Out>
void decode_all(fuzz::results& results, const options& o, Deltas deltas, Anchors anchors,
                Anchors half, Out out) {
  const threading sequential = threading::sequential;
  decode_boxes(deltas, anchors, out, o.coder, sequential);
  fuzz::add_boxes(results, out);
  decode_boxes(deltas, anchors, o.image, out, o.coder, sequential);
  fuzz::add_boxes(results, out);
  if (2 * half.size() != deltas.size()) return;
  const image_size images[] = {o.image, image_size::height_width(2, 1)};
  decode_boxes(deltas, half, vector_view<const image_size>(images, 2), out, o.coder,
               threading::parallel);
  fuzz::add_boxes(results, out);
}

/// The same for distances, which have one layout.
template <class Distances, class Anchors, class Out>
void decode_all_distances(fuzz::results& results, const options& o, Distances distances,
                          Anchors anchors, Out out) {
  const threading sequential = threading::sequential;
  decode_distances(distances, anchors, out, o.distances, sequential);
  fuzz::add_boxes(results, out);
  decode_distances(distances, anchors, o.image, out, o.distances, sequential);
  fuzz::add_boxes(results, out);
}

/// bfloat16 deltas of float boxes against the same deltas in float.
void mixed_decoding(fuzz::results& results, const options& o, const fuzz::tensor<bfloat16>& deltas,
                    const fuzz::tensor<bfloat16>& boxes) {
  const fuzz::tensor<float> wide(std::vector<float>(deltas.begin(), deltas.end()));
  const fuzz::tensor<float> anchors(std::vector<float>(boxes.begin(), boxes.end()));
  const fuzz::tensor<float> out(deltas.size());
  const boxes_view<const bfloat16> d(deltas);
  const boxes_view<const float> w(wide), a(anchors), half(anchors.data(), a.size() / 2);
  fuzz::results mixed, as_float;
  decode_all(mixed, o, d, a, half, boxes_view<float>(out));
  decode_all_distances(mixed, o, d, a, boxes_view<float>(out));
  decode_all(as_float, o, w, a, half, boxes_view<float>(out));
  decode_all_distances(as_float, o, w, a, boxes_view<float>(out));
  fuzz::expect_same("bfloat16 deltas are not decoded like floats", mixed, as_float);
  for (const double value : mixed.values()) results.add(value);
}

/// compute(from, to) in place must give the same as with separate memory.
template <class T, class Compute>
void in_place(const char* function, const fuzz::tensor<T>& input, const fuzz::tensor<T>& expected,
              const Compute& compute) {
  fuzz::expect_same_in_place(function, input, expected, [&](const fuzz::tensor<T>& both) {
    compute(boxes_view<const T>(both), boxes_view<T>(both));
  });
}

template <class T>
void box_coding(fuzz::input& in) {
  const index_t boxes = in.integer(0, 70);
  const fuzz::box_kind kind = fuzz::any_box_kind(in);
  coder_params params = fuzz::any_coder(in);
  if (in.byte() < 8) params.weight_x = 0;
  params.anchors = in.one_of({box_format::xyxy, box_format::cxcywh});
  const bool by_size = in.flag();
  const double width = in.tame(0, 800), height = in.tame(0, 800);
  const image_size image = image_size::height_width(height, width);
  const options o{params, {by_size, params.anchors}, image};
  const auto anchors = fuzz::some_boxes<T>(in, boxes, kind);
  const auto targets = fuzz::some_boxes<T>(in, boxes, kind);
  const auto from = in.one_of({box_format::xyxy, box_format::xywh, box_format::cxcywh});
  const auto to = in.one_of({box_format::xyxy, box_format::xywh, box_format::cxcywh});
  const boxes_view<const T> a(anchors), g(targets);
  const auto elements = static_cast<std::size_t>(targets.size());

  const fuzz::planes<T> anchor_planes(anchors), target_planes(targets);

  const fuzz::tensor<T> deltas(4 * boxes), out(4 * boxes), areas(boxes);
  const fuzz::tensor<std::uint8_t> mask(boxes);
  const fuzz::tensor<index_t> indices(boxes);
  fuzz::on_every_isa(
      std::string("box coding ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        const boxes_view<T> deltas_view(deltas), out_view(out);
        const boxes_view<const T> half(anchors.data(), boxes / 2);
        const threading sequential = threading::sequential;
        encode_boxes(g, a, deltas_view, params, sequential);
        results.add(deltas);
        in_place("encode_boxes", targets, deltas, [&](const auto& from, const auto& to) {
          encode_boxes(from, a, to, params, sequential);
        });
        decode_boxes(deltas_view, a, out_view, params, sequential);
        in_place("decode_boxes", deltas, out, [&](const auto& from, const auto& to) {
          decode_boxes(from, a, to, params, sequential);
        });
        decode_all(results, o, deltas_view, a, half, out_view);

        const fuzz::planes<T> delta_planes(boxes), out_planes(boxes);
        fuzz::results separate;
        encode_boxes(target_planes.view(), anchor_planes.view(), delta_planes.view(), params,
                     sequential);
        fuzz::add_boxes(separate, delta_planes.view());
        decode_all(separate, o, delta_planes.view(), anchor_planes.view(),
                   anchor_planes.view(boxes / 2), out_planes.view());
        fuzz::expect_same("boxes in four arrays give different bits", results, separate);
        if constexpr (std::is_same<T, bfloat16>::value) mixed_decoding(results, o, deltas, anchors);

        encode_distances(g, a, deltas_view, o.distances, sequential);
        results.add(deltas);
        decode_all_distances(results, o, deltas_view, a, out_view);
        convert_boxes(g, from, to, out_view, sequential);
        results.add(out);
        in_place("convert_boxes", targets, out, [&](const auto& boxes, const auto& converted) {
          convert_boxes(boxes, from, to, converted, sequential);
        });
        clip_boxes(g, image, out_view, sequential);
        results.add(out);
        in_place("clip_boxes", targets, out, [&](const auto& boxes, const auto& clipped) {
          clip_boxes(boxes, image, clipped, sequential);
        });
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
        // In double, the reference loses as much to cancellation.
        const bool is_double = std::is_same<T, double>::value;
        using real = compute_type<T>;
        const auto expect = [&](const char* what, double actual, double exact, double ulp,
                                double scale) {
          fuzz::expect_near(
              [&] { return std::string(set) + what; }, actual, exact, fuzz::storage_rounding<T>(),
              (is_double ? 64 : 1) * ulp * test::ulp_of<real>(std::max(std::abs(exact), scale)));
        };
        const double corner_ulp = set == std::string("baseline") ? 64 : 4;  // box_coding.hpp
        for (index_t i = 0; i < boxes; ++i) {
          const reference::box anchor = reference::load_box(a, i),
                               target = reference::load_box(g, i);
          if (!(anchor.width() > 0 && anchor.height() > 0 && target.width() > 0 &&
                target.height() > 0))
            continue;  // rounding to bfloat16 may make a side 0
          const auto e =
              test::numbers(reference::encode_box(target, anchor, test::weights_of(params)));
          const std::size_t first = static_cast<std::size_t>(4 * i);
          const double* const delta = values.data() + first;
          const auto decoded =
              test::exact_decode(params, {delta[0], delta[1], delta[2], delta[3]}, anchor);
          const auto corner = test::numbers(decoded.exact), scale = test::numbers(decoded.scale);
          for (std::size_t k = 0; k < 4; ++k) {
            expect(" delta", delta[k], e[k], 4, is_double ? 4 * params.weight_x : 0);
            expect(" corner", values[elements + first + k], corner[k], corner_ulp, scale[k]);
          }
        }
      });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { box_coding<decltype(zero)>(in); });
}
