// SPDX-License-Identifier: Apache-2.0
// How a file in problems/ adds a problem to the gate: one line in a list.
//
//   const problems added{
//       {"sigmoid_focal_loss/labels/f32/4096x80", make<head<float>>(4096, 80),
//        VECDET_GATE_CALL(sigmoid_focal_loss(d.x(), d.labels, {}, threading::sequential))},
//   };
//
// `d` is the data, an object that make<>() constructs. It is shared between revisions, so its type
// holds only standard types and vecdet's element types. If the base revision lacks the called
// function, the problem is skipped there, as long as the name is looked up through its arguments,
// as above. A file that does not compile with the base's headers is skipped as well.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vecdet::gate {

/// One call on the data `d`.
#define VECDET_GATE_CALL(...) \
  [](auto& d) -> decltype(static_cast<void>(__VA_ARGS__)) { static_cast<void>(__VA_ARGS__); }

/// An object whose type depends on the revision, such as a kernel's workspace. It belongs to this
/// module and cannot be part of the shared data.
template <class Workspace>
Workspace& own() {
  static Workspace memory;
  return memory;
}

/// How to construct a problem's data.
template <class Data>
struct maker {
  std::function<Data*()> make;
};

template <class Data, class... Arguments>
maker<Data> make(Arguments... arguments) {
  return {[=] { return new Data(arguments...); }};
}

struct problem {
  std::string name;
  std::function<void*()> make_data;
  std::function<void(void*)> free_data;
  std::function<void(void*)> run;             ///< empty: this revision lacks the function
  std::function<void(void*)> run_plain_loop;  ///< empty: none

  template <class Data, class Call>
  problem(const char* problem_name, const maker<Data>& data, const Call& call)
      : name(problem_name),
        make_data(data.make),
        free_data([](void* made) { delete static_cast<Data*>(made); }) {
#if defined(VECDET_GATE_HEAD)
    static_assert(std::is_invocable<const Call&, Data&>::value,
                  "a problem calls what this revision does not have");
#endif
    if constexpr (std::is_invocable<const Call&, Data&>::value) run = on<Data>(call);
  }

  /// With the plain loop that the kernel is compared with.
  template <class Data, class Call, class PlainLoop>
  problem(const char* problem_name, const maker<Data>& data, const Call& call,
          const PlainLoop& plain_loop)
      : problem(problem_name, data, call) {
    run_plain_loop = on<Data>(plain_loop);
  }

 private:
  template <class Data, class Call>
  static std::function<void(void*)> on(const Call& call) {
    return [call](void* data) { call(*static_cast<Data*>(data)); };
  }
};

/// All problems of this module.
inline std::vector<problem>& all_problems() {
  static std::vector<problem> list;
  return list;
}

/// Adds a file's problems.
struct problems {
  problems(std::initializer_list<problem> list) {
    all_problems().insert(all_problems().end(), list);
  }
};

}  // namespace vecdet::gate
