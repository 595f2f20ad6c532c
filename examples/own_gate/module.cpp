// SPDX-License-Identifier: Apache-2.0
// The benchmark problems, compiled once with each version of kernel.hpp, behind the C interface
// that the gate loads. A problem is a call on data that both versions share.
#include "interface.hpp"
#include "problem.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

#include <kernel.hpp>  // by the include path: "..." would find this folder's

namespace {

using namespace vecdet::gate;

struct vectors {
  std::vector<float> a, b;
  volatile float result = 0;  // so that no call is optimised away
  explicit vectors(int n) : a(static_cast<std::size_t>(n), 0.5f), b(a) {}
};

const problems added{
    {"dot/f32/2048", make<vectors>(2048),
     VECDET_GATE_CALL(d.result = dot(d.a.data(), d.b.data(), d.a.size()))},
    {"dot/f32/16384", make<vectors>(16384),
     VECDET_GATE_CALL(d.result = dot(d.a.data(), d.b.data(), d.a.size()))},
};

const problem& at(std::int64_t i) { return all_problems()[static_cast<std::size_t>(i)]; }

}  // namespace

const vecdet_gate_module* vecdet_gate_open() {
  static const vecdet_gate_module module{
      static_cast<std::int64_t>(all_problems().size()),
      [](std::int64_t i) { return at(i).name.c_str(); },
      [](std::int64_t i) { return at(i).run != nullptr; },
      [](std::int64_t) { return false; },  // no plain loops to compare with
      [](const char* isa) { return std::strcmp(isa, "baseline") == 0; },  // one set of flags
      [](std::int64_t i) { return at(i).make_data(); },
      [](std::int64_t i, void* data) { at(i).free_data(data); },
      [](std::int64_t i, void* data, std::int64_t times) {
        for (std::int64_t k = 0; k < times; ++k) at(i).run(data);
      },
      [](std::int64_t, void*, std::int64_t) {},
  };
  return &module;
}
