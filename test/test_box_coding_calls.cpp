// SPDX-License-Identifier: Apache-2.0
// How box coding is called: boxes in four arrays, mixed element types, and every documented error.
#include "support/box_tensor.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/box_ops.hpp>

#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE_TEMPLATE("box coding: boxes in four arrays are bit-identical", T, float, bfloat16,
                   double) {
  for_each_isa([](isa) {
    for (const index_t count : {0, 1, 7, 8, 15, 16, 17, 33, 500, 9000}) {
      for (const coder_params& p : {coder_params{}, coder_params::ssd()}) {
        INFO("boxes ", count, " ", std::string(dtype_name<T>()));
        auto anchors = random_boxes<T>(count, 21), targets = random_boxes<T>(count, 22);
        const auto special = special_boxes_as<T>();
        for (std::size_t i = 0; i < std::min(special.size(), targets.size()); ++i)
          targets[i] = special[i];
        const auto deltas = random_deltas<T>(count, 23, 0.5);
        std::vector<T> expected(targets.size());
        const boxes_view<const T> g(targets), d(deltas);
        marked<T> a(as_planes(anchors), 1), in(as_planes(targets), 2), out(4 * count, 3);
        encode_boxes(g, anchors, expected, p);
        encode_boxes(in.planes(), a.planes(), out.planes(), p);
        CHECK(same_bits(as_planes(expected).data(), out.data(), expected.size()));
        in = marked<T>(as_planes(deltas), 1);
        decode_boxes(d, anchors, expected, p);
        decode_boxes(in.planes(), a.planes(), out.planes(), p);
        CHECK(same_bits(as_planes(expected).data(), out.data(), expected.size()));
        const std::vector<image_size> images{image_size::height_width(90, 70)};
        decode_boxes(d, anchors, images[0], expected, p);
        decode_boxes(in.planes(), a.planes(), images[0], out.planes(), p);
        CHECK(same_bits(as_planes(expected).data(), out.data(), expected.size()));
        CHECK(out.marks_untouched());
        decode_boxes(in.planes(), a.planes(), vector_view<const image_size>(images), in.planes(),
                     p);
        CHECK(same_bits(as_planes(expected).data(), in.data(), expected.size()));
      }
    }
  });
}

TEST_CASE("box coding: bfloat16 deltas on float anchors are decoded like floats") {
  for_each_isa([](isa) {
    for (const index_t count : {0, 1, 15, 16, 17, 333, 9000}) {
      const auto deltas = random_deltas<bfloat16>(2 * count, 24, 0.5);
      const std::vector<float> wide(deltas.begin(), deltas.end());
      const auto anchors = random_boxes<float>(count, 25);
      const boxes_view<const bfloat16> both(deltas), d(deltas.data(), count);
      const boxes_view<const float> wide_both(wide), w(wide.data(), count);
      std::vector<float> expected(wide.size() / 2);
      const auto same = [&](marked<float>& actual) {
        CHECK(same_bits(expected.data(), actual.data(), expected.size()));
        CHECK(actual.marks_untouched());
      };
      marked<float> out(4 * count, 1);
      decode_boxes(w, anchors, expected);
      decode_boxes(d, anchors, out.boxes());
      same(out);
      decode_boxes(w, anchors, image_size::height_width(90, 70), expected, coder_params::ssd());
      decode_boxes(d, anchors, image_size::height_width(90, 70), out.boxes(), coder_params::ssd());
      same(out);
      decode_distances(w, anchors, expected);
      decode_distances(d, anchors, out.boxes());
      same(out);
      decode_distances(w, anchors, image_size::height_width(90, 70), expected);
      decode_distances(d, anchors, image_size::height_width(90, 70), out.boxes());
      same(out);
      const std::vector<image_size> images{image_size::height_width(90, 70),
                                           image_size::height_width(40, 50)};
      expected.resize(wide.size());
      marked<float> all(8 * count, 1);
      decode_boxes(wide_both, anchors, vector_view<const image_size>(images), expected);
      decode_boxes(both, anchors, vector_view<const image_size>(images), all.boxes());
      same(all);
    }
  });
}

TEST_CASE("box coding: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> four(16, 1), three(12, 1);
  marked<float> out(16, 0);
  const boxes_view<const float> b(four);
  coder_params p;
  const auto refused = refusals(out);
  const auto fails = [&](const char* message, const auto& call) {
    refused(message, call);
    p = {};
  };
  const auto encode = [&] { encode_boxes(b, four, out.boxes(), p); };
  const auto decode = [&] { decode_boxes(b, four, out.boxes(), p); };
  p.weight_x = quiet_nan;
  fails("encode_boxes: params.weight_x is nan, expected a number from 1e-35 to 1e35", encode);
  p.weight_h = infinity;
  fails("decode_boxes: params.weight_h is inf", decode);
  p.weight_y = 0;
  fails("params.weight_y is 0", decode);
  p.weight_w = -1;
  fails("params.weight_w is -1", decode);
  p.size_limit = -2;
  fails("params.size_limit is -2", decode);
  p.anchors = box_format::xywh;
  fails("params.anchors is xywh", decode);
  fails("anchors.size() is 3", [&] { encode_boxes(b, three, out.boxes()); });
  fails("boxes.size() is 4, expected 3, the number of inputs",
        [&] { decode_boxes(boxes_view<const float>(three), three, out.boxes()); });
  fails("image.width is -1",
        [&] { decode_boxes(b, four, image_size::height_width(5, -1), out.boxes()); });
  fails("image.height is nan",
        [&] { decode_boxes(b, four, image_size::height_width(quiet_nan, 1), out.boxes()); });
  const std::vector<image_size> images{image_size::height_width(1, 1),
                                       image_size::height_width(-2, 2)};
  fails("images[1].height is -2",
        [&] { decode_boxes(b, four, vector_view<const image_size>(images), out.boxes()); });
  fails("deltas.size() is 4", [&] {
    decode_boxes(b, three, vector_view<const image_size>(images.data(), 1), out.boxes());
  });
  // So many that their number times that of the images is 0 in 64 bits.
  const std::vector<image_size> many(64, image_size::height_width(1, 1));
  fails("decode_boxes: deltas.size() is 0, expected 64 x 288230376151711744, images x anchors",
        [&] {
          decode_boxes(boxes_view<const float>(),
                       boxes_view<const float>(out.data(), index_t{1} << 58), many,
                       boxes_view<float>());
        });
  marked<float> planes(12, 0);
  fails("encode_boxes: anchors.size() is 3",
        [&] { encode_boxes(out.planes(), planes.planes(), out.planes()); });
  const float* const y = four.data();
  float* const z = planes.data();
  const boxes_soa_view<const float> read{y, y + 4, y + 8, y + 12, 3};
  const boxes_soa_view<float> shared{z, z + 3, z + 6, z + 8, 3};
  const char* const message = "boxes: coordinate 3 of boxes is in the memory of coordinate 2";
  fails(message, [&] { decode_boxes(read, read, shared); });
  fails(message, [&] { decode_boxes(read, read, image_size::height_width(1, 1), shared); });
  fails(message,
        [&] { decode_boxes(read, read, vector_view<const image_size>(images.data(), 1), shared); });
  fails("encode_boxes: coordinate 3 of deltas is in the memory of coordinate 2",
        [&] { encode_boxes(read, read, shared); });
  fails("boxes_view: data is null, expected memory of `size` x 4 elements",
        [] { boxes_view<float>(nullptr, 1); });
  fails("vector_view: data is null, expected memory of `size` elements",
        [] { vector_view<float>(nullptr, 1); });
  fails("boxes_soa_view: x2 is null, expected memory of `size` elements",
        [&] { boxes_soa_view<float>(out.data(), out.data(), nullptr, out.data(), 4); });
  fails("boxes_soa_view: size is -1",
        [&] { boxes_soa_view<float>(out.data(), out.data(), out.data(), out.data(), -1); });
  const std::vector<bfloat16> half(16);
  fails("anchors.size() is 3",
        [&] { decode_boxes(boxes_view<const bfloat16>(half), three, out.boxes()); });
  fails("encode_distances: anchors.size() is 3", [&] { encode_distances(b, three, out.boxes()); });
  fails("decode_distances: image.width is -3",
        [&] { decode_distances(b, four, image_size::height_width(1, -3), out.boxes()); });
}
