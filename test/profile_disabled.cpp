// SPDX-License-Identifier: Apache-2.0
// A program with VECDET_PROFILE_DISABLE: its scopes, and those of the library's functions, are
// compiled out. Exits with 0 if they did nothing; test/CMakeLists.txt looks for leftovers in the
// executable.
#include <vecdet/profile/scope.hpp>
#include <vecdet/smooth_l1.hpp>

#include <type_traits>
#include <vector>

int main() {
  static_assert(std::is_empty<vecdet::profile::scope>::value, "a scope holds nothing");
  int evaluated = 0;
  VECDET_PROFILE_SCOPE((++evaluated, "scope"));
  VECDET_PROFILE_WORK((++evaluated, "work"), ++evaluated, 0, 4);
  VECDET_PROFILE_WAIT((++evaluated, "wait"));
  const vecdet::profile::scope timing([&] {
    ++evaluated;
    return vecdet::profile::problem{};
  });
  const std::vector<float> predictions{1, 2, 3, 4}, targets{1, 2, 3, 5};
  const double loss = vecdet::smooth_l1_loss(vecdet::boxes_view<const float>(predictions), targets,
                                             vecdet::box_selection::all());
  return evaluated == 0 && loss > 0 ? 0 : 1;
}
