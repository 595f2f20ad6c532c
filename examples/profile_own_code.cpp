// SPDX-License-Identifier: Apache-2.0
// The profiler in code unrelated to detectors: a blur and a sum on two threads. It needs only
// vecdet/profile/. A disabled scope costs one load.
//
//   profile_own_code                                         prints the table
//   VECDET_PROFILE=report.html profile_own_code              writes a report with a roofline
//   VECDET_PROFILE=trace.json profile_own_code               writes a trace for Perfetto
#include <vecdet/profile.hpp>

#include <cstdint>
#include <iostream>
#include <numeric>
#include <thread>
#include <vector>

namespace {

void blur(const std::vector<float>& in, std::vector<float>& out) {
  // Bytes and operations place the scope on the roofline; the shape follows.
  const auto n = static_cast<std::int64_t>(in.size());
  VECDET_PROFILE_WORK("blur", 8 * n, 3 * n, n);
  for (std::size_t i = 1; i + 1 < in.size(); ++i)
    out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];
}

double work(std::size_t size) {
  VECDET_PROFILE_SCOPE("work");
  std::vector<float> a(size, 1.0f), b(size, 1.0f);
  for (int pass = 0; pass < 20; ++pass) {
    blur(a, b);
    blur(b, a);
  }
  VECDET_PROFILE_SCOPE("sum");  // to the end of the block
  return std::accumulate(a.begin(), a.end(), 0.0);
}

}  // namespace

int main() {
  vecdet::profile::enable();  // or set VECDET_PROFILE in the environment, without changing code
  double sums[2] = {};
  {
    VECDET_PROFILE_SCOPE("step");
    std::thread other([&] { sums[1] = work(200000); });
    sums[0] = work(100000);
    other.join();
  }
  vecdet::profile::print(std::cout);

  // The recorded data are also available as plain structs.
  for (const auto& entry : vecdet::profile::snapshot().entries) {
    if (entry.name == "blur/100000") return entry.count == 40 && sums[0] == 100000 ? 0 : 1;
  }
  return 1;
}
