// SPDX-License-Identifier: Apache-2.0
// Box coding and what else is done to boxes, against the reference, torchvision's golden vectors
// and real data: every instruction set, element type, clamp and format, at lengths around a group
// of boxes and misaligned starts, at special boxes; determinism, allocations, documented errors.
#include "../bench/support/coco.hpp"
#include "support/allocations.hpp"
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/exact_boxes.hpp"
#include "support/isa.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/box_ops.hpp>
#include <vecdet/reference/box_coding.hpp>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;
using reference::box;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
void check_boxes(const marked<T>& actual, boxes_view<const T> a, boxes_view<const T> b, double ulp,
                 const char* what,
                 const std::function<expected_box(const box&, const box&)>& exact) {
  for (index_t i = 0; i < a.size(); ++i) {
    const box first = reference::load_box(a, i), second = reference::load_box(b, i);
    const expected_box e = exact(first, second);
    for (int k = 0; k < 4; ++k) {
      const double value = numbers(e.exact)[static_cast<std::size_t>(k)];
      const double scale = numbers(e.scale)[static_cast<std::size_t>(k)];
      const T mine = actual[4 * i + k];
      if (is_close(mine, value, ulp, scale)) continue;
      // Float may overflow where the reference, in double, does not, or where its terms do.
      if (sizeof(T) <= 4 && std::abs(value) > 3.4e38 && !std::isnan(static_cast<double>(mine)))
        continue;
      if (std::abs(value) < 1e-37 && std::abs(static_cast<double>(mine)) < 1e-37) continue;
      FAIL_CHECK(std::string(what)
                 << " " << k << " of (" << first.x1 << " " << first.y1 << " " << first.x2 << " "
                 << first.y2 << ") with (" << second.x1 << " " << second.y1 << " " << second.x2
                 << " " << second.y2 << ") is " << static_cast<double>(mine) << ", exact " << value
                 << ": " << ulp_distance(mine, value) << " ulp");
      return;
    }
  }
}

/// Boxes near `anchors`, as a detector's ground truth is.
template <class T>
std::vector<T> random_deltas(index_t count, std::uint64_t seed, double spread) {
  random_generator generator(seed);
  std::vector<T> deltas;
  for (index_t i = 0; i < 4 * count; ++i) deltas.push_back(to<T>(spread * generator.normal()));
  return deltas;
}

double coding_ulp() { return active_isa() == isa::baseline ? 64 : 4; }

template <class T>
void check_coding(const coder_params& p, index_t count, std::uint64_t seed, double spread) {
  INFO("boxes ", count, " weights ", p.weight_x, " ", p.weight_w, " clamp ",
       static_cast<int>(p.clamp), " ", std::string(dtype_name<T>()));
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
  const marked<T> a(anchors, count % 3), g(random_boxes<T>(count, seed + 1), count % 5);
  const marked<T> d(random_deltas<T>(count, seed + 2, spread * p.weight_w), 1);
  marked<T> out(4 * count, count % 4);
  encode_boxes(g.boxes(), a.boxes(), out.boxes(), p);
  check_boxes<T>(out, g.boxes(), a.boxes(), 4, "delta", [&](const box& target, const box& anchor) {
    const box e = p.anchors == box_format::xyxy
                      ? reference::encode_box(target, anchor, weights_of(p))
                      : reference::encode_ssd(target, anchor, 1 / p.weight_x, 1 / p.weight_w);
    // In double it is the reference that cancels.
    const double s = std::is_same<T, double>::value ? 4 * p.weight_x : 0;
    return expected_box{e, {s, s, s, s}};
  });
  decode_boxes(d.boxes(), a.boxes(), out.boxes(), p);
  check_boxes<T>(
      out, d.boxes(), a.boxes(), coding_ulp(), "corner",
      [&](const box& deltas, const box& anchor) { return exact_decode(p, deltas, anchor); });
  decode_boxes(d.boxes(), a.boxes(), image_size{800, 600}, out.boxes(), p);
  check_boxes<T>(out, d.boxes(), a.boxes(), coding_ulp(), "clipped corner",
                 [&](const box& deltas, const box& anchor) {
                   expected_box e = exact_decode(p, deltas, anchor);
                   e.exact = reference::clip_box(e.exact, 800, 600);
                   return e;
                 });
  CHECK(out.marks_untouched());
}

template <class T>
void sweep_coding() {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (index_t count = 0; count <= 40; ++count) check_coding<T>({}, count, ++seed, 0.2);
    for (const size_clamp clamp : {size_clamp::above, size_clamp::both, size_clamp::none}) {
      for (const double spread : {0.2, 1.0, 4.0, 40.0}) {
        coder_params p;
        p.clamp = clamp;
        check_coding<T>(p, 555, ++seed, spread);
        p.weight_x = p.weight_y = 10;
        p.weight_w = p.weight_h = 5;
        check_coding<T>(p, 555, ++seed, spread);
        p.weight_x = 3;
        p.weight_y = 0.7;
        p.weight_w = 1.9;
        p.weight_h = 7;
        p.size_limit = 2.2;
        check_coding<T>(p, 555, ++seed, spread);
        check_coding<T>(coder_params::ssd(), 555, ++seed, spread);
      }
    }
  });
}

/// What of two boxes of special_boxes() the reference makes in double, where float need not
/// overflow.
template <class T>
bool same_kind(T mine, double exact) {
  const double value = static_cast<double>(mine);
  if (std::isnan(exact)) return std::isnan(value);
  if (std::isinf(exact)) return value == exact;
  return std::isfinite(value);
}

template <class T>
void special_coding() {
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
    // Every special number as every delta, with every clamp: the same kind of number comes out.
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

}  // namespace

TEST_CASE("box coding: float") { sweep_coding<float>(); }
TEST_CASE("box coding: bfloat16") { sweep_coding<bfloat16>(); }
TEST_CASE("box coding: double") { sweep_coding<double>(); }
TEST_CASE("box coding: special boxes and deltas") {
  special_coding<float>();
  special_coding<bfloat16>();
  special_coding<double>();
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
    check_boxes<float>(out, d.boxes(), a.boxes(), set == isa::baseline ? 6 : 4, "corner",
                       [&](const box& of_delta, const box& anchor) {
                         return exact_decode(params, of_delta, anchor);
                       });
  });
}

TEST_CASE("box coding: exp over every 4999th float is within 1 ulp") {
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

TEST_CASE("box coding: golden vectors of torchvision") {
  if (!has_data("golden/coder_anchors.npy", "box coding against torchvision")) return;
  const auto anchors = golden<float>("coder_anchors").values;
  const auto boxes = golden<float>("coder_boxes").values;
  const auto deltas = golden<float>("coder_deltas").values;
  const boxes_view<const float> a(anchors), d(deltas);
  std::vector<float> out(anchors.size());
  for_each_isa([&](isa) {
    for (const bool weighted : {false, true}) {
      coder_params p;
      if (weighted) {
        p.weight_x = p.weight_y = 10;
        p.weight_w = p.weight_h = 5;
      }
      const std::string k = weighted ? "1" : "0";
      const auto encoded = golden<double>("coder_encoded_" + k).values;
      const auto decoded = golden<double>("coder_decoded_" + k).values;
      encode_boxes(boxes_view<const float>(boxes), anchors, out, p);
      for (std::size_t i = 0; i < out.size(); ++i) CHECK(is_close(out[i], encoded[i], 4));
      decode_boxes(d, anchors, out, p);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const auto b = static_cast<index_t>(i / 4);
        const box scale =
            exact_decode(p, reference::load_box(d, b), reference::load_box(a, b)).scale;
        CHECK(is_close(out[i], decoded[i], coding_ulp(), numbers(scale)[i % 4]));
      }
    }
    const auto clipped = golden<double>("coder_clipped_0").values;
    decode_boxes(d, anchors, image_size{800, 600}, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto b = static_cast<index_t>(i / 4);
      const box scale =
          exact_decode({}, reference::load_box(d, b), reference::load_box(a, b)).scale;
      CHECK(is_close(out[i], clipped[i], coding_ulp(), numbers(scale)[i % 4]));
    }
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
    // An anchor as RetinaNet would have it there: a square whose centre is a multiple of 8.
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
        // The pixel numbers of a box: its own and its anchor's.
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
  const std::vector<image_size> images{{800, 600}, {320, 480}, {0, 0}};
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

TEST_CASE("box coding: FCOS distances") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
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
        decode_distances(dv, a, image_size{500, 400}, out.boxes(), p);
        check_boxes<T>(out, dv, av, 4, "corner", [&](const box& distances, const box& anchor) {
          return expected_box{
              reference::clip_box(reference::decode_distances(distances, anchor, by_size), 500,
                                  400),
              scale(distances, anchor)};
        });
      }
    }
  };
  for_each_isa([&](isa) {
    check(0.0f);
    check(bfloat16(0.0f));
    check(0.0);
  });
}

TEST_CASE("box ops: conversions, clip, areas") {
  using reference::cxcywh_from_xyxy;
  using reference::xywh_from_xyxy;
  const auto to_corners = [](box_format f, const box& b) {
    return f == box_format::xyxy   ? b
           : f == box_format::xywh ? reference::xyxy_from_xywh(b)
                                   : reference::xyxy_from_cxcywh(b);
  };
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    for (const index_t count : {0, 1, 16, 17, 333}) {
      auto boxes = random_boxes<T>(count, 8);
      for (std::size_t i = 0; i < boxes.size(); i += 13) boxes[i] = test::to<T>(quiet_nan);
      const marked<T> b(boxes, 1);
      for (const auto from : {box_format::xyxy, box_format::xywh, box_format::cxcywh}) {
        for (const auto to : {box_format::xyxy, box_format::xywh, box_format::cxcywh}) {
          marked<T> out(4 * count, 3);
          convert_boxes(b.boxes(), from, to, out.boxes());
          check_boxes<T>(out, b.boxes(), b.boxes(), 2, "coordinate",
                         [&](const box& in, const box&) {
                           const box corners = to_corners(from, in);
                           const double s = 2 * largest_of(in);
                           box converted = to == from               ? in
                                           : to == box_format::xyxy ? corners
                                           : to == box_format::xywh ? xywh_from_xyxy(corners)
                                                                    : cxcywh_from_xyxy(corners);
                           if (from != box_format::xyxy && to != box_format::xyxy) {
                             converted.x2 = in.x2;  // sizes stay, also of a place that is NaN
                             converted.y2 = in.y2;
                           }
                           return expected_box{converted, {s, s, s, s}};
                         });
          CHECK(out.marks_untouched());
        }
      }
      marked<T> out(4 * count, 0), areas(count, 2);
      clip_boxes(b.boxes(), {500, 300.5}, out.boxes());
      box_areas(b.boxes(), areas.each());
      for (index_t i = 0; i < count; ++i) {
        const box in = reference::load_box(b.boxes(), i);
        const box clipped =
            reference::clip_box(in, 500, static_cast<double>(to<compute_type<T>>(300.5)));
        for (int k = 0; k < 4; ++k)
          CHECK(ulp_distance(out[4 * i + k], static_cast<double>(to<T>(numbers(
                                                 clipped)[static_cast<std::size_t>(k)]))) == 0);
        CHECK(is_close(areas[i], reference::box_area(in), 2));
      }
      CHECK(areas.marks_untouched());
    }
  };
  for_each_isa([&](isa) {
    check(0.0f);
    check(bfloat16(0.0f));
    check(0.0);
    const std::vector<float> odd{-5, NAN, 900, INFINITY};
    std::vector<float> out(4);
    clip_boxes(boxes_view<const float>(odd), {800, 600}, out);
    CHECK(out[0] == 0);
    CHECK(std::isnan(out[1]));
    CHECK(out[2] == 800);
    CHECK(out[3] == 600);
  });
}

TEST_CASE("box ops: boxes that are large enough") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    std::vector<T> boxes = random_boxes<T>(20000, 9, 40, 0.5);  // some chunks
    const std::vector<T> special = special_boxes_as<T>();
    boxes.insert(boxes.end(), special.begin(), special.end());
    const boxes_view<const T> view(boxes);
    std::vector<std::uint8_t> mask(boxes.size() / 4), expected_mask(mask.size());
    std::vector<index_t> indices(mask.size());
    for (const double min_size : {0.0, 0.1, 7.5, 15.0, 1e9}) {
      std::vector<index_t> expected;
      for (index_t i = 0; i < view.size(); ++i) {
        const bool large = reference::is_large_enough(view, i, min_size);
        expected_mask[static_cast<std::size_t>(i)] = large;
        if (large) expected.push_back(i);
      }
      large_box_mask(view, min_size, mask);
      CHECK(mask == expected_mask);
      const index_t count = large_boxes(view, min_size, indices);
      CHECK(std::vector<index_t>(indices.begin(), indices.begin() + count) == expected);
    }
  };
  for_each_isa([&](isa) {
    check(0.0f);
    check(bfloat16(0.0f));
    check(0.0);
  });
}

TEST_CASE("box coding: the same bits for any thread count, policy and on AVX2 and AVX-512") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    auto g = random_boxes<T>(20011, 12), a = random_boxes<T>(20011, 13);
    const auto special = special_boxes_as<T>();  // groups of plain and odd boxes
    for (std::size_t i = 0; i < special.size(); ++i) g[40 * (i / 4) + i % 4] = special[i];
    const auto d = random_deltas<T>(20011, 14, 3);
    const boxes_view<const T> gv(g), dv(d);
    check_same_bits_everywhere([&](execution policy) {
      std::vector<T> out(g.size());
      encode_boxes(gv, a, out, {}, policy);
      return out;
    });
    check_same_bits_everywhere([&](execution policy) {
      std::vector<T> out(g.size());
      decode_boxes(dv, a, image_size{800, 800}, out, {}, policy);
      return out;
    });
    check_same_bits_everywhere([&](execution policy) {
      std::vector<T> out(g.size() / 4);
      box_areas(gv, out, policy);
      return out;
    });
  };
  check(0.0f);
  check(bfloat16(0.0f));
  check(0.0);
}

TEST_CASE("box coding: boxes in four arrays have the same bits") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
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
        const std::vector<image_size> images{{70, 90}};
        decode_boxes(d, anchors, images[0], expected, p);
        decode_boxes(in.planes(), a.planes(), images[0], out.planes(), p);
        CHECK(same_bits(as_planes(expected).data(), out.data(), expected.size()));
        CHECK(out.marks_untouched());
        decode_boxes(in.planes(), a.planes(), vector_view<const image_size>(images), in.planes(),
                     p);
        CHECK(same_bits(as_planes(expected).data(), in.data(), expected.size()));
      }
    }
  };
  for_each_isa([&](isa) {
    check(0.0f);
    check(bfloat16(0.0f));
    check(0.0);
  });
}

TEST_CASE("box coding: bfloat16 deltas on float anchors are decoded as if they were float") {
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
      decode_boxes(w, anchors, image_size{70, 90}, expected, coder_params::ssd());
      decode_boxes(d, anchors, image_size{70, 90}, out.boxes(), coder_params::ssd());
      same(out);
      decode_distances(w, anchors, expected);
      decode_distances(d, anchors, out.boxes());
      same(out);
      decode_distances(w, anchors, image_size{70, 90}, expected);
      decode_distances(d, anchors, image_size{70, 90}, out.boxes());
      same(out);
      const std::vector<image_size> images{{70, 90}, {50, 40}};
      expected.resize(wide.size());
      marked<float> all(8 * count, 1);
      decode_boxes(wide_both, anchors, vector_view<const image_size>(images), expected);
      decode_boxes(both, anchors, vector_view<const image_size>(images), all.boxes());
      same(all);
    }
  });
}

TEST_CASE_TEMPLATE("box coding: an output may be the input", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    for (const index_t count : {1, 7, 8, 15, 16, 17, 31, 33, 300}) {
      CAPTURE(count);
      const auto anchors = random_boxes<T>(count, 15), targets = random_boxes<T>(count, 17);
      const auto deltas = random_deltas<T>(count, 16, 0.2);
      const image_size image{300, 200};
      // call(from, to) gives the same bits where both are one.
      const auto check = [&](const std::vector<T>& from, const auto& call) {
        auto same = from;
        std::vector<T> other(from.size());
        call(boxes_view<const T>(from), boxes_view<T>(other));
        call(boxes_view<const T>(same), boxes_view<T>(same));
        CHECK(same_bits(same, other));
      };
      check(targets, [&](auto in, auto out) { encode_boxes(in, anchors, out); });
      check(deltas, [&](auto in, auto out) { decode_boxes(in, anchors, image, out); });
      check(targets, [&](auto in, auto out) { encode_distances(in, anchors, out); });
      check(deltas, [&](auto in, auto out) { decode_distances(in, anchors, image, out); });
      check(targets, [&](auto in, auto out) { clip_boxes(in, image, out); });
      check(targets, [&](auto in, auto out) {
        convert_boxes(in, box_format::xyxy, box_format::cxcywh, out);
      });
    }
  });
}

TEST_CASE_TEMPLATE("split_detections: columns of any stride", T, float, bfloat16, double) {
  for (const index_t rows : {0, 1, 5, 10000}) {
    for (const index_t cols : {5, 6, 9}) {
      for (const index_t stride : {cols, cols + 3}) {
        std::vector<T> memory(static_cast<std::size_t>(rows * stride + 1), to<T>(-1));
        const matrix_view<T> detections(memory.data(), rows, cols, stride);
        for (index_t i = 0; i < rows; ++i)
          for (index_t k = 0; k < cols; ++k)
            detections(i, k) = to<T>(static_cast<double>((7 * i + k * k) % 251 - 20));
        marked<T> boxes(4 * rows), scores(rows);
        const auto is_split = [&] {
          for (index_t i = 0; i < rows; ++i) {
            for (index_t k = 0; k < 4; ++k)
              if (boxes[4 * i + k] != detections(i, k)) return false;
            if (scores[i] != detections(i, 4)) return false;
          }
          return boxes.marks_untouched() && scores.marks_untouched();
        };
        split_detections(detections, boxes.boxes(), scores.each());
        CHECK(is_split());
        if (cols < 6) continue;
        std::vector<index_t> classes(static_cast<std::size_t>(rows), -7);
        boxes = marked<T>(4 * rows);
        scores = marked<T>(rows);
        split_detections(detections, boxes.boxes(), scores.each(), classes);
        CHECK(is_split());
        for (index_t i = 0; i < rows; ++i)
          CHECK(classes[static_cast<std::size_t>(i)] == (7 * i + 25) % 251 - 20);
      }
    }
  }
}

TEST_CASE("split_detections: bad arguments are named") {
  std::vector<float> memory(18, 1), boxes(12, -3), scores(3, -3);
  std::vector<index_t> classes(3, -3);
  const auto fails = [&](const char* message, const auto& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), std::invalid_argument);
    CHECK(boxes == std::vector<float>(12, -3));
    CHECK(scores == std::vector<float>(3, -3));
    CHECK(classes == std::vector<index_t>(3, -3));
  };
  const matrix_view<const float> rows(memory.data(), 3, 6);
  const matrix_view<const float> four(memory.data(), 3, 4), five(memory.data(), 3, 5, 6);
  const vector_view<float> two(scores.data(), 2);
  fails("vecdet::split_detections: detections.cols() is 4, expected 5 or more",
        [&] { split_detections(four, boxes, scores); });
  fails("detections.cols() is 5, expected 6 or more",
        [&] { split_detections(five, boxes, scores, classes); });
  fails("scores.size() is 2", [&] { split_detections(rows, boxes, two); });
  fails("boxes.size() is 2",
        [&] { split_detections(rows, boxes_view<float>(boxes.data(), 2), scores); });
  fails("classes.size() is 2",
        [&] { split_detections(rows, boxes, scores, vector_view<index_t>(classes.data(), 2)); });
  for (const double id : {1.5, infinity, quiet_nan, 1e30}) {
    memory[17] = static_cast<float>(id);
    fails("split_detections: classes[2] is ",
          [&] { split_detections(rows, boxes, scores, classes); });
  }
}

TEST_CASE("box coding: nothing is allocated") {
  const auto a = random_boxes<float>(20000, 15);
  const auto d = random_deltas<float>(20000, 16, 0.2);
  std::vector<float> out(d.size());
  const std::vector<image_size> images(20, image_size{9, 9});
  const boxes_view<const float> anchors(a.data(), 1000);
  for (const execution policy : {execution::sequential, execution::parallel}) {
    const auto call = [&] {
      decode_boxes(boxes_view<const float>(d), anchors, images, out, {}, policy);
      encode_boxes(boxes_view<const float>(a), a, out, {}, policy);
      decode_boxes(boxes_view<const float>(d), a, image_size{9, 9}, out, {}, policy);
    };
    call();
    const allocation_count allocations;
    for (int i = 0; i < 20; ++i) call();
    CHECK(allocations.since() == 0);
  }
}

TEST_CASE("box coding: bad arguments are named and nothing is written") {
  const std::vector<float> four(16, 1), three(12, 1);
  marked<float> out(16, 0);
  std::vector<std::uint8_t> mask(4, 7);
  const boxes_view<const float> b(four);
  coder_params p;
  const auto fails = [&](const char* message, const auto& call) {
    INFO(std::string(message));
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), std::invalid_argument);
    CHECK(out.untouched());
    CHECK(mask == std::vector<std::uint8_t>(4, 7));
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
  fails("boxes.size() is 4, expected the number of inputs",
        [&] { decode_boxes(boxes_view<const float>(three), three, out.boxes()); });
  fails("image.width is -1", [&] { decode_boxes(b, four, image_size{-1, 5}, out.boxes()); });
  fails("image.height is nan", [&] {
    decode_boxes(b, four, image_size{1, quiet_nan}, out.boxes());
  });
  const std::vector<image_size> images{{1, 1}, {2, -2}};
  fails("images[1].height is -2",
        [&] { decode_boxes(b, four, vector_view<const image_size>(images), out.boxes()); });
  fails("deltas.size() is 4", [&] {
    decode_boxes(b, three, vector_view<const image_size>(images.data(), 1), out.boxes());
  });
  // So many that their number times that of the images is 0 in 64 bits.
  const std::vector<image_size> many(64, image_size{1, 1});
  fails("decode_boxes: deltas.size() is 0, expected anchors.size() times images.size()", [&] {
    decode_boxes(boxes_view<const float>(), boxes_view<const float>(out.data(), index_t{1} << 58),
                 many, boxes_view<float>());
  });
  fails("clip_boxes: image.width is inf", [&] { clip_boxes(b, {infinity, 5}, out.boxes()); });
  fails("clip_boxes: image.height is 1.5e+39, expected a finite float, 0 or more", [&] {
    clip_boxes(b, {5, 1.5e39}, out.boxes());
  });
  fails("convert_boxes: out.size() is 4", [&] {
    convert_boxes(boxes_view<const float>(three), box_format::xyxy, box_format::xywh, out.boxes());
  });
  marked<float> planes(12, 0);
  fails("encode_boxes: anchors.size() is 3",
        [&] { encode_boxes(out.planes(), planes.planes(), out.planes()); });
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
  fails("box_areas: areas.size() is 16", [&] { box_areas(b, out.each()); });
  fails("large_box_mask: min_size is -1", [&] { large_box_mask(b, -1, mask); });
  fails("large_box_mask: mask.size() is 4",
        [&] { large_box_mask(boxes_view<const float>(three), 1, mask); });
  fails("encode_distances: anchors.size() is 3", [&] { encode_distances(b, three, out.boxes()); });
  fails("decode_distances: image.width is -3", [&] {
    decode_distances(b, four, image_size{-3, 1}, out.boxes());
  });
}
