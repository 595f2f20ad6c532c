// SPDX-License-Identifier: Apache-2.0
// Reads VECDET_PROFILE before main() and writes its reports at the end. It is a part of
// vecdet::dispatch, so that kernel headers need not include the writers. Compile it with any flags.
#define VECDET_ENVIRONMENT_UNIT
#include <vecdet/profile/environment.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

void link_environment() noexcept {}

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
