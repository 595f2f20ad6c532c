// SPDX-License-Identifier: Apache-2.0
// Errors, threads, workspaces, version and instruction set.
#include <vecdet/c/support.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/version.hpp>

#include <atomic>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include <tbb/info.h>
#include <tbb/task_arena.h>

using namespace vecdet_c;

namespace vecdet_c {
namespace {

thread_local std::string last_error;
thread_local const char* last_error_text = "";

/// The threads of vecdet_set_threads(). 0: all of the calling thread's arena.
std::atomic<int> thread_count{0};
std::mutex arena_mutex;
std::shared_ptr<tbb::task_arena> arena;  // of thread_count, if that is 2 or more

vecdet_status record(vecdet_status status, const char* text) noexcept {
  try {
    last_error = text;
    last_error_text = last_error.c_str();
  } catch (...) {
    last_error_text = "not enough memory for the text of the error";
  }
  return status;
}

thread_local vecdet_workspace threads_workspace;

}  // namespace

vecdet_status record_failure() noexcept {
  try {
    throw;
  } catch (const std::invalid_argument& error) {
    return record(VECDET_INVALID_ARGUMENT, error.what());
  } catch (const std::bad_alloc&) {
    return record(VECDET_OUT_OF_MEMORY, "vecdet: not enough memory");
  } catch (const std::length_error&) {
    return record(VECDET_OUT_OF_MEMORY, "vecdet: not enough memory");
  } catch (const std::exception& error) {
    return record(VECDET_FAILED, error.what());
  } catch (...) {
    return record(VECDET_FAILED, "vecdet: unknown error");
  }
}

void on_threads(void (*run)(const void* body, threading policy), const void* body) {
  const int count = thread_count.load(std::memory_order_acquire);
  if (count == 0) return run(body, threading::parallel);
  if (count == 1) return run(body, threading::sequential);
  std::shared_ptr<tbb::task_arena> own;
  {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    own = arena;
  }
  own->execute([&] { run(body, threading::parallel); });
}

scratch::scratch(vecdet_workspace* callers) : workspace_(callers) {
  if (workspace_ != nullptr) return;
  if (!threads_workspace.is_used) {
    workspace_ = &threads_workspace;
    workspace_->is_used = is_threads_ = true;
    return;
  }
  new_ = std::make_unique<vecdet_workspace>();
  workspace_ = new_.get();
}

scratch::~scratch() {
  if (is_threads_) workspace_->is_used = false;
}

}  // namespace vecdet_c

/// The version, such as "0.3.0".
VECDET_C const char* vecdet_version(void) {
#define VECDET_TEXT_OF(number) #number
#define VECDET_VERSION_TEXT(major, minor, patch) \
  VECDET_TEXT_OF(major) "." VECDET_TEXT_OF(minor) "." VECDET_TEXT_OF(patch)
  return VECDET_VERSION_TEXT(VECDET_VERSION_MAJOR, VECDET_VERSION_MINOR, VECDET_VERSION_PATCH);
}

/// The text of the calling thread's last error: function, argument, value and what was expected.
/// Valid until the thread's next error; empty before the first.
VECDET_C const char* vecdet_last_error(void) { return last_error_text; }

/// Sets the number of threads of all later calls: 1 is the calling thread alone, 0 (the default)
/// all threads of oneTBB. Results do not depend on it.
VECDET_C vecdet_status vecdet_set_threads(int threads) {
  return guarded([&] {
    detail::check(threads >= 0, "set_threads", "threads", threads, "0 or more");
    const std::lock_guard<std::mutex> lock(arena_mutex);
    const int count = std::min(threads, std::max(1, tbb::info::default_concurrency()));
    if (count > 1) arena = std::make_shared<tbb::task_arena>(count);
    thread_count.store(count, std::memory_order_release);
  });
}

/// Creates a workspace, or returns null if there is no memory. Functions also accept a null
/// workspace: they use one of the calling thread, which is freed when the thread ends.
VECDET_C vecdet_workspace* vecdet_workspace_create(void) {
  return new (std::nothrow) vecdet_workspace();
}

/// Frees a workspace; null is allowed.
VECDET_C void vecdet_workspace_free(vecdet_workspace* workspace) { delete workspace; }

/// Writes the active instruction set to `set`. It is the best one that the processor supports, or
/// that of the environment variable VECDET_ISA.
VECDET_C vecdet_status vecdet_active_isa(vecdet_isa* set) {
  return guarded([&] {
    check_pointer(set, "active_isa", "set");
    *set = static_cast<vecdet_isa>(active_isa());
  });
}

/// Makes `set` active for all later calls, on every thread.
VECDET_C vecdet_status vecdet_set_isa(vecdet_isa set) {
  return guarded([&] { set_isa(enum_of<isa>(set, "set_isa", "set")); });
}

/// The best instruction set that the processor supports.
VECDET_C vecdet_isa vecdet_detected_isa(void) { return static_cast<vecdet_isa>(detected_isa()); }

/// "baseline", "avx2" or "avx512".
VECDET_C const char* vecdet_isa_name(vecdet_isa set) { return isa_name(static_cast<isa>(set)); }
