// SPDX-License-Identifier: Apache-2.0
// Preloaded into a measured program. Each time the program reads the clock of CPU time, it notes
// how many allocations and page faults there have been. Google Benchmark and the gate's Python
// process read that clock where a timed piece begins and ends, so that neighbouring notes delimit
// the pieces. At the end, writes one line per note, "<allocations> <page faults>", to the file
// descriptor in VECDET_GATE_COUNTS. Without that variable it only passes calls on. For glibc.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

struct note {
  std::int64_t allocations, page_faults;
};

constexpr std::size_t most_notes = 1 << 14;
std::atomic<std::int64_t> allocations{0};
std::atomic<std::size_t> count{0};
note notes[most_notes];
int file = -1;
int (*real_clock)(clockid_t, timespec*) = nullptr;

void take_note() {
  const std::size_t place = count.fetch_add(1, std::memory_order_relaxed);
  if (place >= most_notes) return;
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  notes[place] = {allocations.load(std::memory_order_relaxed), usage.ru_minflt + usage.ru_majflt};
}

__attribute__((constructor)) void begin() {
  real_clock = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const char* const number = std::getenv("VECDET_GATE_COUNTS");
  if (number == nullptr) return;
  file = std::atoi(number);
  for (note& n : notes) n = {-1, -1};  // its own page faults happen here
}

__attribute__((destructor)) void end() {
  const std::size_t taken = count.load();
  if (file < 0 || taken == 0 || taken > most_notes) return;
  const bool known =
      allocations.load() > 0;  // a program with a malloc of its own never calls this one
  char line[64];
  for (std::size_t i = 0; i < taken; ++i) {
    const int size = std::snprintf(line, sizeof line, "%lld %lld\n",
                                   static_cast<long long>(known ? notes[i].allocations : -1),
                                   static_cast<long long>(notes[i].page_faults));
    if (write(file, line, static_cast<std::size_t>(size)) != size) return;
  }
}

void* counted(void* memory) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (file >= 0 && (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID))
    take_note();
  // Before the constructors have run, the kernel answers.
  if (real_clock == nullptr) return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  return real_clock(clock, now);
}

void* malloc(std::size_t size) noexcept { return counted(__libc_malloc(size)); }
void* calloc(std::size_t count_, std::size_t size) noexcept {
  return counted(__libc_calloc(count_, size));
}
void* realloc(void* old, std::size_t size) noexcept { return counted(__libc_realloc(old, size)); }
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  return counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return counted(__libc_memalign(alignment, size));
}
int posix_memalign(void** result, std::size_t alignment, std::size_t size) noexcept {
  void* const memory = counted(__libc_memalign(alignment, size));
  if (memory == nullptr) return 12;  // ENOMEM
  *result = memory;
  return 0;
}

}  // extern "C"
