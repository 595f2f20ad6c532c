// SPDX-License-Identifier: Apache-2.0
// Any text as oneDNN's log and as PyTorch's records of convolutions. It is either refused with an
// exception, or the result is a report that can be written.
#include "../../bench/profile/aten_convolutions.hpp"
#include "../../bench/profile/import_onednn.hpp"
#include "fuzz_input.hpp"

#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

namespace vecdet::fuzz {

void target(input& in) {
  const bool forward = in.flag();
  const std::string text = in.text();
  const profile::onednn_import imported = profile::import_onednn(text);
  if (imported.problems.size() != imported.recorded.entries.size()) std::abort();
  std::ostringstream out;
  write_json(out, imported.recorded);
  profile::entry e;
  const std::size_t line = text.find('\n');
  e.function = forward ? "aten::convolution" : "aten::convolution_backward";
  e.variant = text.substr(0, line);
  if (line != std::string::npos) e.implementation = text.substr(line + 1);
  try {
    profile::read_aten_convolution(e);
  } catch (const std::runtime_error&) {
  }
}

}  // namespace vecdet::fuzz
