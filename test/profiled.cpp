// SPDX-License-Identifier: Apache-2.0
// Prints the active instruction set and the rank of a job that the profiler detects; records one
// scope. Scripts run it with other privileges than its user's, and with little memory.
#include <vecdet/dispatch.hpp>
#include <vecdet/profile.hpp>

#include <iostream>

int main() {
  VECDET_PROFILE_WORK("profiled", 1000, 2000);
  std::cout << vecdet::isa_name(vecdet::active_isa()) << ", rank "
            << vecdet::profile::detail::job_rank() << '\n';
}
