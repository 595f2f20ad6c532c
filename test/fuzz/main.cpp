// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry point, common to all fuzzers.
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vecdet::fuzz::memory().release();
  vecdet::fuzz::input in(data, size);
  vecdet::fuzz::target(in);
  return 0;
}
