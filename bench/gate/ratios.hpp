// SPDX-License-Identifier: Apache-2.0
// The committed record of each kernel's speed-up over its plain loop, by machine.
#pragma once

#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace vecdet::gate {

/// Ratios are comparable only if all three are equal.
struct machine_class {
  std::string processor, isa, compiler;
};

inline std::string compiler_name() {
#if defined(__clang__)
  return "Clang " + std::to_string(__clang_major__);
#else
  return "GCC " + std::to_string(__GNUC__);
#endif
}

/// The processor's name, plus its model numbers, because virtual machines shorten the name.
inline std::string processor_name() {
  std::map<std::string, std::string> facts;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::size_t tab = line.find('\t'), colon = line.find(": ");
    if (colon != std::string::npos) facts[line.substr(0, tab)] = line.substr(colon + 2);
  }
  return facts["model name"] + ", family " + facts["cpu family"] + ", model " + facts["model"];
}

/// {"machines": [{"processor": ..., "isa": ..., "compiler": ..., "ratios": {name: ratio}}]}
class recorded_ratios {
 public:
  explicit recorded_ratios(const std::string& path) : path_(path) {
    std::ifstream file(path);
    content_ = file ? nlohmann::ordered_json::parse(file, nullptr, false)
                    : nlohmann::ordered_json::object();
    if (!content_.is_object())
      throw std::runtime_error("\"" + path + "\" is not complete JSON, expected an object");
  }

  /// The ratios of this machine by problem; created if missing and `create` is set.
  nlohmann::ordered_json* of(const machine_class& machine, bool create = false) {
    nlohmann::ordered_json& machines = content_["machines"];
    for (nlohmann::ordered_json& entry : machines) {
      if (entry.at("processor") == machine.processor && entry.at("isa") == machine.isa &&
          entry.at("compiler") == machine.compiler) {
        return &entry["ratios"];
      }
    }
    if (!create) return nullptr;
    machines.push_back({{"processor", machine.processor},
                        {"isa", machine.isa},
                        {"compiler", machine.compiler},
                        {"ratios", nlohmann::ordered_json::object()}});
    return &machines.back()["ratios"];
  }

  /// Replaces the file, or leaves it as it was and throws.
  void write() const {
    const std::string part = path_ + ".part";
    std::ofstream file(part);
    file << content_.dump(2) << '\n';
    file.close();
    if (file && std::rename(part.c_str(), path_.c_str()) == 0) return;
    std::remove(part.c_str());
    throw std::runtime_error("\"" + path_ + "\" cannot be written");
  }

 private:
  std::string path_;
  nlohmann::ordered_json content_;
};

}  // namespace vecdet::gate
