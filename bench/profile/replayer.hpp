// SPDX-License-Identifier: Apache-2.0
// What runs a recorded problem alone, be it vecdet's own (replay.hpp), a primitive of oneDNN's log,
// or a convolution of PyTorch's.
#pragma once

#include "aten_convolutions.hpp"
#include "import_onednn.hpp"
#include "primitives.hpp"
#include "replay.hpp"
#include "vecdet_convolutions.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tbb/task_arena.h>

namespace vecdet::profile {

/// Another way to run recorded problems. Empty strings and 0 mean as recorded.
struct alternative {
  std::string isa;           ///< of vecdet's problems
  int threads = 0;           ///< of all
  std::string layout, type;  ///< of the tensors around convolutions, as in surroundings
  bool by_vecdet = false;    ///< whether vecdet computes the convolutions for which it is faster

  bool within() const { return !layout.empty(); }
  std::string name() const {
    if (within()) return layout + " " + type + (by_vecdet ? " conv3x3" : "");
    return isa.empty() ? "threads:" + std::to_string(threads) : isa;
  }
};

class replayer {
 public:
  /// `problems` are those in oneDNN's logs.
  explicit replayer(onednn_problems problems = {}) : problems_(std::move(problems)) {}

  /// Why a problem cannot be replayed here; empty when it can.
  std::string why_not(const entry& e) const {
    if (!is_primitive(e)) {
      if (e.source == "torch") return "an operator of PyTorch other than a convolution, or a scope";
      return e.source == "onednn" ? "a profile lacks details of oneDNN's log: pass the log"
                                  : why_not_replayed(e);
    }
    return why_no_primitives();
  }

  bool is_primitive(const entry& e) const {
    return e.source == "onednn" ? problems_.count(e.name) != 0 : is_aten_convolution(e);
  }

  bool is_convolution(const entry& e) const {
    return is_primitive(e) &&
           (is_aten_convolution(e) || e.function == "convolution" || e.function == "deconvolution");
  }

  /// Whether the alternative makes a difference to such a problem.
  bool applies(const entry& e, const alternative& a) const {
    if (a.within()) return is_convolution(e);
    if (is_primitive(e)) return a.isa.empty();
    return why_not_replayed(moved_to(e, a.isa, a.threads)).empty();
  }

  /// Runs the problem; throws std::exception with the reason where it cannot.
  replayed run(const entry& e, const alternative& a, const replay_options& options) const {
    if (!is_primitive(e)) return replay(moved_to(e, a.isa, a.threads), options);
    const int threads = a.threads > 0 ? a.threads : e.threads;
    if (threads > most_threads_replayed)
      throw std::runtime_error("on more than " + std::to_string(most_threads_replayed) +
                               " threads");
    tbb::task_arena arena(set_primitive_threads(threads));  // vecdet's; oneDNN has its own
    std::vector<runnable_primitive> runs;
    const auto add_convolution = [&](const onednn_problem& problem, const surroundings& around) {
      runnable_primitive made;
      if (a.by_vecdet) made = make_vecdet_convolution(problem, around.layout);
      runs.push_back(made.run ? made : make_convolution_within(problem, around));
    };
    if (e.source == "onednn") {
      const onednn_problem& problem = problems_.at(e.name);
      if (a.within())
        add_convolution(problem, {a.layout, a.type});
      else
        runs.push_back(make_primitive(problem));
    } else {
      const aten_convolution found = read_aten_convolution(e);
      const surroundings around{a.within() ? a.layout : found.layout, a.within() ? a.type : e.type};
      for (const onednn_problem& problem : found.problems) add_convolution(problem, around);
    }
    return arena.execute([&] {
      return measure_call(
          e.name,
          [&] {
            for (const runnable_primitive& one : runs) one.run();
          },
          [&] {
            for (const runnable_primitive& one : runs) one.drop_output_pages();
          },
          options);
    });
  }

 private:
  onednn_problems problems_;
};

}  // namespace vecdet::profile
