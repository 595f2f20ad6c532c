// SPDX-License-Identifier: Apache-2.0
// What functions of a head's levels check.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/head_levels.hpp>

#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Throws, in the name of `function`, unless the view called `name` has as many images, anchors and
/// levels as the one called `model`, levels of the same sizes, the same layout, and these classes.
/// Text is made only for what is thrown: nothing is allocated otherwise.
template <class A, class B>
void check_head(const char* function, const char* name, const head_view<A>& view, const char* model,
                const head_view<B>& like, index_t classes) {
  const auto check_member = [&](const char* member, index_t actual, index_t expected) {
    if (actual == expected) return;
    throw_invalid_argument(function, (std::string(name) + member).c_str(), actual,
                           (std::to_string(expected) + ", as " + model + " has it").c_str());
  };
  check_member(".layout()", static_cast<index_t>(view.layout()),
               static_cast<index_t>(like.layout()));
  check_member(".images()", view.images(), like.images());
  check_member(".anchors()", view.anchors(), like.anchors());
  check_member(".classes()", view.classes(), classes);
  check_member(".levels().size()", view.levels().size(), like.levels().size());
  for (index_t l = 0; l < like.levels().size(); ++l) {
    const auto& level = view.levels()[l];
    const auto& expected = like.levels()[l];
    if (level.height == expected.height && level.width == expected.width) continue;
    const auto text = [](index_t height, index_t width) {
      return std::to_string(height) + " x " + std::to_string(width);
    };
    throw_invalid_argument(
        function, element((std::string(name) + ".levels()").c_str(), l).c_str(),
        text(level.height, level.width),
        (text(expected.height, expected.width) + ", as " + model + " has it").c_str());
  }
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
