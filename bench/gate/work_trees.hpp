// SPDX-License-Identifier: Apache-2.0
// Two revisions of a git repository, each in a work tree of its own, built by the user's command.
#pragma once

#include "process.hpp"

#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <stdlib.h>

namespace vecdet::gate {

/// What git prints, without the last line break. Throws if it fails.
inline std::string git(std::vector<std::string> arguments, bool cleaning_up = false) {
  arguments.insert(arguments.begin(), "git");
  program_start start;
  start.command = std::move(arguments);
  start.cleaning_up = cleaning_up;
  const finished_program ended = run_program(start);
  if (!ended.succeeded())
    throw std::runtime_error("git " + start.command[1] + ": " + ended.failure());
  return ended.output.substr(0, ended.output.find_last_not_of('\n') + 1);
}

/// The commit of a revision.
inline std::string commit_of(const std::string& revision) {
  try {
    return git({"rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"});
  } catch (const std::runtime_error&) {
    if (interrupted != 0) throw;
    throw std::runtime_error("no revision \"" + revision +
                             "\" in this repository; in a shallow clone, fetch it first");
  }
}

/// HEAD, or a commit of it with the changes to tracked files that are not committed.
inline std::string current_state() {
  const std::string changed = git({"stash", "create"});
  return changed.empty() ? commit_of("HEAD") : changed;
}

/// Work trees in a new folder, which the destructor removes.
class work_trees {
 public:
  work_trees() {
    std::string name = (std::filesystem::temp_directory_path() / "vecdet-gate-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("\"" + name + "\": the folder cannot be created");
    folder_ = name;
  }
  work_trees(const work_trees&) = delete;
  work_trees& operator=(const work_trees&) = delete;
  ~work_trees() {
    for (const std::string& tree : trees_) {
      try {
        git({"worktree", "remove", "--force", tree}, true);
      } catch (const std::exception&) {  // the folder is removed below, and git then forgets it
      }
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// Checks a commit out as `name` and runs the build command in it. Returns its folder.
  std::string build(const std::string& name, const std::string& commit,
                    const std::string& command) {
    const std::string tree = folder_ + "/" + name;
    trees_.push_back(tree);
    git({"worktree", "add", "--detach", tree, commit});
    program_start start;
    start.command = {"sh", "-c", command};
    start.folder = tree;
    const finished_program ended = run_program(start);
    if (!ended.succeeded())
      throw std::runtime_error("--build fails in " + name + ", " + commit.substr(0, 12) + ": " +
                               ended.failure());
    return tree;
  }

 private:
  std::string folder_;
  std::vector<std::string> trees_;
};

}  // namespace vecdet::gate
