// SPDX-License-Identifier: Apache-2.0
// vecdet-profile: reads, merges, compares and replays profiles.
// Exit codes: 0 done; 1 compare --fail-above found a slowdown, or replay --simulate a speed-up
// below its floor; 2 bad usage or unreadable input.
#include "compare.hpp"
#include "inputs.hpp"
#include "problem_list.hpp"
#include "savings.hpp"
#include "write_projection.hpp"
#include "write_threads.hpp"
#include <vecdet/keep_memory.hpp>
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace {

using namespace vecdet::profile;

constexpr int exit_slower = 1;
constexpr int exit_bad_input = 2;

constexpr const char* inputs_help =
    "A profile (VECDET_PROFILE=report.json), a trace of torch.profiler (export_chrome_trace(), "
    "also .gz), google-benchmark's JSON, or a oneDNN verbose log; recognised by the content. With "
    "one trace and a log with time stamps, the log's executions are shown inside of the trace's "
    "operators";

/// Writes to the file in the format that its name selects; without a file, writes the table to
/// standard output.
void deliver(const report& r, const std::string& output, std::size_t rows) {
  if (output.empty()) {
    write_table(std::cout, r, rows);
    return;
  }
  write_file(output, r);
  std::cerr << "wrote " << output << '\n';
}

int default_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

struct options {
  std::vector<std::string> inputs;
  std::string before, after, output, step;
  std::size_t rows = 50;
  double fail_above = -1;
  bool measure = false, across = false, conv3x3 = false, shows_savings = false, simulate = false;
  int own_threads = default_threads();
  replay_options replay;
  std::vector<std::string> isas, layouts, types;
  std::vector<int> threads;
};

void add_output(CLI::App& command, options& o) {
  command.add_option("-o,--output", o.output,
                     "File to write, in the format of its name: .html, .json, .csv, .folded or "
                     ".txt; without it the table goes to standard output");
  command.add_option("-n,--rows", o.rows, "Rows of the table")->capture_default_str();
}

int run_report(const options& o) {
  inputs in = read_inputs(o.inputs);
  if (o.measure) in.recorded.machine = measure_machine();
  deliver(in.recorded, o.output, o.rows);
  if (in.parts.empty() || !o.shows_savings) return 0;
  const savings all = measure_savings(in.recorded, step_scope(in.recorded, o.step),
                                      std::move(in.parts), o.own_threads, std::cerr);
  write_savings(std::cout, all, o.rows);
  return 0;
}

int run_compare(const options& o) {
  if (!o.output.empty() && format_of(o.output) != format::html)
    throw std::invalid_argument("compare writes .html only, not \"" + o.output + "\"");
  report before = read_inputs({o.before}).recorded, after = read_inputs({o.after}).recorded;
  if (o.across) {
    before = without_implementation(before);
    after = without_implementation(after);
  }
  const comparison c = compare_reports(before, after, step_scope(before, o.step));
  write_comparison(std::cout, c, o.rows);
  if (!o.output.empty()) {
    write_file(o.output,
               [&](std::ostream& out) { write_html(out, after, &before, o.after, o.before); });
    std::cerr << "wrote " << o.output << '\n';
  }
  if (o.fail_above < 0) return 0;
  int slower = 0;
  for (const difference& d : c.problems) {
    if (d.result != verdict::slower || d.ratio <= 1 + o.fail_above / 100) continue;
    std::cerr << "slower by " << detail::fixed(100 * (d.ratio - 1), 1)
              << " %: " << detail::one_line(d.name) << '\n';
    ++slower;
  }
  return slower != 0 ? exit_slower : 0;
}

std::vector<alternative> alternatives_of(const options& o) {
  std::vector<alternative> all;
  for (const std::string& isa : o.isas) all.push_back({isa, 0, "", ""});
  for (const int threads : o.threads) all.push_back({"", threads, "", ""});
  // If only one of the two is given, the other defaults to the common case.
  if (o.layouts.empty() && o.types.empty() && !o.conv3x3) return all;
  using list = std::vector<std::string>;
  const list layouts = o.layouts.empty() ? list{"nchw"} : o.layouts;
  for (const std::string& type : o.types.empty() ? list{"f32"} : o.types) {
    for (const std::string& layout : layouts) all.push_back({"", 0, layout, type});
  }
  for (const std::string& layout : layouts) {
    if (o.conv3x3 && layout != "blocked") all.push_back({"", 0, layout, "f32", true});
  }
  return all;
}

/// The problems of the files: lists, or recorded ones.
std::vector<listed_problem> problems_of(const std::vector<std::string>& files) {
  std::vector<listed_problem> all;
  std::vector<std::string> recorded;
  for (const std::string& file : files) {
    const std::string text = file_text(file);
    if (!is_problem_list(text)) {
      recorded.push_back(file);
      continue;
    }
    try {
      for (listed_problem& p : read_problem_list(text)) all.push_back(std::move(p));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("\"" + file + "\", " + error.what());
    }
  }
  if (!recorded.empty())
    for (listed_problem& p : recorded_problems(read_inputs(recorded).recorded))
      all.push_back(std::move(p));
  return all;
}

int run_simulation(const options& o) {
  if (!o.output.empty() && format_of_simulation(o.output) == simulation_format::unknown)
    throw std::invalid_argument("replay --simulate writes .svg, .json or .md, not \"" + o.output +
                                "\"");
  disable();
  vecdet::keep_memory();
  const std::vector<listed_problem> problems = problems_of(o.inputs);
  std::vector<thread_scaling> results;
  int missed = 0;
  for (const listed_problem& p : problems) {
    std::cerr << "replaying " << results.size() + 1 << " of " << problems.size() << ": "
              << detail::one_line(p.problem.name) << std::endl;
    vecdet::set_isa(isa_of_name(p.problem.implementation));
    const catalogue_call call = find_call(p);
    if (!call)
      throw std::runtime_error("\"" + detail::one_line(p.problem.name) +
                               "\": the catalogue has no such call, type or shape");
    results.push_back(scale_threads(p.problem.name, call, o.threads, default_threads(), o.replay));
    results.back().calls = static_cast<double>(p.problem.count);
    for (std::size_t n = 0; n < o.threads.size(); ++n) {
      const auto floor = p.floors.find(o.threads[n]);
      const double reached = results.back().simulated_speedup(n);
      if (floor == p.floors.end() || reached >= floor->second) continue;
      std::cerr << "below its floor of " << detail::fixed(floor->second, 1) << " on "
                << floor->first << " threads: " << detail::fixed(reached, 1) << ", "
                << detail::one_line(p.problem.name) << '\n';
      ++missed;
    }
  }
  write_threads(std::cout, results, o.threads);
  if (!o.output.empty()) {
    write_simulation(o.output, results, o.threads);
    std::cerr << "wrote " << o.output << '\n';
  }
  return missed != 0 ? exit_slower : 0;
}

int run_replay(const options& o) {
  disable();              // a replay is not a scope to record
  vecdet::keep_memory();  // what an earlier problem frees does not slow down the next one
  inputs in = read_inputs(o.inputs);
  if (!in.problems.empty() && !why_no_primitives().empty())
    throw std::runtime_error(why_no_primitives());
  const replayer with(std::move(in.problems));
  const projection p = project(in.recorded, step_scope(in.recorded, o.step), alternatives_of(o),
                               o.replay, std::cerr, with);
  write_projection(std::cout, p, o.rows);
  if (!o.output.empty()) {
    write_file(o.output, p.projected);
    std::cerr << "wrote " << o.output << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Reads, merges, compares and replays profiles of programs that use vecdet, and traces of any "
      "PyTorch program.\n"
      "Record a profile with VECDET_PROFILE=report.json <program>, or a trace with torch.profiler. "
      "Then:\n"
      "  vecdet-profile report report.json -o report.html\n"
      "  vecdet-profile report trace.json.gz\n"
      "  vecdet-profile replay report.json --step step\n"
      "  vecdet-profile compare before.json after.json --step step"};
  app.name("vecdet-profile");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 compare --fail-above found a slowdown or replay "
      "--simulate a speed-up below its floor, 2 bad usage or input.");
  options o;

  CLI::App* report_command =
      app.add_subcommand("report", "Shows one profile, or several merged, as a table or a file");
  report_command->add_option("inputs", o.inputs, inputs_help)->required();
  report_command->add_flag(
      "--measure", o.measure,
      "Measure this machine's bandwidth and peak, for profiles that lack them");
  report_command->add_option("--step", o.step,
                             "For savings: scope that represents one step; default: "
                             "torch.profiler's steps, or the whole run");
  report_command
      ->add_option(
          "--threads", o.own_threads,
          "For savings: threads that vecdet's calls may use; default: all of this machine. A trace "
          "does not tell how many its operators used")
      ->check(CLI::Range(1, most_threads_replayed));
  add_output(*report_command, o);

  CLI::App* merge_command = app.add_subcommand(
      "merge", "Merges the profiles of a job's ranks: entries with the same name become one");
  merge_command->add_option("inputs", o.inputs, inputs_help)->required();
  add_output(*merge_command, o);

  CLI::App* import_command = app.add_subcommand(
      "import", "Reads oneDNN verbose logs or google-benchmark JSON into a profile");
  import_command->add_option("inputs", o.inputs, inputs_help)->required();
  import_command->add_flag("--measure", o.measure,
                           "Measure this machine's bandwidth and peak for the roofline");
  add_output(*import_command, o);

  CLI::App* compare_command = app.add_subcommand(
      "compare", "Shows the changes between two profiles, with confidence, most costly first");
  compare_command->add_option("before", o.before, inputs_help)->required();
  compare_command->add_option("after", o.after, inputs_help)->required();
  compare_command->add_option(
      "--step", o.step,
      "Scope that represents one step: times are divided by its calls; default: "
      "torch.profiler's steps, or the whole run");
  compare_command->add_flag("--across", o.across,
                            "Match problems regardless of implementation and number of threads");
  compare_command
      ->add_option(
          "--fail-above", o.fail_above,
          "Exit with 1 if a problem's calls became significantly slower, by more than this "
          "percentage")
      ->check(CLI::NonNegativeNumber);
  compare_command->add_option("-o,--output", o.output, "HTML file that shows both side by side");
  compare_command->add_option("-n,--rows", o.rows, "Rows of the table")->capture_default_str();

  CLI::App* replay_command = app.add_subcommand(
      "replay",
      "Runs every recorded problem of vecdet alone, with warm and cold caches, and compares the "
      "cost of a step that follows from these times with the time that the step took. From a "
      "oneDNN verbose log (ONEDNN_VERBOSE=1; versions 2.6 to 3.x), it runs the primitives, and "
      "from a trace of torch.profiler, or a profile with PyTorch's operators "
      "(vecdet/torch/profile.hpp), the convolutions, all through oneDNN. See docs/projection.md");
  replay_command->add_option("inputs", o.inputs, inputs_help)->required();
  replay_command->add_option(
      "--step", o.step,
      "Scope that represents one step; default: torch.profiler's steps, or the "
      "whole run as one step");
  replay_command
      ->add_option("--isa", o.isas,
                   "Also project to these instruction sets: baseline, avx2, avx512")
      ->delimiter(',')
      ->check(CLI::IsMember({"baseline", "avx2", "avx512"}));
  replay_command->add_option("--threads", o.threads, "Also project to these numbers of threads")
      ->delimiter(',')
      ->check(CLI::Range(1, most_threads_replayed));
  replay_command
      ->add_flag("--simulate", o.simulate,
                 "Instead of the projection: run each piece of parallel loops alone, schedule the "
                 "pieces on the numbers of threads that --threads lists, and compare with real "
                 "threads as far as this machine has processors. Inputs may also be lists of "
                 "problems, such as bench/profile/threads.txt; exits with 1 if a speed-up is below "
                 "its floor in the list. -o writes .svg, .json or .md. See docs/whole_socket.md")
      ->needs("--threads");
  replay_command
      ->add_option(
          "--layouts", o.layouts,
          "Also project convolutions, with the necessary reorders, to tensors of these layouts: "
          "nchw, channels_last, blocked (chosen by oneDNN)")
      ->delimiter(',')
      ->check(CLI::IsMember({"nchw", "channels_last", "blocked"}));
  replay_command
      ->add_option("--types", o.types,
                   "Also project convolutions to these types: f32, bf16, f16; weights stay in f32")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  replay_command->add_flag(
      "--conv3x3", o.conv3x3,
      "Also project convolutions in f32 and these layouts (not blocked) to vecdet's conv3x3 and "
      "grouped_conv3x3, where vecdet.torch would compute them because they are faster");
  replay_command
      ->add_option("--seconds", o.replay.seconds, "Time for each repetition of each problem")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  replay_command->add_option("--repetitions", o.replay.repetitions, "Repetitions with warm caches")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  replay_command->add_option("--cold-calls", o.replay.cold_calls, "Calls with cold caches")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  replay_command->add_option("-o,--output", o.output,
                             "File for the projected step, a profile to compare with the recorded "
                             "one: .json, .html, .csv, .folded or .txt");
  replay_command->add_option("-n,--rows", o.rows, "Rows of the table")->capture_default_str();

  if (argc == 1) {
    std::cerr << app.help();
    return exit_bad_input;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_bad_input;
  }
  try {
    if (compare_command->parsed()) return run_compare(o);
    if (replay_command->parsed()) return o.simulate ? run_simulation(o) : run_replay(o);
    o.shows_savings = report_command->parsed();
    return run_report(o);
  } catch (const std::exception& error) {
    std::cerr << "vecdet-profile: " << detail::one_line(error.what()) << '\n';
    return exit_bad_input;
  }
}
