// SPDX-License-Identifier: Apache-2.0
// The catalogue of calls: every public function once, with the operands that it reads, writes and
// may overwrite. The drivers run all calls: test_memory, test_threads, test_in_place,
// test_allocations, digest, and vecdet-profile's replay, which looks up recorded problems here.
//
// A family is one file beside this one, X.cpp, with a struct that makes operands for a shape and
// lists its calls:
//
//   template <class T>
//   struct X_calls {
//     static std::vector<shape> sweep(index_t length);  // shapes with a dimension of this length
//     static shape sized(index_t rows);                 // one shape with about this many rows
//     static bool takes(const problem&);                // false for unsupported shapes; optional
//     X_calls(operands& make, const problem&);
//     void list(call_list&);
//   };
//   const registered_family X = calls_of<X_calls, float, bfloat16, double>("X");
#pragma once

#include "operands.hpp"
#include <vecdet/detail/check.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <locale>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace vecdet::test {

using shape = std::vector<index_t>;

/// The problem that operands are made for. The shape is that of the profiler. Variant and bytes are
/// those of a recorded call, or empty and 0 in tests.
struct problem {
  test::shape shape;
  source from = source::ordinary;
  std::string variant = {};
  double bytes = 0;

  /// The exact mean count of recorded calls, if `rounded` is the rounded mean.
  index_t exact_count(index_t rounded, std::size_t bytes_each) const {
    const auto exact = static_cast<index_t>(std::llround(bytes / static_cast<double>(bytes_each)));
    return profile::rounded_count(exact) == profile::rounded_count(rounded) ? exact : rounded;
  }
};

/// The number that follows `prefix` in a recorded variant, such as 0.05 in "threshold0.05";
/// `otherwise` if the variant has no such prefix.
template <class Number>
Number number_after(const std::string& prefix, const std::string& variant, Number otherwise) {
  if (variant.compare(0, prefix.size(), prefix) != 0) return otherwise;
  std::istringstream text(variant.substr(prefix.size()));
  text.imbue(std::locale::classic());
  Number number{};
  return text >> number && text.eof() ? number : otherwise;
}
/// "threshold0.05", for example.
template <class Number>
std::string text_of(const std::string& prefix, Number number) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << prefix << number;
  return text.str();
}

/// The bytes that a call returns and writes.
class results {
 public:
  /// Numbers of one type, whose size is in bytes.
  struct run {
    bool is_real;
    std::size_t size, count;
  };

  template <class T>
  void add(const T* values, std::size_t count) {
    runs_.push_back(
        {std::is_floating_point<T>::value || std::is_same<T, bfloat16>::value, sizeof(T), count});
    const auto append = [this](const T* first, std::size_t size) {
      const char* const begin = reinterpret_cast<const char*>(first);
      bytes_.insert(bytes_.end(), begin, begin + size * sizeof(T));
    };
    if (!same_nans_) return append(values, count);
    for (std::size_t i = 0; i < count; ++i) {
      // By its bits: with -ffast-math, compilers assume that no number is NaN.
      const T value = detail::is_nan(static_cast<double>(values[i])) ? to<T>(0.125) : values[i];
      append(&value, 1);
    }
  }
  template <class T, std::enable_if_t<std::is_arithmetic<T>::value, int> = 0>
  void add(T value) {
    add(&value, 1);
  }
  template <class T>
  void add(const vector_view<T>& values) {
    add(values.data(), static_cast<std::size_t>(values.size()));
  }
  template <class T>
  void add(const boxes_view<T>& boxes) {
    add(boxes.data(), static_cast<std::size_t>(4 * boxes.size()));
  }
  void add(const masks_view& masks) {
    add(boxes_view<const index_t>(masks.boxes));
    add(vector_view<const index_t>(masks.offsets));
    add(vector_view<const std::uint8_t>(masks.pixels));
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size());
  }
  template <class... Parts>
  void add(const std::tuple<Parts...>& parts) {
    std::apply([this](const auto&... part) { (this->add(part), ...); }, parts);
  }

  /// Treats all NaNs as equal: their sign is not part of the result, and differs on Arm.
  void with_equal_nans() { same_nans_ = true; }

  const std::vector<char>& bytes() const { return bytes_; }
  const std::vector<run>& runs() const { return runs_; }
  bool operator==(const results& other) const { return bytes_ == other.bytes_; }

 private:
  bool same_nans_ = false;
  std::vector<char> bytes_;
  std::vector<run> runs_;
};

/// The arrays of a call.
class accesses {
 public:
  struct output {
    placed_bytes* array;
    void (*add)(const placed_bytes&, results&);
  };
  std::vector<const placed_bytes*> inputs;
  std::vector<output> outputs;
  std::vector<const placed_bytes*> replaceable;

  template <class... Arrays>
  accesses reads(const Arrays&... arrays) const {
    accesses with = *this;
    (with.add_input(arrays), ...);
    return with;
  }
  template <class... Arrays>
  accesses writes(Arrays&... arrays) const {
    accesses with = *this;
    (with.add_output(arrays), ...);
    return with;
  }
  /// Inputs whose memory the outputs may use, in the outputs' order.
  template <class... Arrays>
  accesses may_overwrite(const Arrays&... arrays) const {
    accesses with = *this;
    (with.add_replaceable(arrays), ...);
    return with;
  }

  /// The bytes of each input.
  std::vector<std::string> copied_inputs() const {
    std::vector<std::string> copies;
    for (const placed_bytes* in : inputs)
      copies.emplace_back(static_cast<const char*>(in->address), in->bytes);
    return copies;
  }

 private:
  void add_input(const placed_bytes& array) { inputs.push_back(&array); }
  void add_input(const placed_truth& truth) {
    for (const placed_bytes* array : {static_cast<const placed_bytes*>(&truth.boxes),
                                      static_cast<const placed_bytes*>(&truth.classes),
                                      static_cast<const placed_bytes*>(&truth.image_offsets)})
      inputs.push_back(array);
  }
  void add_input(const placed_class_lists& lists) {
    for (const placed_bytes* array : {static_cast<const placed_bytes*>(&lists.classes),
                                      static_cast<const placed_bytes*>(&lists.groups),
                                      static_cast<const placed_bytes*>(&lists.thresholds)})
      inputs.push_back(array);
  }
  template <class T>
  void add_input(const placed_head<T>& head) {
    for (const placed<T>& level : head.levels) inputs.push_back(&level);
  }
  void add_replaceable(const placed_bytes& array) { replaceable.push_back(&array); }
  template <class T>
  void add_replaceable(const placed_head<T>& head) {
    for (const placed<T>& level : head.levels) replaceable.push_back(&level);
  }
  template <class T>
  void add_output(placed_head<T>& head) {
    for (placed<T>& level : head.levels) add_output(level);
  }
  template <class T>
  void add_output(placed<T>& array) {
    outputs.push_back({&array, [](const placed_bytes& written, results& r) {
                         r.add(static_cast<const T*>(written.address), written.bytes / sizeof(T));
                       }});
  }
};

template <class... Arrays>
accesses reads(const Arrays&... arrays) {
  return accesses().reads(arrays...);
}

namespace internal {
template <class T>
constexpr bool is_vector = false;
template <class T>
constexpr bool is_vector<std::vector<T>> = true;
}  // namespace internal

/// A call of a public function.
struct call {
  std::string name;               ///< function/variant, as the profiler records it, then /options
  std::string function, variant;  ///< parts of the name
  bool has_defaults;              ///< whether the name has no options
  bool returns_vector;            ///< the call allocates its result
  accesses arrays;
  std::function<void(threading, results*)> body;

  void run(threading policy) const { body(policy, nullptr); }
  /// The returned value, then the outputs, which start as bytes 0xa5.
  results results_of(threading policy, bool equal_nans = false) const {
    for (const accesses::output& out : arrays.outputs)
      std::memset(out.array->address, 0xa5, out.array->bytes);
    return results_in_place(policy, equal_nans);
  }
  /// The same if outputs overwrite inputs.
  results results_in_place(threading policy, bool equal_nans = false) const {
    results all;
    if (equal_nans) all.with_equal_nans();
    body(policy, &all);
    for (const accesses::output& out : arrays.outputs) out.add(*out.array, all);
    return all;
  }
};

/// The list to which a family adds its calls.
class call_list {
 public:
  /// body(policy) calls the function, and returns its result: a number, views, a tuple of these, or
  /// nothing.
  template <class Body>
  void add(const std::string& name, const accesses& arrays, const Body& body) {
    const std::size_t variant = name.find('/') + 1;
    const std::size_t options = std::min(name.find('/', variant), name.size());
    using returned = decltype(body(threading::sequential));
    const auto run = [body](threading policy, results* to) {
      if constexpr (std::is_void<returned>::value) {
        body(policy);
      } else {
        const returned result = body(policy);
        if (to != nullptr) to->add(result);
      }
    };
    calls.push_back({name, name.substr(0, variant - 1), name.substr(variant, options - variant),
                     options == name.size(), internal::is_vector<returned>, arrays, run});
  }
  std::vector<call> calls;
};

/// The calls of a family on operands for one problem.
struct call_set {
  std::shared_ptr<void> operands;
  std::vector<call> calls;
};

struct family {
  std::string name, type;
  std::vector<shape> (*sweep)(index_t length);
  shape (*sized)(index_t rows);
  bool (*takes)(const problem&);
  call_set (*make)(memory&, const problem&);
};

/// All families, one entry per element type, each with its name.
inline std::vector<family>& catalogue() {
  static std::vector<family> families;
  return families;
}

/// Calls visit(family, call) for every call, on operands in `at` for a problem with about `rows`
/// rows.
template <class Visit>
void for_each_call(memory& at, index_t rows, source from, const Visit& visit) {
  for (const family& f : catalogue()) {
    const call_set set = f.make(at, {f.sized(rows), from});
    for (const call& c : set.calls) visit(f, c);
  }
}

namespace internal {

template <class Calls, class = void>
struct refuses {
  static bool takes(const problem&) { return true; }
};
template <class Calls>
struct refuses<Calls, std::void_t<decltype(Calls::takes)>> {
  static bool takes(const problem& p) { return Calls::takes(p); }
};

template <class Calls>
bool takes(const problem& p) {
  return p.shape.size() == Calls::sized(16).size() &&
         std::all_of(p.shape.begin(), p.shape.end(), [](index_t n) { return n > 0; }) &&
         refuses<Calls>::takes(p);
}

template <class Calls>
call_set make(memory& at, const problem& p) {
  operands source(at, p.from);
  const auto family = std::make_shared<Calls>(source, p);
  call_list list;
  family->list(list);
  return {family, std::move(list.calls)};
}

}  // namespace internal

template <class T>
std::string type_name() {
  if constexpr (std::is_integral<T>::value)
    return (std::is_signed<T>::value ? "i" : "u") + std::to_string(8 * sizeof(T));
  else
    return dtype_name<T>();
}

/// A variable of this type adds a family before main().
struct registered_family {
  registered_family() {}
};

/// Adds a family for each element type. Static: otherwise GCC merges instances of different files
/// if their Calls have the same name, even in unnamed namespaces.
template <template <class> class Calls, class... Types>
static registered_family calls_of(const std::string& name) {
  std::vector<family>& all = catalogue();
  (all.push_back({name, type_name<Types>(), Calls<Types>::sweep, Calls<Types>::sized,
                  internal::takes<Calls<Types>>, internal::make<Calls<Types>>}),
   ...);
  std::sort(all.begin(), all.end(), [](const family& a, const family& b) {
    return std::tie(a.name, a.type) < std::tie(b.name, b.type);
  });
  return {};
}

}  // namespace vecdet::test
