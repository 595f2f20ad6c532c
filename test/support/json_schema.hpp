// SPDX-License-Identifier: Apache-2.0
// The part of JSON Schema that the project's schemas use. Any other keyword is an error, so that no
// rule is ignored silently.
#pragma once

#include <set>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace vecdet::test {
namespace detail {

inline bool has_type(const nlohmann::json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  throw std::invalid_argument("unknown type " + type);
}

inline std::string violation(const nlohmann::json& root, const nlohmann::json& schema,
                             const nlohmann::json& value, const std::string& where) {
  static const std::set<std::string> known{
      "$schema",  "title",      "description", "$defs", "$ref", "type",    "additionalProperties",
      "required", "properties", "items",       "const", "enum", "minimum", "maximum",
      "minItems", "maxItems"};
  for (const auto& rule : schema.items()) {
    if (known.count(rule.key()) == 0) throw std::invalid_argument("unknown rule " + rule.key());
  }
  if (schema.contains("$ref")) {
    const auto target = schema["$ref"].get<std::string>().substr(1);
    const std::string found =
        violation(root, root.at(nlohmann::json::json_pointer(target)), value, where);
    if (!found.empty()) return found;
  }
  if (schema.contains("type") && !has_type(value, schema["type"])) {
    return where + " is " + value.dump() + ", expected type " + schema["type"].dump();
  }
  if (schema.contains("const") && value != schema["const"]) return where + " is not the constant";
  if (schema.contains("enum")) {
    bool one_of = false;
    for (const auto& allowed : schema["enum"]) one_of = one_of || allowed == value;
    if (!one_of)
      return where + " is " + value.dump() + ", expected one of " + schema["enum"].dump();
  }
  if (schema.contains("minimum") && value.get<double>() < schema["minimum"].get<double>()) {
    return where + " is " + value.dump() + ", below the minimum";
  }
  if (schema.contains("maximum") && value.get<double>() > schema["maximum"].get<double>()) {
    return where + " is " + value.dump() + ", above the maximum";
  }
  if (schema.contains("minItems") && value.size() < schema["minItems"].get<std::size_t>()) {
    return where + " has too few items";
  }
  if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<std::size_t>()) {
    return where + " has too many items";
  }
  for (const auto& key : schema.value("required", nlohmann::json::array())) {
    if (!value.contains(key.get<std::string>())) return where + " lacks " + key.dump();
  }
  const nlohmann::json properties = schema.value("properties", nlohmann::json::object());
  if (value.is_object()) {
    for (const auto& member : value.items()) {
      if (properties.contains(member.key())) {
        const std::string found =
            violation(root, properties[member.key()], member.value(), where + "." + member.key());
        if (!found.empty()) return found;
      } else if (schema.value("additionalProperties", true) == false) {
        return where + " has " + member.key() + ", which the schema does not know";
      }
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string found =
          violation(root, schema["items"], value[i], where + "[" + std::to_string(i) + "]");
      if (!found.empty()) return found;
    }
  }
  return {};
}

}  // namespace detail

/// The first violation of the schema in the value; empty if there is none.
inline std::string schema_violation(const nlohmann::json& schema, const nlohmann::json& value) {
  return detail::violation(schema, schema, value, "the document");
}

}  // namespace vecdet::test
