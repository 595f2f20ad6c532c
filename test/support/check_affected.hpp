// SPDX-License-Identifier: Apache-2.0
// Which results a NaN or an infinity reaches.
#pragma once

#include "values.hpp"
#include <vecdet/feature_view.hpp>
#include <vecdet/views.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

namespace vecdet::test {

/// Checks that the numbers for which affected(image, channel, y, x) holds have become infinite or
/// NaN, and that those for which may_be(image, channel, y, x) does not hold have the same bits.
/// `like` has their shape, in NCHW.
template <class Affected, class MayBe>
void check_affected(const std::vector<float>& before, const std::vector<float>& after,
                    const feature_view<const float>& like, const Affected& affected,
                    const MayBe& may_be) {
  index_t wrong = 0;
  for (index_t i = 0; i < like.size(); ++i) {
    const index_t x = i % like.width(), y = i / like.width() % like.height();
    const index_t c = i / like.width() / like.height() % like.channels();
    const index_t n = i / like.width() / like.height() / like.channels();
    const auto at = static_cast<std::size_t>(i);
    const bool is_same = same_bits(&before[at], &after[at], 1);
    if (affected(n, c, y, x) && (is_same || std::isfinite(after[at]))) ++wrong;
    if (!may_be(n, c, y, x) && !is_same) ++wrong;
  }
  CHECK(wrong == 0);
}

/// No others may be affected.
template <class Affected>
void check_affected(const std::vector<float>& before, const std::vector<float>& after,
                    const feature_view<const float>& like, const Affected& affected) {
  check_affected(before, after, like, affected, affected);
}

}  // namespace vecdet::test
