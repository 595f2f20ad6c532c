// SPDX-License-Identifier: Apache-2.0
// Calls that are refused.
#pragma once

#include <stdexcept>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

namespace vecdet::test {

/// Returns fails(message, call), which checks that call() throws std::invalid_argument with this
/// text and leaves `outputs` as they are now.
template <class... Outputs>
auto refusals(const Outputs&... outputs) {
  return [before = std::tuple<Outputs...>(outputs...),
          now = std::tuple<const Outputs&...>(outputs...)](const std::string& message,
                                                           const auto& call) {
    INFO(message);
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message.c_str()), std::invalid_argument);
    CHECK((before == now));
  };
}

}  // namespace vecdet::test
