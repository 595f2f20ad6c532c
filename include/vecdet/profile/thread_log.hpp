// SPDX-License-Identifier: Apache-2.0
// The recording side of the profiler: a log for each thread, with the tree of nested scopes, and
// what happens when a scope is entered and left.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/clock.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/profile/statistics.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// Problems beyond so many, and places in the nesting of scopes beyond so many, both summed over
/// threads, are recorded together as "(other problems)". A problem takes 11 KiB and a place 170
/// bytes, so the profiler's memory stays below 200 MiB, and 64 KiB for each thread alive at a time,
/// however long the program runs. Traces and intern() come on top.
constexpr std::size_t problems_kept = 16384;
constexpr std::size_t paths_kept = 65535;

namespace detail {

/// A problem at one place in the nesting of scopes of one thread.
struct path_node {
  statistics* stats = nullptr;
  const path_node* parent = nullptr;
  // What the owner finds it by: the names as the scope gave them, which are compared as pointers
  // and never read, for they may be of a library that is gone.
  std::uint64_t hash = 0;
  problem key;
  counter<std::uint64_t> count;
  counter<std::int64_t> total, self;
};

/// A finished scope, for the trace.
struct trace_slot {
  counter<const statistics*> stats;
  counter<std::int64_t> begin, end;
};

class thread_log;

/// A scope that is open, as the log of its thread has it. It lies in the log: the scope itself may
/// come to its end on another thread, as in a coroutine, while this one goes on.
struct frame {
  /// Another one each time that the frame is taken; negative once its scope has ended elsewhere, or
  /// its thread has. All else is the owner's alone.
  std::atomic<std::int64_t> ticket{0};
  frame* parent = nullptr;  // the next one further out, or the next spare one
  path_node* node = nullptr;
  std::uint64_t era = 0;
  std::int64_t nested = 0;       // nanoseconds in scopes directly inside
  std::int64_t descendants = 0;  // scopes inside, at any depth
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
  std::int64_t begin = 0;

  bool is_given_up() const noexcept { return ticket.load(std::memory_order_relaxed) < 0; }
};

constexpr std::int64_t given_up = INT64_MIN;

/// What a scope knows of its frame. The frame is still its own while the tickets agree.
struct open_scope {
  thread_log* log = nullptr;
  frame* place;
  std::int64_t ticket;
};

/// What the profiler itself costs, in ticks: `inside` of a scope's own two time stamps, and `whole`
/// for everything around it too, which scopes further out see.
struct overhead_ticks {
  std::atomic<std::int64_t> inside{0};
  std::atomic<std::int64_t> whole{0};
};

VECDET_PROFILE_SHARED inline overhead_ticks overhead;

/// When a table is next due, in ticks; see print_every().
VECDET_PROFILE_SHARED inline std::atomic<std::int64_t> next_print{INT64_MAX};
VECDET_PROFILE_SHARED inline std::atomic<void (*)(std::int64_t now)> print_if_due{nullptr};

inline bool same_problem(const problem& a, const problem& b) noexcept {
  return a.function == b.function && a.variant == b.variant && a.type == b.type &&
         a.implementation == b.implementation && a.threads == b.threads && a.shape == b.shape;
}

/// Independent multiplications, so that they overlap in the pipeline.
inline std::uint64_t hash_problem(const void* parent, const problem& p) noexcept {
  const auto word = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  const auto dimension = [&](std::size_t i) { return static_cast<std::uint64_t>(p.shape[i]); };
  const std::uint64_t h =
      word(parent) * 0x9e3779b97f4a7c15u + word(p.function) * 0xc2b2ae3d27d4eb4fu +
      word(p.variant) * 0x165667b19e3779f9u + word(p.type) * 0xd6e8feb86659fd93u +
      word(p.implementation) * 0xa0761d6478bd642fu + dimension(0) * 0xe7037ed1a0b428dbu +
      dimension(1) * 0x8ebc6af09c88c6e3u + dimension(2) * 0x589965cc75374cc3u +
      dimension(3) * 0x1d8e4e27c47d124fu + dimension(4) * 0xaef17502108ef2d9u +
      static_cast<std::uint64_t>(p.threads) * 0xeb44accab455d165u;
  return (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
}

/// Path nodes at stable addresses, readable while the owner adds to them: all that are kept, and
/// one more for all others.
class path_list {
 public:
  std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  path_node& operator[](std::size_t i) const noexcept {
    return chunks_[i / chunk].load(std::memory_order_acquire)[i % chunk];
  }
  path_node* add(statistics* stats, const path_node* parent) {
    const std::size_t n = size_.load(std::memory_order_relaxed);
    if (n % chunk == 0) chunks_[n / chunk].store(new path_node[chunk], std::memory_order_release);
    path_node& node = (*this)[n];
    node.stats = stats;
    node.parent = parent;
    size_.store(n + 1, std::memory_order_release);
    return &node;
  }

 private:
  static constexpr std::size_t chunk = 64;
  std::array<std::atomic<path_node*>, (paths_kept + 1) / chunk> chunks_{};
  std::atomic<std::size_t> size_{0};
};

/// A thread's log. Logs are never freed: when a thread ends, the next new thread goes on with its
/// log, so that their number is that of threads alive at a time.
class thread_log {
 public:
  explicit thread_log(int log_id) : id(log_id), slots_(64, nullptr) {}

  /// Whether there is a frame for the next scope.
  bool has_spare() const noexcept { return spare_ != nullptr; }

  /// Makes frames for scopes nested deeper than ever. Under the registry's lock.
  void add_frames() {
    frames_.push_back(std::make_unique<frame[]>(frames_at_once));
    for (std::size_t i = 0; i < frames_at_once; ++i) put_back(&frames_.back()[i]);
  }

  /// Opens the scope at a node found, or made, by find(), in a spare frame.
  void enter(open_scope& scope, path_node* node, const problem& p) noexcept {
    frame& f = *spare_;
    spare_ = f.parent;
    scope.log = this;
    scope.place = &f;
    scope.ticket = (f.ticket.load(std::memory_order_relaxed) & INT64_MAX) + 1;
    f.ticket.store(scope.ticket, std::memory_order_relaxed);
    f.parent = top;
    f.node = node;
    f.era = era.load(std::memory_order_relaxed);
    f.nested = 0;
    f.descendants = 0;
    f.bytes = p.bytes;
    f.flops = p.flops;
    top = &f;
    ++node->stats->depth;
    f.begin = ticks();
    if (node->stats->depth == 1) node->stats->active_begin.set(f.begin);
  }

  void leave(const open_scope& scope, std::int64_t end) noexcept {
    frame& f = *scope.place;
    if (__builtin_expect(top != &f || f.ticket.load(std::memory_order_relaxed) != scope.ticket,
                         0)) {
      leave_out_of_order(scope, end);
      return;
    }
    top = f.parent;
    put_back(&f);
    if (f.era != era.load(std::memory_order_relaxed)) return;  // entered before a reset
    statistics& stats = *f.node->stats;
    std::int64_t length = end - f.begin;
    if (length < 0) {
      clock_went_back.add(1);
      length = 0;
      end = f.begin;
    }
    length -= overhead.inside.load(std::memory_order_relaxed) +
              f.descendants * overhead.whole.load(std::memory_order_relaxed);
    const std::int64_t duration = length > 0 ? to_nanoseconds(length) : 0;
    const std::int64_t own = duration > f.nested ? duration - f.nested : 0;
    if (top != nullptr) {
      top->nested += duration;
      top->descendants += f.descendants + 1;
    }
    --stats.depth;
    stats.record(duration, own);
    stats.bytes.add(f.bytes);
    stats.flops.add(f.flops);
    f.node->count.add(1);
    f.node->total.add(duration);
    f.node->self.add(own);
    if (stats.depth == 0) {
      stats.active_begin.set(0);
      stats.last_begin.set(f.begin);
      stats.last_end.set(end);
      stats.look_at_others({f.begin, end});
    }
    if (ring != nullptr) {
      const std::uint64_t n = events.load(std::memory_order_relaxed);
      trace_slot& slot = ring[n % ring_size];
      slot.stats.set(&stats);
      slot.begin.set(f.begin);
      slot.end.set(end);
      events.store(n + 1, std::memory_order_release);
    }
    if (end >= next_print.load(std::memory_order_relaxed)) print_if_due.load()(end);
  }

  /// Gives up the scopes that are open: their thread has ended. Whatever it was just at, all frames
  /// are spare thereafter.
  void drop_all() noexcept {
    top = spare_ = nullptr;
    for (const auto& some : frames_) {
      for (std::size_t i = 0; i < frames_at_once; ++i) {
        some[i].ticket.fetch_or(given_up, std::memory_order_relaxed);
        put_back(&some[i]);
      }
    }
    for (statistics* s : all_statistics) s->leave_all();
  }

  /// Forgets the innermost scopes that have ended on other threads.
  void settle() noexcept {
    if (__builtin_expect(top != nullptr && top->is_given_up(), 0)) forget_given_up();
  }

  const path_node* here() const noexcept { return top != nullptr ? top->node : nullptr; }

  /// The problem's node below the innermost open scope; null when it is new there. `hash` is
  /// hash_problem(here(), p).
  path_node* find(const problem& p, std::uint64_t hash) const noexcept {
    const path_node* parent = here();
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
      path_node* node = slots_[i];
      if (node == nullptr) return nullptr;
      if (node->hash == hash && node->parent == parent && same_problem(node->key, p)) return node;
    }
  }

  /// Makes the node findable by the names and hash given; at most half of the slots are taken.
  void insert(path_node* node, const problem& key, std::uint64_t hash) {
    node->key = key;
    node->hash = hash;
    if (2 * (used_ + 1) > slots_.size()) {
      std::vector<path_node*> old(2 * slots_.size(), nullptr);
      old.swap(slots_);
      for (path_node* n : old) {
        if (n != nullptr) place(n);
      }
    }
    place(node);
    ++used_;
  }

  /// A library has been unloaded: at the address of its names others may come to lie. No node is
  /// findable any more, until its problem is met again at its place.
  void forget_names() noexcept {
    for (path_node*& node : slots_) {
      if (node == nullptr) continue;
      try {
        forgotten_.emplace(std::make_pair(node->parent, node->stats), node);
      } catch (const std::bad_alloc&) {  // then its place gets another node
      }
      node = nullptr;
    }
    used_ = 0;
  }

  /// The forgotten node of the problem at the place, or null.
  path_node* recall(const path_node* parent, const statistics* stats) noexcept {
    const auto known = forgotten_.find(std::make_pair(parent, stats));
    if (known == forgotten_.end()) return nullptr;
    path_node* const node = known->second;
    forgotten_.erase(known);
    return node;
  }

  const int id;
  frame* top = nullptr;
  bool taken = false;                        // guarded by the registry's lock
  std::atomic<std::uint32_t> generation{0};  // of the settings this log has seen
  std::atomic<std::uint64_t> era{0};         // counts resets
  std::uint32_t unloads = 0;                 // libraries unloaded that this log knows of
  path_list paths;
  std::vector<statistics*> all_statistics;  // guarded by the registry's lock
  path_node* overflow = nullptr;
  std::unique_ptr<trace_slot[]> ring;  // changed under the registry's lock, by the owner
  std::size_t ring_size = 0;
  std::atomic<std::uint64_t> events{0};
  counter<std::uint64_t> dropped, clock_went_back;

 private:
  static constexpr std::size_t frames_at_once = 32;

  void put_back(frame* f) noexcept {
    f->parent = spare_;
    spare_ = f;
  }

  /// Counts the scope where all inside of it have ended on other threads, and drops it where one is
  /// open, or where it is of a thread that had this log before.
  [[gnu::noinline]] void leave_out_of_order(const open_scope& scope, std::int64_t end) noexcept {
    frame& f = *scope.place;
    if (f.ticket.load(std::memory_order_relaxed) != scope.ticket) {
      dropped.add(1);
      return;
    }
    forget_given_up();
    if (top == &f) {
      leave(scope, end);
      return;
    }
    dropped.add(1);
    frame** at = &top;
    while (*at != &f) at = &(*at)->parent;
    forget(at);
  }

  [[gnu::noinline]] void forget_given_up() noexcept {
    while (top != nullptr && top->is_given_up()) forget(&top);
  }

  /// Takes a scope out that has no end of its own. What ran inside of it ran inside of its parent
  /// too.
  void forget(frame** at) noexcept {
    frame& f = **at;
    *at = f.parent;
    if (f.parent != nullptr) {
      f.parent->nested += f.nested;
      f.parent->descendants += f.descendants + 1;
    }
    put_back(&f);
    if (f.era != era.load(std::memory_order_relaxed)) return;
    statistics& stats = *f.node->stats;
    if (--stats.depth == 0) stats.active_begin.set(0);
  }

  void place(path_node* node) noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = node->hash & mask;
    while (slots_[i] != nullptr) i = (i + 1) & mask;
    slots_[i] = node;
  }

  std::vector<path_node*> slots_;
  std::size_t used_ = 0;
  std::multimap<std::pair<const path_node*, const statistics*>, path_node*> forgotten_;
  frame* spare_ = nullptr;
  std::vector<std::unique_ptr<frame[]>> frames_;
};

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
