// SPDX-License-Identifier: Apache-2.0
// The policy of all problems. Revisions before 0.3 call its class `execution`.
#pragma once

#include <vecdet/parallel.hpp>

#include <type_traits>

// vecdet's own class hides its namesake here. The namesake is found only if the headers lack the
// class.
class threading;
class execution;

namespace vecdet::gate {

template <class Threading = threading>
using policy =
    std::conditional_t<std::is_same<Threading, ::threading>::value, execution, Threading>;

inline constexpr policy<> sequential = policy<>::sequential;

}  // namespace vecdet::gate
