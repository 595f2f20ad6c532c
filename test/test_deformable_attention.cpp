// SPDX-License-Identifier: Apache-2.0
// Deformable attention against the reference: element types, instruction sets, shapes around the
// vector width, few and many queries, points of every kind; properties; and every documented error.
#include "support/attention_problem.hpp"
#include "support/isa.hpp"
#include "support/ulp.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

/// Whether the error of each number is at most `units` times the compute type's epsilon times its
/// magnitude, plus the rounding to T.
template <class T>
bool is_near(const std::vector<T>& actual, const std::vector<double>& exact,
             const std::vector<double>& magnitudes, double units) {
  constexpr double epsilon = std::numeric_limits<compute_type<T>>::epsilon();
  constexpr double rounding = std::is_same<T, bfloat16>::value ? 0x1p-8 : 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double off = std::abs(static_cast<double>(actual[i]) - exact[i]);
    const double most = units * epsilon * magnitudes[i] + rounding * std::abs(exact[i]);
    if (!(off <= most * 1.01)) {
      MESSAGE("element ", i, ": ", static_cast<double>(actual[i]), ", exact ", exact[i]);
      return false;
    }
  }
  return true;
}

template <class T>
struct attention_outcome {
  std::vector<T> out;
  attention_grad_arrays<T> grads;

  bool operator==(const attention_outcome& other) const {
    return same_bits(out, other.out) && grads == other.grads;
  }
};

template <class T>
void check_problem(const attention_problem<T>& p) {
  INFO(p.name());
  const std::vector<double> exact = p.exact(), size = p.exact(true);
  const exact_attention_grads grads = p.exact_grads(), grad_size = p.exact_grads(true);
  const auto points = static_cast<double>(p.shape().points());
  const auto terms = static_cast<double>(p.most_terms());
  const double channels = static_cast<double>(p.channels) / 16;
  const auto run = [&] { return attention_outcome<T>{p.forward(), p.backward()}; };
  check_on_every_isa(run, [&](const attention_outcome<T>& actual) {
    CHECK(is_near(actual.out, exact, size, points + 8));
    CHECK(is_near(actual.grads.value, grads.value, grad_size.value, terms + 8));
    CHECK(is_near(actual.grads.points, grads.points, grad_size.points, channels + 16));
    CHECK(is_near(actual.grads.weights, grads.weights, grad_size.weights, channels + 16));
  });
}

template <class T>
attention_problem<T> small_problem() {
  attention_problem<T> p;
  p.make(3);
  return p;
}

/// The bytes of a workspace's memory.
index_t scratch_bytes(deformable_attention_workspace& workspace) {
  const auto& buffers = detail::workspace_access::buffers(workspace);
  const auto bytes = [](const auto& memory) {
    return static_cast<index_t>(memory.capacity() * sizeof(memory[0]));
  };
  return bytes(buffers.levels) + bytes(buffers.memory) + bytes(buffers.packed) +
         bytes(buffers.points) + bytes(buffers.band_of) + bytes(buffers.begin) +
         bytes(buffers.borders);
}

}  // namespace

TEST_CASE_TEMPLATE("deformable attention: channels around the vector width", T, float, double,
                   bfloat16) {
  for (const index_t channels : {1, 3, 8, 15, 16, 17, 31, 32, 33, 48, 64, 70})
    for (const index_t queries : {3, 90}) {  // for 90, the value is copied head by head
      attention_problem<T> p;
      p.channels = channels;
      p.queries = queries;
      p.images = queries > 9 ? 1 : 2;
      p.heads = 2;
      p.make(static_cast<std::uint64_t>(channels));
      check_problem(p);
    }
}

TEST_CASE_TEMPLATE("deformable attention: points, heads and levels", T, float, double, bfloat16) {
  for (const index_t points : {1, 3, 15, 16, 17, 32, 35})
    for (const index_t heads : {1, 4}) {
      attention_problem<T> p;
      p.levels = {{4, 7, points}};
      p.heads = heads;
      p.make(static_cast<std::uint64_t>(points));
      check_problem(p);
      p.levels = {{8, 1, points}, {1, 9, 0}, {0, 5, 2}, {3, 3, 4}, {1, 1, 1}};
      p.make(static_cast<std::uint64_t>(points) + 50);
      check_problem(p);
    }
}

TEST_CASE_TEMPLATE("deformable attention: points on borders and far away", T, float, double) {
  // On a level of 4 x 4, the position of x is 4 x - 0.5.
  const std::vector<double> coordinates{
      -0.125, -0.126, -0.124, 0,     0.125, 0.375,        0.5,   0.875, 0.876,
      1,      1.124,  1.125,  1.126, 2,     -7,           1e9,   -1e9,  1e30,
      -1e30,  inf,    -inf,   3e38,  -3e38, not_a_number, 1e-40, -0.0};
  attention_problem<T> p;
  p.levels = {{4, 4, static_cast<index_t>(coordinates.size())}};
  p.images = p.heads = 1;
  p.queries = static_cast<index_t>(coordinates.size());
  p.channels = 17;
  p.make(5);
  for (std::size_t i = 0; i < coordinates.size(); ++i)
    for (std::size_t k = 0; k < coordinates.size(); ++k) {
      p.points[2 * (i * coordinates.size() + k)] = to<T>(coordinates[i]);
      p.points[2 * (i * coordinates.size() + k) + 1] = to<T>(coordinates[k]);
    }
  check_problem(p);
  // All points are outside: results are 0, even if the value or a weight is not finite.
  std::fill(p.value.begin(), p.value.end(), to<T>(not_a_number));
  p.weights[0] = to<T>(not_a_number);
  p.weights[1] = to<T>(inf);
  for (const double outside : {-0.126, 1.126, 1e30, inf, not_a_number}) {
    CAPTURE(outside);
    for (std::size_t i = 0; i < p.points.size(); i += 2) p.points[i] = to<T>(outside);
    for_each_isa([&](isa) {
      for (const T x : p.forward()) CHECK(x == T(0));
      const attention_grad_arrays<T> grads = p.backward();
      for (const auto* grad : {&grads.value, &grads.points, &grads.weights})
        for (const T x : *grad) CHECK(x == T(0));
    });
  }
}

TEST_CASE("deformable attention: NaN and infinite numbers reach what depends on them") {
  for (const index_t queries : {3, 90})
    for (const double special : {inf, not_a_number}) {
      attention_problem<float> p;
      p.queries = queries;
      p.make(6);
      const std::vector<float> before = p.forward();
      const attention_grad_arrays<float> grads_before = p.backward();
      // A location next to the last point of the first image.
      const index_t channel = 5, head = p.heads - 1;
      index_t location = -1;
      reference::for_each_attention_corner(p.shape(), vector_view<const float>(p.points),
                                           [&](const reference::attention_corner& at) {
                                             if (at.image == 0 && at.head == head)
                                               location = at.location;
                                           });
      REQUIRE(location >= 0);
      attention_problem<float> q = p;
      q.value[static_cast<std::size_t>((location * p.heads + head) * p.channels + channel)] =
          static_cast<float>(special);
      std::vector<bool> touched(before.size()), touches(p.weights.size());
      reference::for_each_attention_corner(
          p.shape(), vector_view<const float>(p.points),
          [&](const reference::attention_corner& at) {
            if (at.image != 0 || at.head != head || at.location != location) return;
            touched[static_cast<std::size_t>(reference::attention_output_at(p.shape(), at) +
                                             channel)] = true;
            touches[static_cast<std::size_t>(at.point)] = true;
          });
      CHECK(std::count(touched.begin(), touched.end(), true) > 0);
      for_each_isa([&](isa) {
        const std::vector<float> base = p.forward(), after = q.forward();
        for (std::size_t i = 0; i < after.size(); ++i)
          CHECK((touched[i] ? !std::isfinite(after[i]) : after[i] == base[i]));
        const attention_grad_arrays<float> base_grads = p.backward(), grads = q.backward();
        CHECK(same_bits(grads.value, base_grads.value));
        for (std::size_t i = 0; i < grads.weights.size(); ++i) {
          CHECK((touches[i] ? !std::isfinite(grads.weights[i])
                            : grads.weights[i] == base_grads.weights[i]));
          if (!touches[i]) CHECK(grads.points[2 * i] == base_grads.points[2 * i]);
        }
      });
    }
}

TEST_CASE("deformable attention: a constant value, and points on locations") {
  attention_problem<float> p;
  p.levels = {{16, 16, 3}, {8, 8, 2}};
  p.make(7);
  // Inside, the weights of the four locations add up to 1.
  std::fill(p.value.begin(), p.value.end(), 3.0f);
  std::fill(p.weights.begin(), p.weights.end(), 0.2f);
  random_generator generator(8);
  for (float& x : p.points) x = static_cast<float>(generator.uniform(0.1, 0.9));
  for_each_isa([&](isa) {
    for (const float x : p.forward()) CHECK(x == doctest::Approx(3).epsilon(1e-6));
    for (const float x : p.backward().points) CHECK(std::abs(x) < 1e-4f);
  });
  // A point exactly on a location gives that location's value.
  p.make(9);
  p.levels = {{16, 8, 1}};
  p.images = p.heads = p.queries = p.channels = 1;
  p.make(10);
  p.weights = {1};
  for (const index_t y : {0, 5, 15})
    for (const index_t x : {0, 3, 7}) {
      p.points = {(static_cast<float>(x) + 0.5f) / 8, (static_cast<float>(y) + 0.5f) / 16};
      for_each_isa(
          [&](isa) { CHECK(p.forward()[0] == p.value[static_cast<std::size_t>(y * 8 + x)]); });
    }
}

TEST_CASE("deformable attention: points at the positions where samples end") {
  // Position -1 touches the first location with weight 0; below -1 and from the size on, nothing.
  attention_problem<double> p;
  p.levels = {{4, 8, 1}};
  p.images = p.heads = p.queries = p.channels = 1;
  p.make(11);
  p.weights = {2};
  p.upstream = {3};
  for_each_isa([&](isa) {
    p.points = {-0.5 / 8, 1.5 / 4};  // positions -1 and 1
    CHECK(p.forward()[0] == 0);
    CHECK(p.backward().points[0] == 8 * 2 * 3 * p.value[8]);
    CHECK(p.backward().points[1] == 0);
    CHECK(p.backward().weights[0] == 0);
    for (const double x : {-0.5 / 8 - 1e-12, 8.5 / 8}) {
      p.points[0] = x;
      CHECK(p.forward()[0] == 0);
      CHECK(p.backward().points[0] == 0);
    }
    p.points = {0.5 / 8, -0.5 / 4};  // positions 0 and -1
    CHECK(p.forward()[0] == 0);
    CHECK(p.backward().points[1] == 4 * 2 * 3 * p.value[0]);
    p.points[1] = 4.5 / 4;
    CHECK(p.backward().points[1] == 0);
  });
}

TEST_CASE_TEMPLATE("deformable attention: the same bits on any number of threads", T, float, double,
                   bfloat16) {
  for (const index_t images : {1, 2})
    for (const index_t queries : {1, 7, 150}) {
      attention_problem<T> p;
      p.levels = {{10, 7, 4}, {0, 3, 2}, {5, 5, 13}, {1, 1, 1}};
      p.images = images;
      p.queries = queries;
      p.heads = 3;
      p.channels = 20;
      p.policy = threading::sequential;
      p.make(12);
      CAPTURE(images);
      CAPTURE(queries);
      const attention_grad_arrays<T> expected = p.backward();
      for_each_policy([&](threading policy) {
        p.policy = policy;
        CHECK((p.backward() == expected));
      });
    }
}

TEST_CASE_TEMPLATE("deformable attention: scratch memory is as documented", T, float, double,
                   bfloat16) {
  for (const index_t queries : {1, 20, 150})
    for (const index_t channels : {1, 8, 33})
      for (const index_t heads : {1, 8})
        for (const int threads : {1, 7}) {
          attention_problem<T> p;
          p.levels = {{10, 10, 4}, {5, 5, 4}, {3, 3, 1}};
          p.images = 1;
          p.queries = queries;
          p.channels = channels;
          p.heads = heads;
          p.policy = threading::on(in_turn, threads);
          p.make(12);
          CAPTURE(queries);
          CAPTURE(channels);
          CAPTURE(heads);
          CAPTURE(threads);
          constexpr index_t number = sizeof(compute_type<T>);
          const index_t locations = p.shape().locations();
          const bool copies = (heads > 1 || std::is_same<T, bfloat16>::value) &&
                              queries * p.shape().points() >= 8 * locations;
          const index_t per_thread = 1024 + 200 * 16;
          const index_t copy = copies ? number * locations * heads * channels + 64 : 0;
          deformable_attention_workspace workspace;
          p.forward(workspace);
          CHECK(scratch_bytes(workspace) <= threads * per_thread + copy);
          if (copies) CHECK(scratch_bytes(workspace) >= copy - 64);
          const index_t sums = number * locations * ((channels + 15) / 16 * 16);
          p.backward(workspace);
          // If images x heads do not keep the threads busy: points sorted by bands.
          const index_t record = number == 8 ? 48 : 32;
          const index_t sorted = 8 * record * queries * p.shape().points() * heads + 4 * locations;
          const index_t bands = threads == 1 ? 0 : sorted + 4096 * threads;
          CHECK(scratch_bytes(workspace) <= threads * (per_thread + sums) + copy + bands);
        }
}

TEST_CASE("deformable attention: only the gradients that are asked for") {
  const attention_problem<float> p = small_problem<float>();
  const attention_grad_arrays<float> all = p.backward();
  for (int wanted = 0; wanted < 8; ++wanted) {
    attention_grad_arrays<float> some{std::vector<float>(wanted & 1 ? p.value.size() : 0),
                                      std::vector<float>(wanted & 2 ? p.points.size() : 0),
                                      std::vector<float>(wanted & 4 ? p.weights.size() : 0)};
    deformable_attention_workspace workspace;
    p.backward(some, workspace, threading::parallel);
    CHECK((some.value.empty() || same_bits(some.value, all.value)));
    CHECK((some.points.empty() || same_bits(some.points, all.points)));
    CHECK((some.weights.empty() || same_bits(some.weights, all.weights)));
  }
}

TEST_CASE("deformable attention: a workspace serves calls of any size") {
  deformable_attention_workspace workspace;
  for (const index_t queries : {200, 3, 90}) {
    attention_problem<float> p;
    p.queries = queries;
    p.make(4);
    CHECK(same_bits(p.forward(workspace), p.forward()));
  }
}

TEST_CASE("deformable attention: empty inputs") {
  attention_problem<float> p = small_problem<float>();
  p.queries = 0;
  p.make(1);
  CHECK(p.forward().empty());
  for (const float g : p.backward().value) CHECK(g == 0);
  p = small_problem<float>();
  p.levels.clear();
  p.make(1);
  for (const float x : p.forward()) CHECK(x == 0);
  p.levels = {{3, 4, 0}};
  p.make(1);
  for (const float x : p.forward()) CHECK(x == 0);
  for (const float g : p.backward().value) CHECK(g == 0);
  p.levels = {{0, 4, 2}};
  p.make(1);
  for (const float x : p.forward()) CHECK(x == 0);
  for (const float g : p.backward().points) CHECK(g == 0);
  p = small_problem<float>();
  p.channels = 0;
  p.make(1);
  CHECK(p.forward().empty());
  for (const float g : p.backward().weights) CHECK(g == 0);
  for (index_t attention_problem<float>::*size :
       {&attention_problem<float>::images, &attention_problem<float>::heads}) {
    p = small_problem<float>();
    p.*size = 0;
    p.make(1);
    CHECK(p.forward().empty());
    CHECK(p.backward().points.empty());
  }
}

TEST_CASE("deformable attention: errors") {
  const attention_problem<float> good = small_problem<float>();
  const auto check_error = [&](const attention_problem<float>& p, const std::string& message) {
    const std::string forward = "vecdet::deformable_attention: " + message;
    const std::string backward = "vecdet::deformable_attention_grad: " + message;
    CHECK_THROWS_WITH_AS(p.forward(), forward.c_str(), std::invalid_argument);
    CHECK_THROWS_WITH_AS(p.backward(), backward.c_str(), std::invalid_argument);
  };
  attention_problem<float> p = good;
  p.images = -1;
  check_error(p, "shape.images is -1, expected 0 or more");
  p = good;
  p.queries = -2;
  check_error(p, "shape.queries is -2, expected 0 or more");
  p = good;
  p.heads = -3;
  check_error(p, "shape.heads is -3, expected 0 or more");
  p = good;
  p.channels = -4;
  check_error(p, "shape.channels is -4, expected 0 or more");
  p = good;
  p.levels[1].height = -1;
  check_error(p, "shape.levels[1].height is -1, expected 0 to 2^31 - 1");
  p.levels[1] = {1, index_t{1} << 31, 1};
  check_error(p, "shape.levels[1].width is 2147483648, expected 0 to 2^31 - 1");
  p.levels[1] = {1, 1, -1};
  check_error(p, "shape.levels[1].points is -1, expected 0 to 2^31 - 1 in all levels");
  p.levels[1].points = 2147483645;
  check_error(p, "shape.levels[1].points is 2147483645, expected 0 to 2^31 - 1 in all levels");
  p.levels[1] = {50000, 50000, 1};
  check_error(p,
              "shape.levels[1].height is 50000, expected at most 2^31 - 1 locations in all levels");
  p = good;
  p.value.pop_back();
  check_error(p, "value.size() is 6479, expected 6480, images x locations x heads x channels");
  p = good;
  p.points.pop_back();
  check_error(p, "points.size() is 503, expected 504, images x queries x heads x points x 2");
  p = good;
  p.weights.push_back(0);
  check_error(p, "weights.size() is 253, expected 252, images x queries x heads x points");
  p = good;
  p.heads = index_t{1} << 62;
  check_error(p,
              "value.size() is 6480, expected images x locations x heads x channels, more than "
              "memory can address");

  deformable_attention_workspace workspace;
  p = good;
  std::vector<float> out(p.upstream.size() + 1);
  const auto run = [&](vector_view<float> to) {
    deformable_attention(vector_view<const float>(p.value), p.points, p.weights, to, p.shape(),
                         workspace);
  };
  CHECK_THROWS_WITH_AS(run(out),
                       "vecdet::deformable_attention: out.size() is 337, expected 336, images x "
                       "queries x heads x channels",
                       std::invalid_argument);
  for (std::vector<float>* shared : {&p.value, &p.points, &p.weights}) {
    const std::string name = shared == &p.value    ? "value"
                             : shared == &p.points ? "points"
                                                   : "weights";
    const std::string message = "vecdet::deformable_attention: out is in the memory of " + name +
                                ", expected separate memory";
    shared->resize(336 + shared->size());
    const std::vector<float> value = p.value, points = p.points, weights = p.weights;
    const auto size = [&](const std::vector<float>& of, const std::vector<float>& like) {
      return vector_view<const float>(of.data(), like.size());
    };
    CHECK_THROWS_WITH_AS(
        deformable_attention(size(p.value, good.value), size(p.points, good.points),
                             size(p.weights, good.weights), vector_view<float>(shared->data(), 336),
                             p.shape(), workspace),
        message.c_str(), std::invalid_argument);
    p = good;
  }

  std::vector<float> value(p.value), points(p.points), weights(p.weights);
  const auto grad_error = [&](const deformable_attention_grads<float>& grads,
                              const std::string& message) {
    const std::string text = "vecdet::deformable_attention_grad: " + message;
    CHECK_THROWS_WITH_AS(
        deformable_attention_grad(vector_view<const float>(p.upstream), p.value, p.points,
                                  p.weights, grads, p.shape(), workspace),
        text.c_str(), std::invalid_argument);
    CHECK(value == p.value);
  };
  deformable_attention_grads<float> grads;
  grads.value = vector_view<float>(value.data(), 3);
  grad_error(grads, "grads.value.size() is 3, expected 0 or 6480, the value's size");
  grads.value = {};
  grads.points = vector_view<float>(points.data(), 5);
  grad_error(grads, "grads.points.size() is 5, expected 0 or 504, the points' size");
  grads.points = {};
  grads.weights = vector_view<float>(weights.data(), 2);
  grad_error(grads, "grads.weights.size() is 2, expected 0 or 252, the weights' size");
  grads = {};
  grads.value = p.value;
  grad_error(grads, "grads.value is in the memory of value, expected separate memory");
  grads.value = {};
  grads.points = p.points;
  grad_error(grads, "grads.points is in the memory of points, expected separate memory");
  grads.points = {};
  grads.weights = p.weights;
  grad_error(grads, "grads.weights is in the memory of weights, expected separate memory");
  grads = {};
  grads.value = value;
  grads.points = vector_view<float>(value.data(), points.size());
  grad_error(grads, "grads.points is in the memory of grads.value, expected separate memory");
  grads.points = points;
  grads.weights = vector_view<float>(value.data() + 7, weights.size());
  grad_error(grads, "grads.weights is in the memory of grads.value, expected separate memory");
  grads.weights = vector_view<float>(points.data() + 7, weights.size());
  grad_error(grads, "grads.weights is in the memory of grads.points, expected separate memory");
  p.upstream.pop_back();
  grad_error({}, "upstream.size() is 335, expected 336, images x queries x heads x channels");
}
