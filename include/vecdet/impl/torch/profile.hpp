// SPDX-License-Identifier: Apache-2.0
// The bodies of vecdet/torch/profile.hpp.
#pragma once

#include <vecdet/impl/torch/denormals.hpp>
#include <vecdet/torch/profile.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

/// The counts of one operator's name, for all threads.
struct fault_counts {
  const char* name;
  std::atomic<std::uint64_t> calls{0}, faults{0}, numbers{0}, denormals{0};
};

/// Whether operands are searched for denormals.
inline std::atomic<bool> counts_denormals{false};

struct fault_table {
  std::mutex mutex;
  std::unordered_map<std::string, fault_counts> by_name;  // nodes stay where they are

  /// Never destroyed: autograd's threads may still run operators when the process ends.
  static fault_table& get() {
    static fault_table& table = *new fault_table;
    return table;
  }
  fault_counts& of(const char* name) {
    const std::lock_guard<std::mutex> lock(mutex);
    fault_counts& counts = by_name[name];
    counts.name = intern(name);
    return counts;
  }
};

/// A thread's cached data of an operator with given input shapes.
struct known_operator {
  problem recorded;
  fault_counts* counts;
};

inline std::uint64_t faults_of_thread() noexcept {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

/// The type's name in problems: f32 for Float.
inline const char* short_name(at::ScalarType type) noexcept {
  switch (type) {
    case at::kFloat:
      return "f32";
    case at::kDouble:
      return "f64";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    case at::kLong:
      return "i64";
    case at::kInt:
      return "i32";
    case at::kByte:
      return "u8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(type);
  }
}

/// Calls visit(tensor) for the tensors with sizes among an operator's inputs.
template <class Visit>
void visit_tensors(const at::RecordFunction& function, const Visit& visit) {
  const auto visit_plain = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_nested()) visit(tensor);
  };
  for (const c10::IValue& value : function.inputs()) {
    if (value.isTensor()) {
      visit_plain(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) visit_plain(tensor);
    }
  }
}

/// For aten::convolution and aten::convolution_backward, the index of the input with the strides.
/// It is followed by padding, dilation, transposed, output padding and groups. 0 for all other
/// operators.
inline std::size_t strides_of(const at::RecordFunction& function) noexcept {
  const std::size_t inputs = function.inputs().size();
  if (inputs == 9 && std::strcmp(function.name(), "aten::convolution") == 0) return 3;
  if (inputs == 11 && std::strcmp(function.name(), "aten::convolution_backward") == 0) return 4;
  return 0;
}

/// The properties of a convolution that affect its time but are not in its shapes:
/// "s2,p3,d1,g1,channels_last", with a single number if all dimensions have the same. A backward
/// convolution adds which gradients of source, weights and bias it computes: "grads110". Empty for
/// all other operators.
inline std::string convolution_variant(const at::RecordFunction& function) {
  const std::size_t first = strides_of(function);
  if (first == 0) return {};
  const auto inputs = function.inputs();
  std::string text;
  const auto add = [&](const char* letter, const c10::IValue& value) {
    if (!text.empty()) text += ',';
    text += letter;
    if (value.isInt()) text += std::to_string(value.toInt());
    if (!value.isIntList()) return;
    const c10::List<std::int64_t> sizes = value.toIntList();
    const bool same = std::all_of(sizes.begin(), sizes.end(),
                                  [&](std::int64_t size) { return size == sizes.get(0); });
    for (std::size_t i = 0; i < (same ? std::min<std::size_t>(1, sizes.size()) : sizes.size()); ++i)
      text += (i == 0 ? "" : "x") + std::to_string(sizes.get(i));
  };
  add("s", inputs[first]);
  add("p", inputs[first + 1]);
  add("d", inputs[first + 2]);
  add("g", inputs[first + 5]);
  if (inputs[first + 3].isBool() && inputs[first + 3].toBool()) {
    text += ",transposed";
    add("o", inputs[first + 4]);
  }
  const c10::IValue& source = inputs[first == 3 ? 0 : 1];
  if (source.isTensor() && source.toTensor().defined() && source.toTensor().dim() == 4 &&
      !source.toTensor().is_contiguous() &&
      source.toTensor().is_contiguous(at::MemoryFormat::ChannelsLast))
    text += ",channels_last";
  if (first == 4 && inputs[10].isBoolList()) {
    text += ",grads";
    for (const bool wanted : inputs[10].toBoolList()) text += wanted ? '1' : '0';
  }
  return text;
}

/// A hash of name, shapes and types.
inline std::uint64_t key_of(const at::RecordFunction& function) {
  std::uint64_t key = 0;
  const auto add = [&](std::uint64_t number) {
    key = (key ^ number) * 0x9e3779b97f4a7c15u;
    key ^= key >> 29;
  };
  // Hashes the letters, because memory of the names of backward's functions is reused.
  for (const char* letter = function.name(); *letter != 0; ++letter)
    add(static_cast<unsigned char>(*letter));
  visit_tensors(function, [&](const at::Tensor& tensor) {
    // Includes the number of sizes, to distinguish [2, 1006, 4] from [2] and [4].
    add(static_cast<std::uint64_t>(tensor.scalar_type()));
    add(static_cast<std::uint64_t>(tensor.dim()));
    for (const std::int64_t size : tensor.sizes()) add(static_cast<std::uint64_t>(size));
  });
  if (strides_of(function) != 0) {
    for (const char letter : convolution_variant(function)) add(static_cast<unsigned char>(letter));
  }
  return key;
}

inline known_operator describe(const at::RecordFunction& function) {
  std::string shapes;
  const char* type = nullptr;
  visit_tensors(function, [&](const at::Tensor& tensor) {
    if (type == nullptr) type = short_name(tensor.scalar_type());
    if (tensor.dim() == 0) return;
    if (!shapes.empty()) shapes += ',';
    for (std::int64_t d = 0; d < tensor.dim(); ++d)
      shapes += (d == 0 ? "" : "x") + std::to_string(tensor.size(d));
  });
  known_operator known{};
  known.counts = &fault_table::get().of(function.name());
  known.recorded.function = known.counts->name;
  const std::string variant = convolution_variant(function);
  if (!variant.empty()) known.recorded.variant = intern(variant);
  known.recorded.type = type;
  // A list of shapes does not fit into the problem's shape, so it is stored as the implementation.
  if (!shapes.empty()) known.recorded.implementation = intern(shapes);
  return known;
}

/// Whether the operator opens or closes a scope; it must not be recorded itself.
inline bool is_of_profiler(const at::RecordFunction& function) {
  constexpr const char* prefix = "vecdet::_profile_";
  return std::strncmp(function.name(), prefix, std::strlen(prefix)) == 0;
}

/// Looks up the operator in the thread's cache, which has at most as many entries as problems are
/// kept.
inline const known_operator* find_operator(const at::RecordFunction& function) {
  static thread_local std::unordered_map<std::uint64_t, known_operator> known;
  const std::uint64_t key = key_of(function);
  const auto found = known.find(key);
  if (found != known.end()) return &found->second;
  if (known.size() >= problems_kept || is_of_profiler(function)) return nullptr;
  return &known.emplace(key, describe(function)).first->second;
}

/// Whether the operator returns a view of an operand, and so reads no numbers itself.
inline bool returns_view(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  if (!schema || schema->returns().empty()) return false;
  const auto* const alias = schema->returns()[0].alias_info();
  return alias != nullptr && !alias->isWrite();
}

/// Adds the denormals in the operands that the operator reads; false if it has no such operands.
inline bool search_operands(const at::RecordFunction& function, fault_counts& counts) {
  if (returns_view(function)) return false;
  bool has_operands = false;
  visit_tensors(function, [&](const at::Tensor& tensor) {
    const std::optional<std::uint64_t> found = denormals_in(tensor);
    if (!found) return;
    has_operands = true;
    counts.numbers.fetch_add(static_cast<std::uint64_t>(tensor.numel()), std::memory_order_relaxed);
    counts.denormals.fetch_add(*found, std::memory_order_relaxed);
  });
  return has_operands;
}

/// A running operator. Its page faults are those of the thread, without those of operators inside.
class running_operator : public at::ObserverContext {
 public:
  running_operator(const at::RecordFunction& function, const known_operator& known)
      : counts_(known.counts),
        outer_(innermost()),
        is_searched_(search(function)),
        faults_before_(faults_of_thread()),
        timing_(known.recorded) {
    innermost() = this;
  }
  ~running_operator() override {
    if (innermost() != this) return;  // it ends on a different thread than it began on
    innermost() = outer_;
    const std::uint64_t all = faults_of_thread() - faults_before_;
    if (outer_ != nullptr) outer_->faults_inside_ += all;
    counts_->calls.fetch_add(1, std::memory_order_relaxed);
    counts_->faults.fetch_add(all - std::min(all, faults_inside_), std::memory_order_relaxed);
  }

 private:
  /// Searches the operands, unless those of an operator around it were searched.
  bool search(const at::RecordFunction& function) const {
    if (!counts_denormals.load(std::memory_order_relaxed)) return false;
    if (outer_ != nullptr && outer_->is_searched_) return true;
    try {
      return search_operands(function, *counts_);
    } catch (...) {
      return false;  // a tensor without memory, as in tracing
    }
  }
  static running_operator*& innermost() {
    static thread_local running_operator* running = nullptr;
    return running;
  }

  fault_counts* counts_;
  running_operator* outer_;
  bool is_searched_;
  std::uint64_t faults_before_, faults_inside_ = 0;
  scope timing_;  // last: it ends before anything else is done
};

inline std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
  if (!is_on(state.load(std::memory_order_relaxed))) return nullptr;
  try {
    const known_operator* const known = find_operator(function);
    return known == nullptr ? nullptr : std::make_unique<running_operator>(function, *known);
  } catch (...) {
    return nullptr;  // symbolic sizes or not enough memory: the operator runs unrecorded
  }
}

/// The time in nanoseconds in which the kernel provides one zeroed page.
inline double cost_of_fresh_page() {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  constexpr std::size_t pages = 4096;
  void* const memory =
      mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, pages * page, MADV_NOHUGEPAGE);
  volatile char* const bytes = static_cast<char*>(memory);
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < pages; ++i) bytes[i * page] = 1;
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  munmap(memory, pages * page);
  return took.count() / pages;
}

}  // namespace detail

inline torch_operators::torch_operators(bool count_denormals) {
  detail::counts_denormals = count_denormals;
  {
    detail::fault_table& table = detail::fault_table::get();
    const std::lock_guard<std::mutex> lock(table.mutex);
    for (auto& counts : table.by_name) {
      counts.second.calls = 0;
      counts.second.faults = 0;
      counts.second.numbers = 0;
      counts.second.denormals = 0;
    }
  }
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&detail::operator_begins)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  constexpr int repetitions = 1000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) {
    static_cast<void>(detail::faults_of_thread());
    static_cast<void>(detail::faults_of_thread());
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  cost_ns_ = took.count() / repetitions;
}

inline std::vector<page_faults> torch_operators::faults() const {
  detail::fault_table& table = detail::fault_table::get();
  std::vector<page_faults> all;
  {
    const std::lock_guard<std::mutex> lock(table.mutex);
    for (const auto& counts : table.by_name) {
      if (counts.second.faults != 0)
        all.push_back({counts.first, counts.second.calls, counts.second.faults});
    }
  }
  std::sort(all.begin(), all.end(), [](const page_faults& a, const page_faults& b) {
    return a.faults != b.faults ? a.faults > b.faults : a.name < b.name;
  });
  return all;
}

inline std::string torch_operators::page_fault_report() const {
  const std::vector<page_faults> all = faults();
  std::uint64_t total = 0;
  for (const page_faults& each : all) total += each.faults;
  if (total == 0) return {};
  const double page_ns = detail::cost_of_fresh_page();
  const auto milliseconds = [&](std::uint64_t faults) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(faults) * page_ns * 1e-6);
    return std::string(text);
  };
  std::string text = "page faults in PyTorch's operators: " + std::to_string(total) +
                     ", which cost about " + milliseconds(total) + " here\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(10, all.size()); ++i) {
    text += "  " + milliseconds(all[i].faults) + "  " + all[i].name + ": " +
            std::to_string(all[i].faults) + " in " + std::to_string(all[i].calls) + " calls\n";
  }
  return text +
         "Memory that glibc gives back to the system and fetches again is fresh each time. "
         "Nearly all of it is saved by\n"
         "  MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592\n"
         "in the environment, or by vecdet::keep_memory() at the start of the program, which keep "
         "it. THP_MEM_ALLOC_ENABLE=1 makes\n"
         "PyTorch 2 ask for pages of 2 MB, and GLIBC_TUNABLES=glibc.malloc.hugetlb=1 makes "
         "glibc do so.\n";
}

inline std::vector<denormal_operands> torch_operators::denormals() const {
  detail::fault_table& table = detail::fault_table::get();
  std::vector<denormal_operands> all;
  {
    const std::lock_guard<std::mutex> lock(table.mutex);
    for (const auto& counts : table.by_name) {
      if (counts.second.denormals != 0)
        all.push_back({counts.first, counts.second.numbers, counts.second.denormals});
    }
  }
  std::sort(all.begin(), all.end(), [](const denormal_operands& a, const denormal_operands& b) {
    return a.denormals != b.denormals ? a.denormals > b.denormals : a.name < b.name;
  });
  return all;
}

inline std::string torch_operators::denormal_report() const {
  const std::vector<denormal_operands> all = denormals();
  if (all.empty()) return {};
  std::string text = "denormals in the operands of PyTorch's operators:\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(10, all.size()); ++i) {
    char share[32];
    std::snprintf(
        share, sizeof share, "%.2f %%",
        100 * static_cast<double>(all[i].denormals) / static_cast<double>(all[i].numbers));
    text += "  " + std::string(share) + "  " + all[i].name + ": " +
            std::to_string(all[i].denormals) + " of " + std::to_string(all[i].numbers) +
            " numbers\n";
  }
  return text +
         "They can make an operator many times slower. torch.set_flush_denormal(True), called "
         "before the first operator, makes the\n"
         "processor take them as 0, on this thread and on those that it starts later.\n";
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
