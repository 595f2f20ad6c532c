// SPDX-License-Identifier: Apache-2.0
// The reference of deformable attention, and the functions on every instruction set, against
// PyTorch's results in double; and an example computed by hand.
#include "support/attention_problem.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

TEST_CASE("deformable attention: PyTorch's results") {
  if (!has_data("golden_network/msda_y_0.npy", "deformable attention: PyTorch's results")) return;
  for (const char* const number : {"0", "1", "2"}) {
    CAPTURE(number);
    const auto load = [&](const std::string& name) {
      return golden_network<double>("msda_" + name + "_" + number).values;
    };
    const auto levels = golden_network<std::int64_t>(std::string("msda_levels_") + number).values;
    const auto value = golden_network<float>(std::string("msda_value_") + number);
    const auto points = golden_network<float>(std::string("msda_locations_") + number);
    attention_problem<float> p;
    p.levels.clear();
    for (std::size_t l = 0; l < levels.size(); l += 3)
      p.levels.push_back({levels[l], levels[l + 1], levels[l + 2]});
    p.images = static_cast<index_t>(value.shape[0]);
    p.heads = static_cast<index_t>(value.shape[2]);
    p.channels = static_cast<index_t>(value.shape[3]);
    p.queries = static_cast<index_t>(points.shape[1]);
    p.value = value.values;
    p.points = points.values;
    p.weights = golden_network<float>(std::string("msda_weights_") + number).values;
    p.upstream = golden_network<float>(std::string("msda_gy_") + number).values;

    const exact_attention_grads exact = p.exact_grads();
    CHECK(worst_of_mean(p.exact(), load("y")) < 1e-13);
    CHECK(worst_of_mean(exact.value, load("gvalue")) < 1e-13);
    CHECK(worst_of_mean(exact.points, load("glocations")) < 1e-12);
    CHECK(worst_of_mean(exact.weights, load("gweights")) < 1e-13);
    for_each_isa([&](isa) {
      const attention_grad_arrays<float> grads = p.backward();
      CHECK(worst_of_mean(p.forward(), load("y")) < 2e-6);
      CHECK(worst_of_mean(grads.value, load("gvalue")) < 8e-6);
      CHECK(worst_of_mean(grads.points, load("glocations")) < 1e-5);
      CHECK(worst_of_mean(grads.weights, load("gweights")) < 2e-6);
    });
  }
}

TEST_CASE("reference deformable attention: computed by hand") {
  // Two levels of one channel. On the first, x = 0.5 * 2 - 0.5 is halfway between the columns, and
  // y = 0.375 * 2 - 0.5 a quarter below the upper row. On the second, x = 0 is half a location left
  // of the only location.
  const std::vector<attention_level> levels{{2, 2, 1}, {1, 1, 1}};
  attention_shape shape;
  shape.images = shape.queries = shape.heads = shape.channels = 1;
  shape.levels = levels;
  const std::vector<double> value{1, 3, 10, 30, 100}, points{0.5, 0.375, 0, 0.5}, weights{0.5, 2};
  const vector_view<const double> v(value), p(points), w(weights);
  std::vector<double> out(1);
  reference::deformable_attention(shape, v, p, w, vector_view<double>(out));
  // 0.75 * 2 + 0.25 * 20 = 6.5; half of 100.
  CHECK(out[0] == 0.5 * 6.5 + 2 * 50);
  const std::vector<double> upstream{4};
  std::vector<double> by_value(5), by_points(4), by_weights(2);
  reference::deformable_attention_grad(
      shape, vector_view<const double>(upstream), v, p, w, vector_view<double>(by_value),
      vector_view<double>(by_points), vector_view<double>(by_weights));
  CHECK(by_value == std::vector<double>{0.75, 0.75, 0.25, 0.25, 4});
  CHECK(by_weights == std::vector<double>{26, 200});
  // With respect to x, the first level is 2 locations wide and its columns differ by 0.75 * 2 +
  // 0.25 * 20. With respect to y, it is 2 locations high and its rows differ by 20 - 2. On the
  // second level, the sample grows by 100 over the width. In y, the point is exactly on the
  // location, with zeros on both sides: the gradient is that towards larger y.
  CHECK(by_points ==
        std::vector<double>{4 * 0.5 * 2 * 6.5, 4 * 0.5 * 2 * 18, 4 * 2 * 100, 4 * 2 * -50});
}
