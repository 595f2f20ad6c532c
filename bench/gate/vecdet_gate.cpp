// SPDX-License-Identifier: Apache-2.0
// vecdet-gate: is a program, a revision, a Python function or a shared object slower than another?
// Exit codes: 0 no benchmark has become slower, 1 one has, 2 an error, 3 inconclusive. See
// docs/own_gate.md, and README.md in this folder.
#include "callables.hpp"
#include "history.hpp"
#include "history_page.hpp"
#include "modules.hpp"
#include "process.hpp"
#include "programs.hpp"
#include "report.hpp"
#include "report_files.hpp"
#include "utf8.hpp"
#include "work_trees.hpp"

#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace {

using namespace vecdet::gate;

struct program_options {
  std::string base, head, base_revision, head_revision, build, benchmark, filter;
};

struct percentages {
  double threshold = 3, control = 1;
};

/// CLI11's Range takes NaN.
CLI::Validator within(double least, double most) {
  std::ostringstream range;
  range << '[' << least << " - " << most << ']';
  const auto check = [=, text = range.str()](const std::string& given) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(given, value) && value >= least && value <= most) return {};
    return "\"" + given + "\" is not a number in " + text;
  };
  return CLI::Validator(check, "FLOAT in " + range.str());
}

void add_rules(CLI::App& command, rules& rule, percentages& percent) {
  command
      .add_option("--threshold", percent.threshold,
                  "per cent by which a benchmark must take longer to be slower")
      ->check(within(0.1, 1000))
      ->capture_default_str();
  command
      .add_option("--control", percent.control,
                  "per cent by which base may differ from itself; beyond, a series gives no answer")
      ->check(within(0.1, 1000))
      ->capture_default_str();
  command.add_option("--pairs", rule.pairs, "timed pairs per benchmark and series")
      ->check(CLI::Range(20, 100000))
      ->capture_default_str();
  command
      .add_option("--time-limit", rule.time_limit,
                  "seconds after which a process that measures is killed (default: 600 for the "
                  "first; later 60 and ten times what it should take)")
      ->check(within(1, 1e6));
}

void add_reports(CLI::App& command, report_paths& paths) {
  command.add_option("--json", paths.json, "write the result and every measurement to this file");
  command.add_option("--markdown", paths.markdown, "write a table for a pull request to this file");
  command.add_option("--junit", paths.junit, "write a JUnit report to this file");
  command.add_option("--history", paths.history, "add one line of JSON to this file");
  command.add_option("--label", paths.label,
                     "head's name in the history (default: its commit, in a repository)");
}

/// Finds what would keep the reports from being written, before anything is measured.
void check_reports(const report_paths& paths) {
  if (valid_utf8(paths.label) != paths.label)
    throw std::runtime_error("--label \"" + paths.label + "\" is not UTF-8");
  for (const std::string& path : {paths.json, paths.markdown, paths.junit, paths.history})
    require_writable(path);
}

void write_reports(const gate_result& result, const report_paths& paths) {
  write_table(std::cout, result);
  if (!paths.json.empty())
    write_file(paths.json, [&](std::ostream& out) { out << to_json(result).dump(2) << '\n'; });
  if (!paths.markdown.empty())
    write_file(paths.markdown, [&](std::ostream& out) { write_markdown(out, result); });
  if (!paths.junit.empty())
    write_file(paths.junit, [&](std::ostream& out) { write_junit(out, result); });
  if (paths.history.empty()) return;
  std::string label = paths.label;
  if (label.empty()) {
    try {
      label = git({"rev-parse", "HEAD"});
    } catch (const std::exception&) {  // not in a repository: the time must do
    }
  }
  append_line(paths.history, history_line(result, label, std::time(nullptr)).dump());
}

gate_result compare_revisions(const program_options& given, const rules& rule,
                              report_paths& paths) {
  if (given.build.empty() || given.benchmark.empty())
    throw std::runtime_error(
        "--base-revision needs --build, the command that builds a work tree, and --benchmark, the "
        "program that it builds there");
  const std::string base = commit_of(given.base_revision);
  const std::string head =
      given.head_revision.empty() ? current_state() : commit_of(given.head_revision);
  // A revision is not slower than itself: that would pass, and say nothing.
  if (base == head)
    throw std::runtime_error("\"" + given.base_revision + "\" is head itself, " +
                             head.substr(0, 12) + ": nothing to compare with");
  if (paths.label.empty()) paths.label = head;
  work_trees trees;
  std::cerr << "vecdet-gate: building base, " << base.substr(0, 12) << '\n';
  const std::string base_tree = trees.build("base", base, given.build);
  std::cerr << "vecdet-gate: building head, " << head.substr(0, 12) << '\n';
  const std::string head_tree = trees.build("head", head, given.build);
  const double limit = rule.time_limit;
  const benchmark_program before(base_tree + "/" + given.benchmark, base_tree, "--benchmark",
                                 limit);
  const benchmark_program after(head_tree + "/" + given.benchmark, head_tree, "--benchmark", limit);
  program_comparison comparison(before, after);
  return comparison.compare(given.filter, rule);
}

gate_result compare_programs(const program_options& given, const rules& rule, report_paths& paths) {
  if (!given.base_revision.empty()) return compare_revisions(given, rule, paths);
  if (given.base.empty() || given.head.empty())
    throw std::runtime_error(
        "--base and --head are the programs to compare, or --base-revision, --build and "
        "--benchmark");
  const benchmark_program base(given.base, "", "--base", rule.time_limit);
  const benchmark_program head(given.head, "", "--head", rule.time_limit);
  program_comparison comparison(base, head);
  return comparison.compare(given.filter, rule);
}

CLI::App* add_run(CLI::App& app, program_options& given) {
  CLI::App* const command = app.add_subcommand(
      "run", "Compares two programs built with Google Benchmark, or two revisions of one");
  CLI::Option* const base = command->add_option("--base", given.base, "program to compare with");
  CLI::Option* const head = command->add_option("--head", given.head, "program to judge");
  CLI::Option* const revision = command->add_option(
      "--base-revision", given.base_revision, "revision of this git repository to compare with");
  command
      ->add_option("--head-revision", given.head_revision,
                   "revision to judge (default: HEAD and the changes that are not committed)")
      ->needs(revision);
  command
      ->add_option("--build", given.build,
                   "command that builds a revision, run in the root of its work tree")
      ->needs(revision);
  command
      ->add_option("--benchmark", given.benchmark,
                   "program to measure, relative to the root of the work tree")
      ->needs(revision);
  command->add_option("--filter", given.filter, "Google Benchmark's filter, a regular expression");
  base->excludes(revision);
  head->excludes(revision);
  return command;
}

CLI::App* add_callables(CLI::App& app, callable_pair& given) {
  CLI::App* const command = app.add_subcommand(
      "callables", "Compares two Python callables; python -m vecdet.gate calls it");
  command->add_option("base", given.base, "callable to compare with, module:function")->required();
  command->add_option("head", given.head, "callable to judge")->required();
  command->add_option("--python", given.python, "the interpreter")->capture_default_str();
  command->add_option("--measurer", given.measurer, "the path of vecdet's gate.py")->required();
  return command;
}

CLI::App* add_modules(CLI::App& app, module_options& given) {
  CLI::App* const command = app.add_subcommand(
      "modules", "Compares the functions of two shared objects, for nanoseconds");
  command->add_option("--base", given.base, "module to compare with")->required();
  command->add_option("--head", given.head, "module to judge")->required();
  command
      ->add_option("--isa", given.isas,
                   "instruction sets; those that this machine lacks are skipped")
      ->delimiter(',')
      ->check(CLI::IsMember({"baseline", "avx2", "avx512"}))
      ->capture_default_str();
  command->add_option("--filter", given.filter,
                      "only problems whose name matches this regular expression");
  command->add_option("--ratios", given.ratios, "file of recorded ratios to the plain loops");
  command->add_flag("--record-ratios", given.record_ratios,
                    "write this machine's ratios to that file");
  return command;
}

struct history_options {
  std::string history, html, otava;
};

CLI::App* add_history(CLI::App& app, history_options& given) {
  CLI::App* const command =
      app.add_subcommand("history", "Plots the runs in a history, with the changes among them");
  command->add_option("history", given.history, "file that --history wrote")->required();
  command->add_option("--html", given.html, "write a page with a plot per benchmark to this file");
  command->add_option("--otava", given.otava, "write Otava's input to this folder");
  return command;
}

void show_history(const history_options& given) {
  std::ifstream file(given.history);
  if (!file) throw std::runtime_error("\"" + given.history + "\" cannot be read");
  const std::vector<benchmark_history> all = read_history(file, given.history, std::cerr);
  if (all.empty()) throw std::runtime_error("\"" + given.history + "\" has no benchmarks");
  for (const benchmark_history& series : all) {
    for (std::size_t i = 0; i < series.changes.size(); ++i) {
      const std::size_t at = series.changes[i];
      std::cout << series.name << ": " << percent(level(series, i + 1) / level(series, i))
                << " since " << series.times[at] << ' ' << series.revisions[at] << '\n';
    }
  }
  if (!given.html.empty())
    write_file(given.html, [&](std::ostream& out) { write_history_page(out, all); });
  if (!given.otava.empty()) write_otava(given.otava, all);
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{
      "Compares the speed of programs, revisions, Python functions or shared objects.\n"
      "Exit codes: 0 nothing is slower, 1 something is, 2 error, 3 inconclusive",
      "vecdet-gate"};
  app.require_subcommand(1);
  rules rule;
  percentages percent;
  report_paths paths;
  program_options programs;
  callable_pair callables;
  module_options modules;
  history_options history;
  std::string job;
  CLI::App* const run = add_run(app, programs);
  CLI::App* const call = add_callables(app, callables);
  CLI::App* const compare = add_modules(app, modules);
  for (CLI::App* command : {run, call, compare}) {
    add_rules(*command, rule, percent);
    add_reports(*command, paths);
  }
  CLI::App* const show = add_history(app, history);
  CLI::App* const measure = app.add_subcommand("measure-modules")->group("");
  measure->add_option("job", job)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(outcome::error);
  }
  if (measure->parsed()) {
    work_on(job);
    return 0;
  }
  if (show->parsed()) {
    show_history(history);
    return 0;
  }
  end_on_signals();
  check_reports(paths);
  rule.slow = 1 + percent.threshold / 100;
  rule.stray = 1 + percent.control / 100;
  modules.rule = rule;
  if (modules.record_ratios) {
    modules.isas = {"baseline", "avx2", "avx512"};
    record_ratios(modules);
    return 0;
  }
  const gate_result result = run->parsed()    ? compare_programs(programs, rule, paths)
                             : call->parsed() ? compare_callables(callables, rule)
                                              : compare_modules(modules);
  write_reports(result, paths);
  return static_cast<int>(result.answer());
} catch (const std::exception& error) {
  std::cerr << "vecdet-gate: " << error.what() << '\n';
  return static_cast<int>(outcome::error);
}
