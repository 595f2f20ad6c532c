// SPDX-License-Identifier: Apache-2.0
// Any text as Google Benchmark's JSON and as the gate's history. It is either refused with an
// exception, or the result can be written.
#include "../../bench/gate/google_benchmark.hpp"
#include "../../bench/gate/history.hpp"
#include "../../bench/gate/history_page.hpp"
#include "fuzz_input.hpp"

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace vecdet::fuzz {

void target(input& in) {
  const bool as_history = in.flag();
  const std::string text = in.text();
  try {
    if (as_history) {
      std::istringstream file(text);
      std::ostringstream warnings;
      const std::vector<gate::benchmark_history> all =
          gate::read_history(file, "history", warnings);
      std::ostringstream page;
      gate::write_history_page(page, all);
      if (page.str().find("<script") != std::string::npos) std::abort();
    } else {
      for (const gate::benchmark_run& run : gate::read_google_benchmark(text)) {
        if (run.name.empty() || run.ns.empty() != (run.state != gate::run_state::timed))
          std::abort();
        for (const double ns : run.ns) {
          if (!(ns >= 0)) std::abort();
        }
      }
    }
  } catch (const std::runtime_error&) {
  }
}

}  // namespace vecdet::fuzz
