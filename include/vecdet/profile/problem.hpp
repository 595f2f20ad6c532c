// SPDX-License-Identifier: Apache-2.0
// What a profiled scope runs: the problem, by which the profiler aggregates.
#pragma once

#include <vecdet/detail/target.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// The variant of scopes in which a process waits for others, the ranks of its job: reports set
/// their time against all else. Known by its text.
inline constexpr char waiting_variant[] = "waiting";

/// One problem. The strings are literals or come from intern(): scopes compare their addresses. The
/// profiler has its own copies, so that a library with its literals may be unloaded, if it includes
/// the profiler itself.
/// `function` is required; a null string, an empty shape or threads = 0 mean "does not apply" and
/// are left out of the text.
struct problem {
  const char* function = nullptr;
  const char* variant = nullptr;
  const char* type = nullptr;
  /// Up to five dimensions, ended by the first 0 or less. A dimension that the data decide, and
  /// that is another one at each call, goes through rounded_count().
  std::array<std::int64_t, 5> shape{};
  const char* implementation = nullptr;
  int threads = 0;
  /// Memory traffic and floating-point operations of this one call; 0 when unknown. They may vary
  /// from call to call, and do not tell problems apart.
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
};

/// A count rounded up to one digit and zeros: 7, 20 for 13, 1000, 2000 for 1001. Functions whose
/// number of boxes the data decide record this: exact counts would make a new problem of nearly
/// every call. Bytes stay exact.
inline std::int64_t rounded_count(std::int64_t count) noexcept {
  std::int64_t unit = 1;
  for (const std::int64_t most = count / 10; unit <= most;) unit *= 10;
  return (count + unit - 1) / unit * unit;
}

namespace detail {
inline std::string text_or_empty(const char* s) { return s != nullptr ? s : ""; }
}  // namespace detail

/// "120087x91" for {120087, 91, 0, 0}; empty for an empty shape.
template <class Dimensions>
std::string shape_text(const Dimensions& shape) {
  std::string text;
  for (const std::int64_t dimension : shape) {
    if (dimension <= 0) break;
    if (!text.empty()) text += 'x';
    text += std::to_string(dimension);
  }
  return text;
}

/// `<function>/<variant>/<type>/<shape>/<implementation>/threads:<n>`, without the parts that do
/// not apply: a scope that has a name only is that name.
inline std::string problem_text(const std::string& function, const std::string& variant,
                                const std::string& type, const std::string& shape,
                                const std::string& implementation, int threads) {
  std::string text = function;
  for (const std::string* part : {&variant, &type, &shape, &implementation}) {
    if (!part->empty()) text += '/' + *part;
  }
  if (threads > 0) text += "/threads:" + std::to_string(threads);
  return text;
}

inline std::string problem_text(const problem& p) {
  using detail::text_or_empty;
  return problem_text(text_or_empty(p.function), text_or_empty(p.variant), text_or_empty(p.type),
                      shape_text(p.shape), text_or_empty(p.implementation), p.threads);
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
