// SPDX-License-Identifier: Apache-2.0
// The simulation of threads: what it times, how it schedules, and the list of problems.
#include "problem_list.hpp"
#include "read.hpp"
#include "thread_simulation.hpp"
#include "write_threads.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace profile = vecdet::profile;
using namespace vecdet;

namespace {

/// Computes until this thread has used so much processor time.
void work_ms(double duration) {
  const double end = profile::detail::thread_nanoseconds() + 1e6 * duration;
  while (profile::detail::thread_nanoseconds() < end) {
  }
}

/// 2 ms alone, a loop of four pieces of 1, 2, 3 and 4 ms, and one of 1 ms per thread. After each
/// piece, the thread sleeps, as it does while other programs have their turn.
void call_with_loops(threading policy) {
  work_ms(2);
  const auto piece_ms = [](double duration) {
    work_ms(duration);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  detail::for_each_chunk(policy, detail::chunking(4, 1), [&](index_t piece, index_t, index_t) {
    piece_ms(static_cast<double>(piece) + 1);
  });
  detail::for_each_chunk(policy, detail::chunking(policy.threads(), 1),
                         [&](index_t, index_t, index_t) { piece_ms(1); });
}

std::vector<profile::listed_problem> listed(const std::string& text) {
  return profile::read_problem_list(text);
}

}  // namespace

TEST_CASE("simulation: the thread that is free first takes the next piece") {
  const auto scheduled = [](const std::vector<double>& pieces, int threads) {
    return profile::scheduled(pieces, threads);
  };
  CHECK(scheduled({}, 3) == 0);
  CHECK(scheduled({3, 1, 1, 1}, 1) == 6);
  CHECK(scheduled({3, 1, 1, 1}, 2) == 3);
  CHECK(scheduled({1, 1, 1, 3}, 2) == 4);
  CHECK(scheduled({1, 1, 1, 3}, 100) == 3);
  profile::timed_call call;
  call.outside = 10;
  call.loops = {{1, 1}, {2, 2, 2}};
  CHECK(call.pieces() == 5);
  CHECK(profile::scheduled(call, 1) == 18);
  CHECK(profile::scheduled(call, 2) == 15);  // threads wait for each other after each loop
}

TEST_CASE("simulation: pieces run alone, divided for the simulated number of threads") {
  profile::replay_options options;
  options.seconds = 0.001;
  options.repetitions = 1;
  for (const int threads : {2, 28}) {
    CAPTURE(threads);
    const profile::timed_call call = profile::time_pieces(call_with_loops, threads, options);
    REQUIRE(call.loops.size() == 2);
    REQUIRE(call.loops[0].size() == 4);
    REQUIRE(call.loops[1].size() == static_cast<std::size_t>(threads));
    for (int i = 0; i < 4; ++i) {
      const double piece = call.loops[0][static_cast<std::size_t>(i)];
      CHECK(piece >= 1e6 * (i + 1));
      CHECK(piece < 1e6 * (i + 1.9));  // without the time asleep
    }
    for (const double piece : call.loops[1]) CHECK(piece >= 1e6);
    CHECK(call.outside >= 2e6);
    CHECK(profile::scheduled(call, threads) >= (threads == 2 ? 2e6 + 6e6 + 1e6 : 2e6 + 4e6 + 1e6));
    CHECK(profile::scheduled(call, threads) < profile::scheduled(call, 1));
  }
  // On one thread, one loop has a single piece, which runs outside of loops.
  const profile::timed_call alone = profile::time_pieces(call_with_loops, 1, options);
  CHECK(alone.loops.size() == 1);
  CHECK(alone.outside >= 3e6);
}

TEST_CASE("simulation: each number is the shortest of many calls, and a change starts again") {
  profile::timed_call shortest, once;
  shortest.outside = 5;
  shortest.loops = {{4, 2}, {7}};
  once.outside = 6;
  once.loops = {{3, 3}, {8}};
  profile::detail::keep_shortest(shortest, once);
  CHECK(shortest.outside == 5);
  CHECK(shortest.loops == std::vector<std::vector<double>>{{3, 2}, {7}});
  once.loops = {{9, 9}};
  profile::detail::keep_shortest(shortest, once);
  CHECK(shortest.outside == 6);
  CHECK(shortest.loops == once.loops);
}

TEST_CASE("simulation: real threads are measured as far as there are processors") {
  profile::replay_options options;
  options.seconds = 0.001;
  options.repetitions = 1;
  const profile::thread_scaling s =
      profile::scale_threads("sleeps", call_with_loops, {2, 28}, 2, options);
  REQUIRE(s.simulated.size() == 2);
  REQUIRE(s.measured.size() == 2);
  CHECK(s.one_thread >= 13e6);
  CHECK(s.measured[0] >= 9e6);
  CHECK(s.measured[1] == 0);
  CHECK(s.measured_speedup(1) == 0);
  std::ostringstream out;
  profile::write_threads(out, {s}, {2, 28});
  CHECK(out.str().find("2 here") != std::string::npos);
  CHECK(out.str().find("28 here") == std::string::npos);
  CHECK(out.str().find("28 simulated") != std::string::npos);
  std::ostringstream page;
  profile::write_threads_markdown(page, {s}, {2, 28});
  CHECK(page.str().rfind("| one thread | 2 here | 2 simulated | 28 simulated | outside | loops | "
                         "pieces | problem |\n|--:|--:|--:|--:|--:|--:|--:|---|\n| ",
                         0) == 0);
  CHECK(page.str().find(" | `sleeps` |\n") != std::string::npos);
  const nlohmann::json j = profile::threads_json({s}, {2, 28});
  CHECK(j["problems"][0]["simulated_ns"].size() == 2);
  CHECK(j["problems"][0]["measured_ns"].size() == 1);
}

TEST_CASE("list of problems: lines name calls of the catalogue, with floors") {
  const auto all =
      listed("# comment\n\nnms//f32/300 28:1.5 128:2\nconv3x3/nhwc/weights/f32/1x16x4x4x16\n");
  REQUIRE(all.size() == 2);
  CHECK(all[0].problem.function == "nms");
  CHECK(all[0].problem.variant.empty());
  CHECK(all[0].call == "nms/");
  CHECK(all[0].problem.shape == std::vector<std::int64_t>{300});
  CHECK(all[0].floors == std::map<int, double>{{28, 1.5}, {128, 2}});
  CHECK(all[1].problem.variant == "nhwc");
  CHECK(all[1].call == "conv3x3/nhwc/weights");
  for (const profile::listed_problem& p : all) CHECK(profile::find_call(p));
  CHECK_FALSE(profile::find_call(listed("nms//f16/300")[0]));
  CHECK_FALSE(profile::find_call(listed("nms/no_such/f32/300")[0]));
  CHECK_FALSE(profile::find_call(listed("nms//f32/300x2")[0]));
  for (const char* line : {"nms", "nms/f32", "nms//f32/", "nms//f32/0", "nms//f32/3x", "/f32/3"})
    CHECK_THROWS_WITH_AS(listed(std::string("#\n") + line),
                         (std::string("line 2: \"") + line +
                          "\" is not a problem, <function>/<variant>/<type>/<shape>")
                             .c_str(),
                         std::runtime_error);
  for (const char* floor : {"28", "28:", ":2", "0:2", "28:0", "28:-1", "28:x", "5000:2"})
    CHECK_THROWS_WITH_AS(
        listed(std::string("nms//f32/3 ") + floor),
        (std::string("line 1: \"") + floor + "\" is not a floor, <threads>:<speed-up>").c_str(),
        std::runtime_error);
}

TEST_CASE("list of problems: recognised by its first line") {
  CHECK(profile::is_problem_list("# comment\n\nnms//f32/300\n"));
  CHECK_FALSE(profile::is_problem_list("{\"schema\": \"vecdet-profile/1\"}"));
  CHECK_FALSE(profile::is_problem_list("onednn_verbose,info,oneDNN v2.6.0 (commit N/A)\n"));
  CHECK_FALSE(profile::is_problem_list(""));
}

TEST_CASE("threads.txt has every function of the catalogue, and only calls that it has") {
  std::set<std::string> missing;
  test::plain_memory at;
  test::for_each_call(
      at, 16, test::source::training,
      [&](const test::family&, const test::call& c) { missing.insert(c.function); });
  CHECK(missing.size() > 50);
  for (const profile::listed_problem& p : listed(profile::file_text(VECDET_THREADS_LIST))) {
    CAPTURE(p.problem.name);
    missing.erase(p.problem.function);
    const bool is_known =
        std::any_of(test::catalogue().begin(), test::catalogue().end(), [&](const test::family& f) {
          test::problem small{f.sized(16), test::source::training, p.problem.variant};
          const std::vector<test::call> calls = f.make(at, small).calls;
          small.shape = {p.problem.shape.begin(), p.problem.shape.end()};
          return f.type == p.problem.type && f.takes(small) &&
                 std::any_of(calls.begin(), calls.end(),
                             [&](const test::call& c) { return c.name == p.call; });
        });
    CHECK(is_known);
  }
  for (const std::string& function : missing)
    CHECK_MESSAGE(false, function << " is not in the list");
}
