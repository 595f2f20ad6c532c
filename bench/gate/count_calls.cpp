// SPDX-License-Identifier: Apache-2.0
// Calls each problem of a module once inside vecdet_gate_counted_call, so that callgrind counts its
// instructions. Each problem is first called once outside it, which does not count. Prints the
// problems' names.
#include "module/interface.hpp"

#include <cstdint>
#include <iostream>

#include <dlfcn.h>

extern "C" __attribute__((noinline)) void vecdet_gate_counted_call(const vecdet_gate_module& module,
                                                                   std::int64_t problem,
                                                                   void* data) {
  module.run(problem, data, 1);
  asm volatile("" : : : "memory");
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "count_calls MODULE ISA\n";
    return 2;
  }
  void* const handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::cerr << dlerror() << '\n';
    return 2;
  }
  const auto open =
      reinterpret_cast<decltype(&vecdet_gate_open)>(dlsym(handle, "vecdet_gate_open"));
  const vecdet_gate_module& module = *open();
  if (!module.set_isa(argv[2])) {
    std::cerr << argv[2] << " is not available\n";
    return 2;
  }
  for (std::int64_t i = 0; i < module.count; ++i) {
    if (!module.exists(i)) continue;
    void* const data = module.make_data(i);
    module.run(i, data, 1);
    vecdet_gate_counted_call(module, i, data);
    module.free_data(i, data);
    std::cout << module.name(i) << '\n';
  }
}
