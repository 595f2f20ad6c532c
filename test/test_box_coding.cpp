// SPDX-License-Identifier: Apache-2.0
// Box coding against the reference, torchvision's golden vectors and real data: every instruction
// set, element type, clamp and format; lengths around a group of boxes; misaligned starts; special
// boxes.
#include "../bench/support/coco.hpp"
#include "support/box_tensor.hpp"
#include "support/check_boxes.hpp"
#include "support/data.hpp"
#include "support/exact_boxes.hpp"
#include "support/isa.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/anchors.hpp>
#include <vecdet/box_coding.hpp>
#include <vecdet/box_ops.hpp>
#include <vecdet/reference/box_coding.hpp>

#include <array>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;
using reference::box;

namespace {

double coding_ulp() { return active_isa() == isa::baseline ? 64 : 4; }

template <class T>
void check_coding(const coder_params& p, const std::vector<T>& anchors,
                  const std::vector<T>& targets, const std::vector<T>& deltas) {
  const auto count = static_cast<index_t>(anchors.size() / 4);
  INFO("boxes ", count, " weights ", p.weight_x, " ", p.weight_w, " clamp ",
       static_cast<int>(p.clamp), " ", std::string(dtype_name<T>()));
  const marked<T> a(anchors, count % 3), g(targets, count % 5), d(deltas, 1);
  marked<T> out(4 * count, count % 4);
  encode_boxes(g.boxes(), a.boxes(), out.boxes(), p);
  check_boxes<T>(out, g.boxes(), a.boxes(), 4, "delta", [&](const box& target, const box& anchor) {
    const box e = p.anchors == box_format::xyxy
                      ? reference::encode_box(target, anchor, weights_of(p))
                      : reference::encode_ssd(target, anchor, 1 / p.weight_x, 1 / p.weight_w);
    // In double, the reference itself suffers from cancellation.
    const double s = std::is_same<T, double>::value ? 4 * p.weight_x : 0;
    return expected_box{e, {s, s, s, s}};
  });
  decode_boxes(d.boxes(), a.boxes(), out.boxes(), p);
  check_boxes<T>(
      out, d.boxes(), a.boxes(), coding_ulp(), "corner",
      [&](const box& delta, const box& anchor) { return exact_decode(p, delta, anchor); });
  decode_boxes(d.boxes(), a.boxes(), image_size::height_width(600, 800), out.boxes(), p);
  check_boxes<T>(out, d.boxes(), a.boxes(), coding_ulp(), "clipped corner",
                 [&](const box& delta, const box& anchor) {
                   expected_box e = exact_decode(p, delta, anchor);
                   e.exact = reference::clip_box(e.exact, 800, 600);
                   return e;
                 });
  CHECK(out.marks_untouched());
}

template <class T>
void check_random(const coder_params& p, index_t count, std::uint64_t seed, double spread) {
  std::vector<T> corners = random_boxes<T>(count, seed), anchors = corners;
  if (p.anchors == box_format::cxcywh) {
    for (index_t i = 0; i < count; ++i) {
      const box c =
          reference::cxcywh_from_xyxy(reference::load_box(boxes_view<const T>(corners), i));
      for (int k = 0; k < 4; ++k)
        anchors[static_cast<std::size_t>(4 * i + k)] =
            to<T>(numbers(c)[static_cast<std::size_t>(k)]);
    }
  }
  check_coding(p, anchors, random_boxes<T>(count, seed + 1),
               random_deltas<T>(count, seed + 2, spread * p.weight_w));
}

/// Whether a result in float and the reference's in double are both finite, both NaN, or the same
/// infinity.
template <class T>
bool same_kind(T mine, double exact) {
  const double value = static_cast<double>(mine);
  if (std::isnan(exact)) return std::isnan(value);
  if (std::isinf(exact)) return value == exact;
  return std::isfinite(value);
}

}  // namespace

TEST_CASE_TEMPLATE("box coding", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (index_t count = 0; count <= 40; ++count) check_random<T>({}, count, ++seed, 0.2);
    for (const size_clamp clamp : {size_clamp::above, size_clamp::both, size_clamp::none}) {
      for (const double spread : {0.2, 1.0, 4.0, 40.0}) {
        coder_params p;
        p.clamp = clamp;
        check_random<T>(p, 555, ++seed, spread);
        p.weight_x = p.weight_y = 10;
        p.weight_w = p.weight_h = 5;
        check_random<T>(p, 555, ++seed, spread);
        p.weight_x = 3;
        p.weight_y = 0.7;
        p.weight_w = 1.9;
        p.weight_h = 7;
        p.size_limit = 2.2;
        check_random<T>(p, 555, ++seed, spread);
        check_random<T>(coder_params::ssd(), 555, ++seed, spread);
      }
    }
  });
}
TEST_CASE_TEMPLATE("box coding: special boxes and deltas", T, float, bfloat16, double) {
  std::vector<T> targets, anchors;
  for (const auto& a : special_boxes()) {
    for (const auto& b : special_boxes()) {
      for (const double x : a) targets.push_back(to<T>(x));
      for (const double x : b) anchors.push_back(to<T>(x));
    }
  }
  const boxes_view<const T> g(targets), a(anchors);
  std::vector<T> out(targets.size());
  for_each_isa([&](isa) {
    encode_boxes(g, a, out);
    for (index_t i = 0; i < g.size(); ++i) {
      const box t = reference::load_box(g, i), at = reference::load_box(a, i);
      if (largest_of(t) > 1e19 || largest_of(at) > 1e19) continue;  // may overflow in float
      const auto exact = numbers(reference::encode_box(t, at));
      for (std::size_t k = 0; k < 4; ++k) {
        CAPTURE(i);
        CAPTURE(k);
        CAPTURE(exact[k]);
        CAPTURE(static_cast<double>(out[static_cast<std::size_t>(4 * i) + k]));
        CHECK((same_kind(out[static_cast<std::size_t>(4 * i) + k], exact[k]) ||
               std::abs(exact[k]) > 1e30));
      }
    }
    // Every special number as every delta, with every clamp: the result is the same kind of number.
    for (const size_clamp clamp : {size_clamp::above, size_clamp::both, size_clamp::none}) {
      coder_params p;
      p.clamp = clamp;
      for (const T x : special_logits<T>()) {
        const std::vector<T> deltas{x, to<T>(0), x, to<T>(0)},
            anchor{to<T>(0), to<T>(0), to<T>(16), to<T>(8)};
        std::vector<T> decoded(4);
        decode_boxes(boxes_view<const T>(deltas), anchor, decoded, p);
        const box exact =
            reference::decode_box({static_cast<double>(x), 0, static_cast<double>(x), 0},
                                  {0, 0, 16, 8}, {}, as_reference(clamp));
        CAPTURE(static_cast<double>(x));
        CHECK((same_kind(decoded[0], exact.x1) || std::abs(exact.x1) > 1e38));
        CHECK((same_kind(decoded[2], exact.x2) || std::abs(exact.x2) > 1e38));
        CHECK(static_cast<double>(decoded[1]) == 0);
        CHECK(static_cast<double>(decoded[3]) == 8);
      }
    }
  });
}

TEST_CASE_TEMPLATE("box coding: sizes of any ratio", T, float, double) {
  std::vector<T> targets, anchors;
  for (int p = -84; p <= 84; p += 3) {
    for (int q = -84; q <= 84; q += 4) {
      const T s = std::ldexp(T(1.3), p), t = std::ldexp(T(1.7), q);
      for (const T x : {-s, -s, s, s}) targets.push_back(x);
      for (const T x : {-t, -t, t, t}) anchors.push_back(x);
    }
  }
  const boxes_view<const T> g(targets), a(anchors);
  std::vector<T> out(targets.size());
  for_each_isa([&](isa) {
    encode_boxes(g, a, out);
    for (index_t i = 0; i < g.size(); ++i) {
      const auto exact =
          numbers(reference::encode_box(reference::load_box(g, i), reference::load_box(a, i)));
      for (std::size_t k = 0; k < 4; ++k) {
        CAPTURE(g(i, 2));
        CAPTURE(a(i, 2));
        CHECK(ulp_distance(out[static_cast<std::size_t>(4 * i) + k], exact[k]) <= 4);
      }
    }
  });
}

TEST_CASE("box coding: sizes up to the clamp, with and without fused multiply-add") {
  constexpr index_t count = 100000;
  random_generator generator(17);
  std::vector<float> anchors, deltas;
  for (index_t i = 0; i < count; ++i) {
    for (int k = 0; k < 2; ++k) anchors.push_back(static_cast<float>(9 * generator.normal()));
    for (int k = 0; k < 2; ++k)
      anchors.push_back(anchors[anchors.size() - 2] + static_cast<float>(1 + generator.uniform()));
    for (int k = 0; k < 2; ++k) deltas.push_back(static_cast<float>(generator.normal()));
    for (int k = 0; k < 2; ++k)
      deltas.push_back(static_cast<float>(8 * generator.uniform() - 4) * 3.3f);
  }
  coder_params params;
  params.weight_w = params.weight_h = 3.2999999523162842;  // 3.3f
  params.clamp = size_clamp::both;
  const marked<float> a(anchors, 1), d(deltas, 2);
  for_each_isa([&](isa set) {
    marked<float> out(4 * count, 3);
    decode_boxes(d.boxes(), a.boxes(), out.boxes(), params);
    check_boxes<float>(
        out, d.boxes(), a.boxes(), set == isa::baseline ? 6 : 4, "corner",
        [&](const box& delta, const box& anchor) { return exact_decode(params, delta, anchor); });
  });
}

TEST_CASE("box coding: exp is within 1 ulp on every 4999th float") {
  std::vector<float> deltas, anchors;
  for (std::uint64_t bits = 0; bits < 0xffffffffu; bits += 4999) {
    const auto word = static_cast<std::uint32_t>(bits);
    float x;
    std::memcpy(&x, &word, sizeof x);
    if (std::isnan(x)) continue;
    for (const float d : {0.0f, 0.0f, x, x}) deltas.push_back(d);
    for (const float a : {-1.0f, -1.0f, 1.0f, 1.0f}) anchors.push_back(a);  // corners are +-exp(x)
  }
  std::vector<float> out(deltas.size());
  coder_params p;
  p.clamp = size_clamp::none;
  for_each_isa([&](isa) {
    decode_boxes(boxes_view<const float>(deltas), anchors, out, p);
    double worst = 0;
    for (std::size_t i = 2; i < out.size(); i += 4)
      if (std::exp(static_cast<double>(deltas[i])) < 3.4e38 || std::isfinite(out[i]))
        worst = std::max(worst, ulp_distance(out[i], std::exp(static_cast<double>(deltas[i]))));
    MESSAGE("exp within " << worst << " ulp");
    CHECK(worst <= 1);
  });
}

TEST_CASE("box coding: golden vectors") {
  // test_reference_box_coding compares the reference with torchvision's results.
  if (!has_data("golden/coder_anchors.npy", "box coding of golden vectors")) return;
  const auto anchors = golden<float>("coder_anchors").values;
  const auto boxes = golden<float>("coder_boxes").values;
  const auto deltas = golden<float>("coder_deltas").values;
  coder_params weighted;
  weighted.weight_x = weighted.weight_y = 10;
  weighted.weight_w = weighted.weight_h = 5;
  for_each_isa([&](isa) {
    check_coding(coder_params{}, anchors, boxes, deltas);
    check_coding(weighted, anchors, boxes, deltas);
  });
}

TEST_CASE("image sizes: height first, in every function that clips") {
  const image_size image = image_size::height_width(200, 300);
  CHECK(image.height == 200);
  CHECK(image.width == 300);
  const std::vector<image_size> images{image};
  const vector_view<const image_size> batch(images);
  const std::vector<float> anchor{-50, -60, 900, 800}, zeros(4), far{9, 9, 9, 9};
  const std::vector<float> whole{0, 0, 300, 200};
  for_each_isa([&](isa) {
    std::vector<float> out(4);
    const auto is_whole = [&] {
      const bool same = out == whole;
      out.assign(4, -1);
      return same;
    };
    decode_boxes(boxes_view<const float>(zeros), anchor, image, out);
    CHECK(is_whole());
    decode_boxes(boxes_view<const float>(zeros), anchor, batch, out);
    CHECK(is_whole());
    decode_distances(boxes_view<const float>(far), anchor, image, out);
    CHECK(is_whole());
    clip_boxes(boxes_view<const float>(anchor), image, out);
    CHECK(is_whole());
    // The anchors of a square image end at its lower right corner.
    const grid_size grid{static_cast<index_t>(image.height), static_cast<index_t>(image.width)};
    std::vector<float> anchors(4 * 20 * 30);
    make_anchors(anchor_shapes{{10}, {1}}, grid, {20, 30}, anchors);
    out.assign(anchors.end() - 4, anchors.end());
    CHECK(out == std::vector<float>{285, 185, 295, 195});
  });
}

TEST_CASE("box coding: real SSD locations on their priors") {
  if (!has_data("ipex_real/nms_ploc.npy", "decoding real SSD locations")) return;
  const auto locations = load_npy<float>(data_path("ipex_real/nms_ploc.npy"));
  const auto priors = load_npy<float>(data_path("ipex_real/nms_dboxes_xywh.npy"));
  REQUIRE(locations.values.size() == priors.values.size());
  const boxes_view<const float> d(locations.values), a(priors.values);
  const coder_params p = coder_params::ssd();
  std::vector<float> out(locations.values.size()), again(out.size());
  for_each_isa([&](isa) {
    decode_boxes(d, a, out, p);
    double worst = 0;
    for (index_t i = 0; i < d.size(); ++i) {
      const box location = reference::load_box(d, i), prior = reference::load_box(a, i);
      const auto exact = numbers(reference::decode_ssd(location, prior));
      const double scale = exact_decode(p, location, prior).scale.x1;
      for (std::size_t k = 0; k < 4; ++k) {
        const double error =
            std::abs(static_cast<double>(out[static_cast<std::size_t>(4 * i) + k]) - exact[k]);
        worst = std::max(worst, error / ulp_of<float>(std::max(scale, std::abs(exact[k]))));
      }
    }
    MESSAGE(d.size() << " real locations decoded within " << worst << " ulp");
    CHECK(worst <= coding_ulp());
  });
}

TEST_CASE("box coding: real ground truth, encoded and decoded again") {
  const std::string file = "coco100/instances_val2014_100.json";
  if (!has_data(file, "COCO's ground truth encoded and decoded")) return;
  const auto dataset = bench::load_coco(data_path(file));
  std::vector<float> truth, anchors;
  for (const auto& object : dataset.objects) {
    for (const double x : {object.x, object.y, object.x + object.width, object.y + object.height})
      truth.push_back(static_cast<float>(x));
    // A typical RetinaNet anchor: a square whose centre is a multiple of 8.
    double size = 32;
    while (size < 512 && size * size < object.width * object.height) size *= 1.25992104989487;
    const double x = 8 * std::floor((object.x + object.width / 2) / 8);
    const double y = 8 * std::floor((object.y + object.height / 2) / 8);
    for (const double c : {x - size / 2, y - size / 2, x + size / 2, y + size / 2})
      anchors.push_back(static_cast<float>(std::nearbyint(c)));
  }
  REQUIRE(truth.size() > 3000);
  std::vector<float> deltas(truth.size()), again(truth.size());
  for_each_isa([&](isa) {
    for (const bool weighted : {false, true}) {
      coder_params p;
      p.clamp = size_clamp::none;
      if (weighted) {
        p.weight_x = p.weight_y = 10;
        p.weight_w = p.weight_h = 5;
      }
      encode_boxes(boxes_view<const float>(truth), anchors, deltas, p);
      decode_boxes(boxes_view<const float>(deltas), anchors, again, p);
      double worst = 0, pixels = 0;
      for (std::size_t i = 0; i < truth.size(); ++i) {
        // The pixel sizes of a box and of its anchor.
        double largest = 0;
        for (std::size_t k = i / 4 * 4; k < i / 4 * 4 + 4; ++k)
          largest = std::max({largest, std::abs(static_cast<double>(truth[k])),
                              std::abs(static_cast<double>(anchors[k]))});
        const double error =
            std::abs(static_cast<double>(again[i]) - static_cast<double>(truth[i]));
        pixels = std::max(pixels, error);
        worst = std::max(worst, error / ulp_of<float>(largest));
      }
      MESSAGE((truth.size() / 4) << " boxes come back within " << worst << " ulp, " << pixels
                                 << " pixels");
      CHECK(worst <= (active_isa() == isa::baseline ? 4 : 2));
    }
  });
}

TEST_CASE("box coding: a batch of images") {
  const index_t anchors = 1111;
  const std::vector<image_size> images{image_size::height_width(600, 800),
                                       image_size::height_width(480, 320),
                                       image_size::height_width(0, 0)};
  const auto a = random_boxes<float>(anchors, 3);
  const auto d = random_deltas<float>(3 * anchors, 4, 0.5);
  std::vector<float> out(d.size());
  for_each_isa([&](isa) {
    const boxes_view<const float> all(d);
    decode_boxes(all, a, vector_view<const image_size>(images), out);
    std::vector<float> one(a.size());
    for (index_t i = 0; i < 3; ++i) {
      decode_boxes(boxes_view<const float>(all[i * anchors], anchors), a,
                   images[static_cast<std::size_t>(i)], one);
      CHECK(same_bits(one.data(), out.data() + i * 4 * anchors, one.size()));
    }
  });
}

TEST_CASE_TEMPLATE("box coding: FCOS distances", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    for (const index_t count : {1, 15, 16, 17, 500}) {
      auto a = random_boxes<T>(count, 5), g = random_boxes<T>(count, 6);
      const auto d = random_deltas<T>(count, 7, 1);
      // Anchors without width, height or both; targets with a side at their centre: 0/0.
      for (std::size_t i = 0; i + 3 < a.size(); i += 20) {
        if (i % 3 != 0) a[i + 2] = g[i] = a[i];
        if (i % 3 != 1) a[i + 3] = g[i + 3] = a[i + 1];
      }
      const boxes_view<const T> av(a), gv(g), dv(d);
      for (const bool by_size : {true, false}) {
        distance_params p;
        p.by_size = by_size;
        marked<T> out(4 * count, 1);
        encode_distances(gv, a, out.boxes(), p);
        check_boxes<T>(out, gv, av, 4, "distance", [&](const box& target, const box& anchor) {
          const double s = std::is_same<T, double>::value ? largest_of(anchor) : 0;
          return expected_box{reference::encode_distances(target, anchor, by_size), {s, s, s, s}};
        });
        const auto scale = [&](const box& distances, const box& anchor) {
          const double s = std::max(largest_of(anchor),
                                    largest_of(distances) * (by_size ? largest_of(anchor) : 1));
          return box{s, s, s, s};
        };
        decode_distances(dv, a, out.boxes(), p);
        check_boxes<T>(out, dv, av, 4, "corner", [&](const box& distances, const box& anchor) {
          return expected_box{reference::decode_distances(distances, anchor, by_size),
                              scale(distances, anchor)};
        });
        decode_distances(dv, a, image_size::height_width(400, 500), out.boxes(), p);
        check_boxes<T>(out, dv, av, 4, "corner", [&](const box& distances, const box& anchor) {
          return expected_box{
              reference::clip_box(reference::decode_distances(distances, anchor, by_size), 500,
                                  400),
              scale(distances, anchor)};
        });
      }
    }
  });
}
