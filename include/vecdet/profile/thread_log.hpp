// SPDX-License-Identifier: Apache-2.0
// The recording part of the profiler: one log per thread with the tree of nested scopes, and the
// functions that enter and leave a scope.
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

/// The limits on problems and on paths in the nesting of scopes, both summed over threads. All
/// beyond them are recorded together as "(other problems)". A problem takes 11 KiB and a path 170
/// bytes. The profiler's memory therefore stays below 200 MiB plus 64 KiB per thread alive at a
/// time, for any run time. Traces and intern() need additional memory.
constexpr std::size_t problems_kept = 16384;
constexpr std::size_t paths_kept = 65535;

namespace detail {

/// A problem at one path in the nesting of scopes of one thread.
struct path_node {
  statistics* stats = nullptr;
  const path_node* parent = nullptr;
  // The owner's search key: the names as passed by the scope. They are compared as pointers and
  // never read, because their library may have been unloaded.
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

/// An open scope in the log of its thread. It is stored in the log, because the scope object may be
/// destroyed on another thread, as in a coroutine, while this thread continues.
struct frame {
  /// A different number each time that the frame is taken; negative after its scope has ended on
  /// another thread, or its thread has ended. Only the owner accesses the other members.
  std::atomic<std::int64_t> ticket{0};
  frame* parent = nullptr;  // the enclosing frame, or the next spare frame
  path_node* node = nullptr;
  std::uint64_t era = 0;
  std::int64_t nested = 0;       // nanoseconds in directly nested scopes
  std::int64_t descendants = 0;  // number of scopes inside, at any depth
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
  std::int64_t begin = 0;

  bool is_given_up() const noexcept { return ticket.load(std::memory_order_relaxed) < 0; }
};

constexpr std::int64_t given_up = INT64_MIN;

/// A scope's reference to its frame. The frame still belongs to the scope if the tickets are equal.
struct open_scope {
  thread_log* log = nullptr;
  frame* place;
  std::int64_t ticket;
};

/// The profiler's own cost in ticks: `inside` is the part between a scope's two time stamps;
/// `whole` also includes the part outside them, which enclosing scopes measure.
struct overhead_ticks {
  std::atomic<std::int64_t> inside{0};
  std::atomic<std::int64_t> whole{0};
};

VECDET_PROFILE_SHARED inline overhead_ticks overhead;

/// The time of the next table, in ticks; see print_every().
VECDET_PROFILE_SHARED inline std::atomic<std::int64_t> next_print{INT64_MAX};
VECDET_PROFILE_SHARED inline std::atomic<void (*)(std::int64_t now)> print_if_due{nullptr};

inline bool same_problem(const problem& a, const problem& b) noexcept {
  return a.function == b.function && a.variant == b.variant && a.type == b.type &&
         a.implementation == b.implementation && a.threads == b.threads && a.shape == b.shape;
}

/// The multiplications are independent, so that they overlap in the pipeline.
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

/// Path nodes at stable addresses, which can be read while the owner adds more. There is one node
/// per kept path and one for all others.
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

/// A thread's log. Logs are never freed: when a thread ends, the next new thread reuses its log, so
/// their number is the greatest number of threads alive at a time.
class thread_log {
 public:
  explicit thread_log(int log_id) : id(log_id), slots_(64, nullptr) {}

  /// Whether there is a spare frame for the next scope.
  bool has_spare() const noexcept { return spare_ != nullptr; }

  /// Adds frames for deeper nesting. Requires the registry's lock.
  void add_frames() {
    frames_.push_back(std::make_unique<frame[]>(frames_at_once));
    for (std::size_t i = 0; i < frames_at_once; ++i) put_back(&frames_.back()[i]);
  }

  /// Opens the scope in a spare frame, at a node that find() returned or that was added.
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

  /// Drops all open scopes, because their thread has ended. Afterwards all frames are spare, even
  /// if the thread was interrupted in the middle of an operation.
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

  /// Removes the innermost scopes that have ended on other threads.
  void settle() noexcept {
    if (__builtin_expect(top != nullptr && top->is_given_up(), 0)) forget_given_up();
  }

  const path_node* here() const noexcept { return top != nullptr ? top->node : nullptr; }

  /// The problem's node below the innermost open scope, or null if it is new there. `hash` is
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

  /// Adds the node to the hash table with the given names and hash. At most half of the slots are
  /// used.
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

  /// Called after a library was unloaded, since other names may now have the addresses of its
  /// names. Empties the hash table; a node is added again when its problem next runs at its path.
  void forget_names() noexcept {
    for (path_node*& node : slots_) {
      if (node == nullptr) continue;
      try {
        forgotten_.emplace(std::make_pair(node->parent, node->stats), node);
      } catch (const std::bad_alloc&) {  // its path then gets another node
      }
      node = nullptr;
    }
    used_ = 0;
  }

  /// The forgotten node of the problem at this path, or null.
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
  std::atomic<std::uint32_t> generation{0};  // of the settings that this log has applied
  std::atomic<std::uint64_t> era{0};         // counts resets
  std::uint32_t unloads = 0;                 // number of unloads that this log has handled
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

  /// Counts the scope if all scopes inside it have ended on other threads. Drops it if one of them
  /// is open, or if it belongs to a thread that used this log before.
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

  /// Removes a scope without an end time. Scopes inside it then count as inside its parent.
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
