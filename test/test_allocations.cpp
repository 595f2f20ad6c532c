// SPDX-License-Identifier: Apache-2.0
// Calls allocate no memory once their workspace has grown. If an allocation fails, a call throws
// std::bad_alloc or continues without the memory, and its workspace stays usable.
#include "calls/catalogue.hpp"
#include "support/allocations.hpp"
#include "support/effort.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/matching.hpp>

#include <cstdint>
#include <new>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr threading policies[] = {threading::sequential, threading::parallel};

/// Whether the calls of this family are tried: those in float, or all with VECDET_FULL_TESTS.
bool is_tried(const family& f) { return f.type == "f32" || full_tests(); }

}  // namespace

TEST_CASE("allocations: none once a workspace has grown") {
  for (const threading policy : policies) {
    plain_memory at;
    for_each_call(at, 24000, source::ordinary, [&](const family& f, const call& c) {
      // Anchors are made once for each shape of image.
      if (!is_tried(f) || c.returns_vector || c.function == "make_anchors") return;
      INFO(f.type, " ", c.name);
      c.run(policy);
      const allocation_count allocations;
      for (int i = 0; i < 2; ++i) c.run(policy);
      CHECK(allocations.since() == 0);
    });
  }
}

TEST_CASE("allocations: each allocation fails once") {
  constexpr std::int64_t step = under_sanitizer ? 7 : 1;
  std::int64_t failures = 0;
  for (const threading policy : policies) {
    for (const family& f : catalogue()) {
      if (!is_tried(f)) continue;
      const problem p{f.sized(3000)};
      const auto make = [&](memory& at) { return f.make(at, p); };
      plain_memory at;
      const call_set untroubled = make(at);
      for (std::size_t k = 0; k < untroubled.calls.size(); ++k) {
        INFO(f.type, " ", untroubled.calls[k].name);
        const results expected = untroubled.calls[k].results_of(policy);
        for (std::int64_t failed = 0;; failed += step) {
          CAPTURE(failed);
          plain_memory again;
          const call_set set = make(again);  // with a workspace that has not grown
          bool has_failed = false;
          try {
            const failing_allocation next(failed);
            set.calls[k].run(policy);
            has_failed = next.has_failed();
          } catch (const std::bad_alloc&) {
            has_failed = true;
          }
          CHECK(set.calls[k].results_of(policy) == expected);
          if (!has_failed) break;
          ++failures;
          REQUIRE(failed < 1000);
        }
      }
    }
  }
  CHECK(failures > 50);
}

TEST_CASE("allocations: an index of anchors is built, or the call throws std::bad_alloc") {
  const std::vector<float> corners = random_boxes<float>(3000, 1);
  std::int64_t failures = 0;
  for (bool has_failed = true; has_failed; ++failures) {
    REQUIRE(failures < 1000);
    const failing_allocation next(failures);
    try {
      const anchor_index index{boxes_view<const float>(corners)};
      CHECK(index.size() == 3000);
      has_failed = next.has_failed();
    } catch (const std::bad_alloc&) {
    }
  }
  CHECK(failures > 1);
}
