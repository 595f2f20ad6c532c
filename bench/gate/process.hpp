// SPDX-License-Identifier: Apache-2.0
// Runs other programs: what they write, how they end, and that they end when the gate does.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vecdet {
namespace gate {

/// Set by the first SIGINT or SIGTERM. The gate then ends the running program and cleans up.
inline volatile std::sig_atomic_t interrupted = 0;

inline void end_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int number) { interrupted = number; };  // no SA_RESTART: wait4 returns
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, there is no status to wait for
}

/// A file in memory that a program writes and this process then reads.
class memory_file {
 public:
  explicit memory_file(const char* name) : number_(memfd_create(name, MFD_CLOEXEC)) {
    if (number_ < 0) throw std::runtime_error("no memory for a program's output");
  }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() { close(number_); }

  int number() const { return number_; }

  /// The content so far, independent of where writers stand.
  std::string content() const {
    std::string text;
    char buffer[65536];
    for (ssize_t size;
         (size = pread(number_, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;) {
      text.append(buffer, static_cast<std::size_t>(size));
    }
    return text;
  }

 private:
  int number_;
};

/// A program that has ended.
struct finished_program {
  int status = 0;      ///< of wait4
  double seconds = 0;  ///< from start to end
  long preemptions = 0;
  std::string output, errors;  ///< its standard streams
  std::string results;         ///< what it wrote to /dev/fd/3
  std::string counts;          ///< what it wrote to file descriptor 4

  bool succeeded() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

  /// "exit code 1" or "signal 11 (Segmentation fault)", and the end of what it said.
  std::string failure() const {
    std::string text;
    if (WIFSIGNALED(status)) {
      text =
          "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
    } else {
      text = "exit code " + std::to_string(WEXITSTATUS(status));
    }
    constexpr std::size_t most = 2000;
    const std::string& said = errors.empty() ? output : errors;
    if (!said.empty()) {
      text += "; its last words:\n";
      text += said.size() > most ? "..." + said.substr(said.size() - most) : said;
      while (text.back() == '\n') text.pop_back();
    }
    return text;
  }
};

struct program_start {
  std::vector<std::string> command;
  std::string folder;                                            ///< to run in; empty: this one
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to this process's
  bool cleaning_up = false;                                      ///< run although interrupted
};

/// Runs a program until it ends, in a process group of its own, without input.
inline finished_program run_program(const program_start& start) {
  if (interrupted != 0 && !start.cleaning_up) throw std::runtime_error("interrupted");
  const memory_file output("output"), errors("errors"), results("results"), counts("counts");
  std::vector<char*> arguments;
  for (const std::string& argument : start.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child < 0)
    throw std::runtime_error("cannot start a process: " + std::string(strerror(errno)));
  setpgid(child, child);  // here and in the child, since either may run first
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDONLY);
    // Copies above the numbers that they go to, which are then free.
    const int sources[5] = {nothing, output.number(), errors.number(), results.number(),
                            counts.number()};
    int copies[5];
    for (int i = 0; i < 5; ++i) copies[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, 10);
    for (int i = 0; i < 5; ++i) dup2(copies[i], i);
    for (const auto& variable : start.environment)
      setenv(variable.first.c_str(), variable.second.c_str(), 1);
    if (start.folder.empty() || chdir(start.folder.c_str()) == 0)
      execvp(arguments[0], arguments.data());
    const std::string reason = std::string("cannot be run: ") + strerror(errno) + "\n";
    if (write(STDERR_FILENO, reason.data(), reason.size()) < 0) _exit(126);
    _exit(127);
  }
  finished_program ended;
  rusage usage{};
  bool told = false;
  while (wait4(child, &ended.status, 0, &usage) < 0) {
    if (errno != EINTR)
      throw std::runtime_error("cannot wait for a process: " + std::string(strerror(errno)));
    if (interrupted != 0 && !start.cleaning_up && !told) {
      told = kill(-child, SIGTERM) == 0;
    }
  }
  if (interrupted != 0 && !start.cleaning_up) throw std::runtime_error("interrupted");
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ended.preemptions = usage.ru_nivcsw;
  ended.output = output.content();
  ended.errors = errors.content();
  ended.results = results.content();
  ended.counts = counts.content();
  return ended;
}

/// Keeps this process, and what it starts, on the processor that the scheduler has just chosen,
/// which has little else to do. A program that was moved after its start would count as preempted.
class on_one_processor {
 public:
  explicit on_one_processor(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(std::max(0, sched_getcpu())), &one);
    sched_setaffinity(0, sizeof one, &one);  // if this is not allowed, only the noise grows
  }
  on_one_processor(const on_one_processor&) = delete;
  on_one_processor& operator=(const on_one_processor&) = delete;
  ~on_one_processor() {
    if (wanted_) sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  bool wanted_;
  cpu_set_t before_{};
};

}  // namespace gate
}  // namespace vecdet
