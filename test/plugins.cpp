// SPDX-License-Identifier: Apache-2.0
// plugins <plugin>...: loads libraries that record, one after the other, and unloads each, so that
// the next one is likely to get the same address. Afterwards, all must be reported under their own
// names.
#include <vecdet/profile.hpp>

#include <cstdint>
#include <iostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace profile = vecdet::profile;

namespace {

constexpr int rounds = 20;

/// The address of the plugin's name while it was loaded; null when it cannot be unloaded.
const void* run_and_unload(const char* file) {
  void* const plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) throw std::runtime_error(dlerror());
  const auto record = reinterpret_cast<const char* (*)()>(dlsym(plugin, "record"));
  const void* const name = record();
  dlclose(plugin);
  return dlopen(file, RTLD_NOW | RTLD_NOLOAD) == nullptr ? name : nullptr;
}

std::uint64_t count(const profile::report& r, const std::string& name) {
  for (const profile::entry& e : r.entries) {
    if (e.name == name) return e.count;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  profile::enable();
  VECDET_PROFILE_SCOPE("program");
  // Shared data belong to the program: GCC does not unload a library that contains any.
  profile::numbered_name("program", 1);
  std::set<const void*> addresses;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 1; i < argc; ++i) addresses.insert(run_and_unload(argv[i]));
  }
  const profile::report r = profile::snapshot();
  int wrong = 0;
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) std::cerr << "wrong: " << what << '\n';
    wrong += holds ? 0 : 1;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string plugin(1, static_cast<char>('a' + i - 1));
    const std::string inside = "inside/from " + plugin + " 0.5/type " + plugin + "/4";
    for (const std::string& name : {"plugin " + plugin, inside})
      expect(count(r, name) == rounds, name + ": " + std::to_string(count(r, name)) + " calls");
  }
  // Discarded entries are found again instead of being created anew.
  const std::size_t entries = 2 * static_cast<std::size_t>(argc - 1);
  expect(r.paths.size() == entries, std::to_string(r.paths.size()) + " paths");
  const std::size_t nodes = profile::detail::this_thread.log->paths.size();
  expect(nodes <= entries + 3, std::to_string(nodes) + " nodes");
  expect(addresses.count(nullptr) == 0, "a plugin was not unloaded");
  if (addresses.size() == entries / 2) {
    std::cout << "no plugin was loaded at the address of another\n";
    return wrong == 0 ? 77 : 1;
  }
  std::ostringstream table;
  write_table(table, r);
  std::cout << table.str();
  return wrong == 0 ? 0 : 1;
}
