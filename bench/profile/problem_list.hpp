// SPDX-License-Identifier: Apache-2.0
// Lists of problems for the simulation of threads: recorded ones, or the lines of a text file.
#pragma once

#include "replay.hpp"
#include <vecdet/dispatch.hpp>
#include <vecdet/profile.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// A problem and the least speed-up that it must reach, by number of threads.
struct listed_problem {
  entry problem;     ///< count 0: not recorded
  std::string call;  ///< the call's name in the catalogue; empty: as the problem says
  std::map<int, double> floors;
};

/// The call of a listed problem; empty for a call, type or shape that the catalogue does not have.
inline catalogue_call find_call(const listed_problem& p) {
  if (p.call.empty()) return find_call(p.problem);
  return find_call(p.problem, [&](const test::call& c) { return c.name == p.call; });
}

namespace detail {

template <class Number>
bool read_number(const std::string& text, Number& to) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), to);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

/// Reads a problem, <function>/<variant>[/<options>]/<type>/<shape>.
inline bool read_problem(const std::string& text, listed_problem& to) {
  const std::size_t shape = text.rfind('/');
  if (shape == text.npos || shape == 0) return false;
  const std::size_t type = text.rfind('/', shape - 1);
  if (type == text.npos) return false;
  const std::size_t variant = text.find('/');
  if (variant == type) return false;
  entry& e = to.problem;
  e.name = text;
  e.function = text.substr(0, variant);
  e.variant = text.substr(variant + 1, text.find('/', variant + 1) - variant - 1);
  e.type = text.substr(type + 1, shape - type - 1);
  e.implementation = isa_name(active_isa());
  e.threads = 1;
  to.call = text.substr(0, type);
  if (text.back() == 'x') return false;
  std::istringstream dimensions(text.substr(shape + 1));
  for (std::string dimension; std::getline(dimensions, dimension, 'x');) {
    std::int64_t size = 0;
    if (!read_number(dimension, size) || size < 1) return false;
    e.shape.push_back(size);
  }
  return !e.shape.empty() && !e.function.empty();
}

}  // namespace detail

/// Whether the text is a list of problems, judging by its first line that is not a comment.
inline bool is_problem_list(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    listed_problem first;
    return detail::read_problem(line.substr(0, line.find(' ')), first);
  }
  return false;
}

/// Reads a list: a problem per line, with the floors of its speed-up, such as 28:24. Lines that
/// start with # are comments.
inline std::vector<listed_problem> read_problem_list(const std::string& text) {
  std::vector<listed_problem> all;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const auto refuse = [&](const std::string& word, const char* expected) {
      throw std::runtime_error("line " + std::to_string(number) + ": \"" + detail::one_line(word) +
                               "\" is not " + expected);
    };
    std::istringstream words(line);
    std::string word;
    words >> word;
    listed_problem next;
    if (!detail::read_problem(word, next))
      refuse(word, "a problem, <function>/<variant>/<type>/<shape>");
    while (words >> word) {
      const std::size_t colon = word.find(':');
      int threads = 0;
      double floor = 0;
      if (colon == word.npos || !detail::read_number(word.substr(0, colon), threads) ||
          !detail::read_number(word.substr(colon + 1), floor) || threads < 1 ||
          threads > most_threads_replayed || !(floor > 0))
        refuse(word, "a floor, <threads>:<speed-up>");
      next.floors[threads] = floor;
    }
    all.push_back(std::move(next));
  }
  return all;
}

/// The recorded problems of vecdet that can be replayed here.
inline std::vector<listed_problem> recorded_problems(const report& recorded) {
  std::vector<listed_problem> all;
  for (const std::size_t i : recorded.by_self_time()) {
    const entry& e = recorded.entries[i];
    if (why_not_replayed(e).empty()) all.push_back({e, "", {}});
  }
  return all;
}

}  // namespace vecdet::profile
