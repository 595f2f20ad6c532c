// SPDX-License-Identifier: Apache-2.0
// A module's C interface, on its list of problems.
#include "interface.hpp"
#include "problem.hpp"
#include "seed.hpp"
#include <vecdet/dispatch.hpp>

#include <cstdint>
#include <cstring>

namespace vecdet::gate {
namespace {

const problem& at(std::int64_t index) { return all_problems()[static_cast<std::size_t>(index)]; }

const char* name(std::int64_t index) { return at(index).name.c_str(); }
bool exists(std::int64_t index) { return at(index).run != nullptr; }
bool has_plain_loop(std::int64_t index) { return at(index).run_plain_loop != nullptr; }
void* make_data(std::int64_t index) { return at(index).make_data(); }
void free_data(std::int64_t index, void* data) { at(index).free_data(data); }

bool set_isa(const char* wanted) {
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (std::strcmp(isa_name(set), wanted) == 0 && isa_available(set)) {
      vecdet::set_isa(set);
      return true;
    }
  }
  return false;
}

void run(std::int64_t index, void* data, std::int64_t times) {
  const problem& called = at(index);
  for (std::int64_t i = 0; i < times; ++i) run_slowed(called, data);
}

void run_plain_loop(std::int64_t index, void* data, std::int64_t times) {
  const problem& called = at(index);
  for (std::int64_t i = 0; i < times; ++i) called.run_plain_loop(data);
}

}  // namespace
}  // namespace vecdet::gate

const vecdet_gate_module* vecdet_gate_open() {
  using namespace vecdet::gate;
  static const vecdet_gate_module module{
      static_cast<std::int64_t>(all_problems().size()),
      name,
      exists,
      has_plain_loop,
      set_isa,
      make_data,
      free_data,
      run,
      run_plain_loop,
  };
  return &module;
}
