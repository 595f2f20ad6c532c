// SPDX-License-Identifier: Apache-2.0
// Files of the profiler's report tests, and the schema of the JSON report.
#pragma once

#include "json_schema.hpp"
#include "paths.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace vecdet::test {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A folder that is removed at the end.
struct temporary_folder {
  std::string path = (std::filesystem::temp_directory_path() / "profile-test-XXXXXX").string();
  temporary_folder() { REQUIRE(mkdtemp(&path[0]) != nullptr); }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

inline nlohmann::json schema() {
  return nlohmann::json::parse(read_file(source_path("bench/profile/profile.schema.json")));
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace vecdet::test
