// SPDX-License-Identifier: Apache-2.0
// The profiler for Python: torch.ops.vecdet._profile_*, which vecdet.profile of the package calls.
// A part of vecdet::torch.
#include <vecdet/impl/torch/translated.hpp>
#include <vecdet/profile/control.hpp>
#include <vecdet/profile/output.hpp>
#include <vecdet/profile/snapshot.hpp>
#include <vecdet/torch/profile.hpp>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <torch/library.h>

namespace {

namespace profile = vecdet::profile;
using vecdet::detail::aten::translated;

std::unique_ptr<profile::torch_operators>& recorded_operators() {
  static std::unique_ptr<profile::torch_operators> recorded;
  return recorded;
}

/// The scopes that this thread has open, the innermost last.
std::vector<std::unique_ptr<profile::scope>>& open_scopes() {
  static thread_local std::vector<std::unique_ptr<profile::scope>> scopes;
  return scopes;
}

void enable(bool with_torch_operators) {
  auto& recorded = recorded_operators();
  if (with_torch_operators && recorded == nullptr)
    recorded = std::make_unique<profile::torch_operators>();
  if (!with_torch_operators) recorded.reset();
  profile::enable();
}

std::string json() {
  std::ostringstream text;
  write_json(text, profile::snapshot());
  return text.str();
}

void write(const std::string& path) {
  translated([&] { profile::write_file(path, profile::full_snapshot()); });
}

std::string page_faults() {
  const auto& recorded = recorded_operators();
  return recorded == nullptr ? std::string() : recorded->page_fault_report();
}

void begin(const std::string& name) {
  profile::problem problem;
  problem.function = profile::intern(name);
  open_scopes().push_back(std::make_unique<profile::scope>(problem));
}

void end() {
  if (!open_scopes().empty()) open_scopes().pop_back();
}

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def("_profile_enable(bool torch_operators) -> ()", &enable);
  m.def("_profile_disable() -> ()", [] { profile::disable(); });
  m.def("_profile_reset() -> ()", [] { profile::reset(); });
  m.def("_profile_json() -> str", &json);
  m.def("_profile_write(str path) -> ()", &write);
  m.def("_profile_page_faults() -> str", &page_faults);
  m.def("_profile_begin(str name) -> ()", &begin);
  m.def("_profile_end() -> ()", &end);
}

}  // namespace
