// SPDX-License-Identifier: Apache-2.0
// Says the instruction set in force, and the rank of a job that the profiler takes it for; records
// one scope. Scripts run it with rights that its user has not, and with little memory.
#include <vecdet/dispatch.hpp>
#include <vecdet/profile.hpp>

#include <iostream>

int main() {
  VECDET_PROFILE_WORK("profiled", 1000, 2000);
  std::cout << vecdet::isa_name(vecdet::active_isa()) << ", rank "
            << vecdet::profile::detail::job_rank() << '\n';
}
