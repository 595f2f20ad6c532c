// SPDX-License-Identifier: Apache-2.0
// The profiler for Python: torch.ops.vecdet._profile_*, called by the package's
// vecdet.torch.profile. A part of vecdet::torch.
#include <vecdet/impl/torch/translated.hpp>
#include <vecdet/profile/control.hpp>
#include <vecdet/profile/output.hpp>
#include <vecdet/profile/snapshot.hpp>
#include <vecdet/torch/profile.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <unordered_map>

#include <torch/library.h>

namespace {

namespace profile = vecdet::profile;
using vecdet::detail::aten::translated;

std::unique_ptr<profile::torch_operators>& recorded_operators() {
  static std::unique_ptr<profile::torch_operators> recorded;
  return recorded;
}

/// The open scopes by number. A scope may end on a different thread than it began on.
struct open_scopes {
  std::mutex mutex;
  std::int64_t next = 0;
  std::unordered_map<std::int64_t, std::unique_ptr<profile::scope>> by_number;

  /// Never destroyed: threads may have scopes open when the process ends.
  static open_scopes& get() {
    static open_scopes& scopes = *new open_scopes;
    return scopes;
  }
};

void enable(bool with_torch_operators, bool with_denormals) {
  TORCH_CHECK(with_torch_operators || !with_denormals,
              "vecdet.torch.profile.enable: torch_operators is False, expected True because "
              "denormals is True");
  auto& recorded = recorded_operators();
  static bool counts_denormals = false;
  if (with_denormals != counts_denormals) recorded.reset();
  counts_denormals = with_denormals;
  if (with_torch_operators && recorded == nullptr)
    recorded = std::make_unique<profile::torch_operators>(with_denormals);
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

std::string denormals() {
  const auto& recorded = recorded_operators();
  return recorded == nullptr ? std::string() : recorded->denormal_report();
}

std::int64_t begin(const std::string& name) {
  profile::problem problem;
  problem.function = profile::intern(name);
  open_scopes& scopes = open_scopes::get();
  std::int64_t number = 0;
  std::unique_ptr<profile::scope>* place = nullptr;
  {
    const std::lock_guard<std::mutex> lock(scopes.mutex);
    number = scopes.next++;
    place = &scopes.by_number[number];
  }
  *place = std::make_unique<profile::scope>(problem);  // last, so that nothing before it is timed
  return number;
}

/// Ends the scope with this number.
void end(std::int64_t number) {
  open_scopes& scopes = open_scopes::get();
  std::unique_ptr<profile::scope>* place = nullptr;
  {
    const std::lock_guard<std::mutex> lock(scopes.mutex);
    const auto found = scopes.by_number.find(number);
    if (found == scopes.by_number.end()) return;
    place = &found->second;
  }
  place->reset();  // first, so that nothing after it is timed
  const std::lock_guard<std::mutex> lock(scopes.mutex);
  scopes.by_number.erase(number);
}

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def("_profile_enable(bool torch_operators, bool denormals=False) -> ()", &enable);
  m.def("_profile_disable() -> ()", [] { profile::disable(); });
  m.def("_profile_reset() -> ()", [] { profile::reset(); });
  m.def("_profile_json() -> str", &json);
  m.def("_profile_write(str path) -> ()", &write);
  m.def("_profile_page_faults() -> str", &page_faults);
  m.def("_profile_denormals() -> str", &denormals);
  m.def("_profile_begin(str name) -> int", &begin);
  m.def("_profile_end(int number) -> ()", &end);
}

}  // namespace
