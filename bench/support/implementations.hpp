// SPDX-License-Identifier: Apache-2.0
// Registers one problem under the names of all its implementations:
// <function>/<variant>/<type>/<shape>/<implementation>/threads:<n>.
#pragma once

#include "../plain/loops.hpp"
#include "count_work.hpp"
#include "time_calls.hpp"
#include <vecdet/dispatch.hpp>
#include <vecdet/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <tbb/task_arena.h>

namespace vecdet::bench {

/// The bytes that a call of the problem must read and write, and the number of elements that time
/// is divided by.
struct work {
  double elements;
  double bytes;
};

/// A benchmark under its full name.
struct named_benchmark {
  std::string name;
  std::function<void(benchmark::State&)> run;
  bool sets_time = false;  ///< whether it calls SetIterationTime
};

/// All benchmarks, in the order of the files; run.hpp passes them to Google Benchmark.
inline std::vector<named_benchmark>& benchmarks() {
  static std::vector<named_benchmark> all;
  return all;
}

/// Regular expressions for the problems of docs/figures.md.
inline std::vector<std::string>& figure_problems() {
  static std::vector<std::string> expressions;
  return expressions;
}

/// Adds the problems whose whole name matches `expression` to docs/figures.md.
inline void show_in_figures(const std::string& expression) {
  figure_problems().push_back(expression);
}

/// Compares a plain loop with vecdet.
struct plain_check {
  std::function<void()> run;  ///< throws if they differ
  bool takes_seconds;         ///< more than 2e9 steps: left out of --check
};

/// The check of each plain loop under "<problem>/<implementation>". A check precedes all timing:
/// what it frees, some hundred MB, would otherwise slow down the loop that is timed next.
inline std::map<std::string, plain_check>& plain_checks() {
  static std::map<std::string, plain_check> checks;
  return checks;
}

/// `problem` is "<function>/<variant>/<type>/<shape>". `run(state)` contains the timed loop.
template <class Run>
void register_implementation(const std::string& problem, const std::string& implementation,
                             int threads, work amount, const Run& run) {
  const std::string name = problem + "/" + implementation + "/threads:" + std::to_string(threads);
  benchmarks().push_back({name, [=](benchmark::State& state) {
                            run(state);
                            count_work(state, amount.elements, amount.bytes, threads);
                          }});
}

/// The result of make(), created once and kept while in use. Each `make` has a separate result,
/// distinguished by its type.
template <class Make>
auto shared_data(const Make& make) {
  static_assert(std::is_empty<Make>::value, "a make that captures something makes different data");
  using data = std::decay_t<decltype(make())>;
  static std::weak_ptr<data> known;
  std::shared_ptr<data> held = known.lock();
  if (held == nullptr) known = held = std::make_shared<data>(make());
  return held;
}

/// Data(arguments...), kept until data of this type with another name are requested: only those of
/// one problem are in memory.
template <class Data, class... Arguments>
std::shared_ptr<Data> current_data(const std::string& name, const Arguments&... arguments) {
  static std::string current_name;
  static std::shared_ptr<Data> current;
  if (current != nullptr && current_name == name) return current;
  current.reset();
  current = std::make_shared<Data>(arguments...);
  current_name = name;
  return current;
}

/// The sides of a shape in the name of a problem, such as "4x128x80x80".
inline std::string joined(std::initializer_list<index_t> sides) {
  std::string text;
  for (const index_t side : sides) text += (text.empty() ? "" : "x") + std::to_string(side);
  return text;
}

/// The result of `call`, 0 if it returns nothing.
template <class Call, class... Arguments>
double returned(const Call& call, Arguments&&... arguments) {
  if constexpr (std::is_void<std::invoke_result_t<Call, Arguments...>>::value) {
    call(arguments...);
    return 0;
  } else {
    return static_cast<double>(call(arguments...));
  }
}

/// Registers vecdet on every available instruction set, on one thread and on all. `run(state,
/// policy)` contains the timed loop.
template <class Run>
void register_instruction_sets(const std::string& problem, work amount, const Run& run) {
  const int all_threads = tbb::this_task_arena::max_concurrency();
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    for (const int threads : {1, all_threads}) {
      register_implementation(
          problem, isa_name(set), threads, amount, [=](benchmark::State& state) {
            set_isa(set);
            run(state, threads == 1 ? threading::sequential : threading::parallel);
          });
      if (all_threads == 1) break;
    }
  }
}

/// The same if only `call(data, policy)` is timed, after `prepare()` has created the data.
template <class Prepare, class Call>
void register_vecdet(const std::string& problem, work amount, const Prepare& prepare,
                     const Call& call) {
  register_instruction_sets(problem, amount, [=](benchmark::State& state, threading policy) {
    const auto data = prepare();
    time_calls(state, [&] { benchmark::DoNotOptimize(returned(call, *data, policy)); });
  });
}

/// Throws unless `plain(data)` returns and writes the same as `call(data, policy)`, up to the
/// rounding of -ffast-math: timing a wrong loop would be meaningless. One number in 10,000 may
/// differ, because gradients jump where sides nearly meet. `result` is the member that is written,
/// or a function of the data that returns it.
template <class Data, class Call, class Plain, class Result>
void check_plain(const std::string& problem, Data& data, const Call& call, const Plain& plain,
                 const Result& result) {
  const auto results = [&](const auto& run) {
    auto&& out = std::invoke(result, data);
    std::fill(out.begin(), out.end(), 1);
    const double sum = run();
    auto&& written = std::invoke(result, data);
    return std::make_pair(sum, std::vector<double>(written.begin(), written.end()));
  };
  const auto expected = results([&] { return returned(call, data, threading::sequential); });
  const auto actual = results([&] { return returned(plain, data); });
  const std::size_t size = expected.second.size();
  double squares = 0;
  for (const double number : expected.second) squares += number * number;
  const double typical = std::sqrt(squares / static_cast<double>(size));
  std::size_t differing = 0;
  for (std::size_t i = 0; i < std::min(size, actual.second.size()); ++i) {
    const double error = std::abs(actual.second[i] - expected.second[i]);
    differing += !(error <= 1e-4 * (typical + std::abs(expected.second[i])));
  }
  if (actual.second.size() == size && differing <= size / 10000 &&
      std::abs(actual.first - expected.first) <= 1e-6 * std::abs(expected.first)) {
    return;
  }
  throw std::logic_error(
      "the plain loop of " + problem + " returns " + std::to_string(actual.first) + ", expected " +
      std::to_string(expected.first) + ", and writes " + std::to_string(differing) + " of " +
      std::to_string(size) + " numbers otherwise");
}

/// "plain_avx512": the instruction set of the loops that VECDET_PLAIN calls now.
inline std::string plain_name() {
  return std::string("plain_") + (plain_for_avx2 ? "avx2" : VECDET_PLAIN_NATIVE);
}

/// Registers a plain loop, on one thread, for each instruction set that it is compiled for.
/// `check(data)` throws if the loop is wrong. `run(state, data)` contains the timed loop.
/// `prepare()` creates the data.
template <class Prepare, class Check, class Run>
void register_plain(const std::string& problem, work amount, const Prepare& prepare,
                    const Check& check, const Run& run) {
  std::vector<bool> sets{false};
#if defined(VECDET_PLAIN_AVX2_TOO)
  sets.push_back(true);
#endif
  for (const bool for_avx2 : sets) {
    plain_for_avx2 = for_avx2;
    plain_checks()[problem + "/" + plain_name()] = {[=] {
                                                      plain_for_avx2 = for_avx2;
                                                      check(*prepare());
                                                    },
                                                    amount.elements > 2e9};
    register_implementation(problem, plain_name(), 1, amount, [=](benchmark::State& state) {
      plain_for_avx2 = for_avx2;
      run(state, *prepare());
    });
  }
}

/// The same with a plain loop, `plain(data)`, which must write the same `result`.
template <class Prepare, class Call, class Plain, class Result>
void register_with_plain(const std::string& problem, work amount, const Prepare& prepare,
                         const Call& call, const Plain& plain, const Result& result) {
  register_plain(
      problem, amount, prepare,
      [=](auto& data) { check_plain(problem, data, call, plain, result); },
      [=](benchmark::State& state, auto& data) {
        time_calls(state, [&] { benchmark::DoNotOptimize(returned(plain, data)); });
      });
  register_vecdet(problem, amount, prepare, call);
}

}  // namespace vecdet::bench
