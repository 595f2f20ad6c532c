// SPDX-License-Identifier: Apache-2.0
// Runs other programs: what they write, how they end, and that they end when the gate does.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vecdet::gate {

/// Not 0 after a SIGINT or SIGTERM: run_program() then throws, so that destructors clean up.
inline volatile std::sig_atomic_t interrupted = 0;

/// The process group of the program that runs and that an interruption ends; 0: none.
inline volatile std::sig_atomic_t running_group = 0;

/// Set when a program has been killed because it ran longer than its limit.
inline volatile std::sig_atomic_t limit_reached = 0;

/// The first signal asks the running program to end. One that has not ended after five seconds, or
/// at the second signal, or when its time limit is reached, is killed.
inline void interrupt(int number) {
  const bool is_first = interrupted == 0;
  if (number != SIGALRM) interrupted = number;
  if (running_group == 0) return;
  if (interrupted == 0) limit_reached = 1;
  kill(-running_group, number != SIGALRM && is_first ? SIGTERM : SIGKILL);
  if (number != SIGALRM && is_first) alarm(5);
}

/// From here on, SIGINT and SIGTERM end the running program first and then this process.
inline void end_on_signals() {
  struct sigaction action {};
  action.sa_handler = interrupt;
  for (const int number : {SIGINT, SIGTERM, SIGALRM}) sigaction(number, &action, nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, there is no status to wait for
}

/// Holds these signals back while it lives.
class signals_held_back {
 public:
  signals_held_back() {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : {SIGINT, SIGTERM, SIGALRM}) sigaddset(&held, number);
    sigprocmask(SIG_BLOCK, &held, &before_);
  }
  signals_held_back(const signals_held_back&) = delete;
  signals_held_back& operator=(const signals_held_back&) = delete;
  ~signals_held_back() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

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

/// Bytes that a measured program may write to a file, such as to one of its outputs, which are in
/// memory.
constexpr std::size_t most_output = std::size_t{256} << 20;

/// A program that has ended.
struct finished_program {
  int status = 0;               ///< of wait4
  double seconds = 0;           ///< from start to end
  double limit = 0;             ///< seconds after which it was killed; 0: it was not
  bool wrote_too_much = false;  ///< over most_output
  long preemptions = 0;
  std::string output, errors;  ///< its standard streams
  std::string results;         ///< what it wrote to /dev/fd/3
  std::string counts;          ///< what it wrote to file descriptor 4

  bool succeeded() const {
    return limit == 0 && !wrote_too_much && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  /// "exit code 1", "signal 11 (Segmentation fault)" or which limit it exceeded, and the end of
  /// what it said.
  std::string failure() const {
    std::string text;
    if (limit > 0) {
      std::ostringstream allowed;
      allowed << limit;
      text = "killed after " + allowed.str() + " s without an end (--time-limit)";
    } else if (wrote_too_much || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ)) {
      return "it writes " + std::to_string(most_output >> 20) +
             " MiB to its output or to another file, expected less";
    } else if (WIFSIGNALED(status)) {
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
  double limit = 0;          ///< seconds after which it is killed; 0: none
  bool cleaning_up = false;  ///< run although interrupted
  bool measured = false;     ///< it may write most_output to a file
};

namespace detail {

/// The files that a program writes to its descriptors 1, 2, 3 and 4.
using written_files = std::array<memory_file, 4>;

/// In the new process: becomes the program.
[[noreturn]] inline void become(const program_start& start, const written_files& files) {
  int sources[5] = {open("/dev/null", O_RDONLY)};
  int* source = sources;
  for (const memory_file& file : files) *++source = file.number();
  // Copies above the numbers that they go to, which are then free.
  int copies[5];
  for (int i = 0; i < 5; ++i) copies[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, 10);
  for (int i = 0; i < 5; ++i) dup2(copies[i], i);
  if (start.measured) {
    rlimit files_size{};
    getrlimit(RLIMIT_FSIZE, &files_size);
    files_size.rlim_cur = std::min<rlim_t>(files_size.rlim_max, most_output);
    setrlimit(RLIMIT_FSIZE, &files_size);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  for (const auto& variable : start.environment)
    setenv(variable.first.c_str(), variable.second.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : start.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  if (start.folder.empty() || chdir(start.folder.c_str()) == 0)
    execvp(arguments[0], arguments.data());
  const std::string reason = std::string("cannot be run: ") + strerror(errno) + "\n";
  if (write(STDERR_FILENO, reason.data(), reason.size()) < 0) _exit(126);
  _exit(127);
}

/// Starts the program in a process group of its own, which an interruption ends.
inline pid_t begin_program(const program_start& start, const written_files& files) {
  // A signal that came between fork and execvp would be lost in the child, and one before
  // running_group is set would not reach it.
  const signals_held_back held;
  if (interrupted != 0 && !start.cleaning_up) throw std::runtime_error("interrupted");
  const pid_t child = fork();
  if (child < 0)
    throw std::runtime_error("cannot start a process: " + std::string(strerror(errno)));
  setpgid(child, child);  // here and in the child, since either may run first
  if (child == 0) {
    for (const int number : {SIGINT, SIGTERM, SIGALRM}) std::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    become(start, files);
  }
  if (!start.cleaning_up) {
    running_group = child;
    limit_reached = 0;
    itimerval timer{};
    timer.it_value.tv_sec = static_cast<time_t>(start.limit);
    timer.it_value.tv_usec =
        static_cast<suseconds_t>(1e6 * (start.limit - std::floor(start.limit)));
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  return child;
}

/// Waits until the program has ended, and returns its status and resources.
inline std::pair<int, rusage> wait_for(pid_t child) {
  siginfo_t info;
  int waited;
  // It stays a zombie until no signal can go to its group, whose number could be used again.
  while ((waited = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT)) < 0 &&
         errno == EINTR) {
  }
  if ((interrupted != 0 || limit_reached != 0) && running_group == child)
    kill(-child, SIGKILL);  // what it has started
  running_group = 0;
  alarm(0);
  std::pair<int, rusage> ended{};
  if (waited < 0 || wait4(child, &ended.first, 0, &ended.second) < 0)
    throw std::runtime_error("cannot wait for a process: " + std::string(strerror(errno)));
  return ended;
}

}  // namespace detail

/// Runs a program until it ends or its time limit kills it and what it has started, without input.
/// Throws if the gate was or is interrupted.
inline finished_program run_program(const program_start& start) {
  const detail::written_files files{memory_file("output"), memory_file("errors"),
                                    memory_file("results"), memory_file("counts")};
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = detail::begin_program(start, files);
  const std::pair<int, rusage> end = detail::wait_for(child);
  if (interrupted != 0 && !start.cleaning_up) throw std::runtime_error("interrupted");
  finished_program ended;
  ended.status = end.first;
  if (limit_reached != 0 && !start.cleaning_up) ended.limit = start.limit;
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ended.preemptions = end.second.ru_nivcsw;
  ended.output = files[0].content();
  ended.errors = files[1].content();
  ended.results = files[2].content();
  ended.counts = files[3].content();
  for (const std::string* text : {&ended.output, &ended.errors, &ended.results, &ended.counts})
    ended.wrote_too_much = ended.wrote_too_much || (start.measured && text->size() >= most_output);
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

}  // namespace vecdet::gate
