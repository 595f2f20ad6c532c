// SPDX-License-Identifier: Apache-2.0
// Loops of a caller, for threading::on(). They run on the calling thread.
#pragma once

#include <vecdet/parallel.hpp>

namespace vecdet::test {

inline constexpr auto in_turn = [](index_t count, const task& work) {
  for (index_t i = 0; i < count; ++i) work(i);
};
inline constexpr auto backwards = [](index_t count, const task& work) {
  for (index_t i = count; i-- > 0;) work(i);
};

}  // namespace vecdet::test
