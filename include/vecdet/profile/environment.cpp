// SPDX-License-Identifier: Apache-2.0
// Reads VECDET_PROFILE before main() and writes the reports that it asks for at the end. A part of
// vecdet::dispatch, so that a kernel's header brings in no writers; any flags will do.
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
