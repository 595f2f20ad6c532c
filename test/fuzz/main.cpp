// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls, the same in every fuzzer.
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vecdet::fuzz::memory().release();
  vecdet::fuzz::input in(data, size);
  vecdet::fuzz::target(in);
  return 0;
}
