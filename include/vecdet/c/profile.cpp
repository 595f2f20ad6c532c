// SPDX-License-Identifier: Apache-2.0
// The profiler, which records every vecdet function and the caller's own scopes. The environment
// variable VECDET_PROFILE=report.html records from the start and writes a report at the end.
#include <vecdet/c/support.hpp>
#include <vecdet/profile.hpp>

#include <cstring>
#include <sstream>
#include <string>

using namespace vecdet_c;

/// Starts recording.
VECDET_C vecdet_status vecdet_profile_enable(void) {
  return guarded([] { profile::enable(); });
}

/// Stops recording and keeps the records.
VECDET_C void vecdet_profile_disable(void) { profile::disable(); }

/// Discards all records.
VECDET_C vecdet_status vecdet_profile_reset(void) {
  return guarded([] { profile::reset(); });
}

/// Writes the report in the format that the name's ending selects: .html, .json, .csv, .txt,
/// .folded or trace.json. The first call measures the machine's bounds, which takes about a second.
VECDET_C vecdet_status vecdet_profile_write(const char* path) {
  return guarded([&] {
    check_pointer(path, "profile_write", "path");
    profile::write_file(path, profile::full_snapshot());
  });
}

/// A new text with the records in the schema vecdet-profile/1, or null if there is no memory. The
/// caller frees it with vecdet_profile_free_json().
VECDET_C char* vecdet_profile_json(void) {
  char* copy = nullptr;
  guarded([&] {
    std::ostringstream text;
    write_json(text, profile::snapshot());
    const std::string json = text.str();
    copy = new char[json.size() + 1];
    std::memcpy(copy, json.c_str(), json.size() + 1);
  });
  return copy;
}

/// Frees the text of vecdet_profile_json(); null is allowed.
VECDET_C void vecdet_profile_free_json(char* text) { delete[] text; }

/// An open scope of the caller's.
typedef struct vecdet_profile_scope vecdet_profile_scope;

struct vecdet_profile_scope {
  profile::scope timing;
};

/// Opens a scope with this name. Scopes nest, and end on the thread that they began on.
VECDET_C vecdet_status vecdet_profile_begin(const char* name, vecdet_profile_scope** scope) {
  return guarded([&] {
    check_pointer(name, "profile_begin", "name");
    check_pointer(scope, "profile_begin", "scope");
    profile::problem problem;
    problem.function = profile::intern(name);
    *scope = new vecdet_profile_scope{profile::scope(problem)};
  });
}

/// Closes a scope; null is allowed.
VECDET_C void vecdet_profile_end(vecdet_profile_scope* scope) { delete scope; }
