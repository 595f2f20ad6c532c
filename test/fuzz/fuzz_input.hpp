// SPDX-License-Identifier: Apache-2.0
// Turns a fuzzer's bytes into arguments and compares results: bit by bit across instruction sets,
// and within a tolerance with the reference. A difference stops the program with a message. Each
// fuzz_*.cpp defines target(), one property of a family of functions; main.cpp calls it.
#pragma once

#include "support/placed_memory.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace vecdet::fuzz {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

/// The memory of all tensors: each ends at an inaccessible page.
inline test::placed_memory& memory() {
  static test::placed_memory at_guards;
  at_guards.place = {test::placement::ends_at_guard};
  return at_guards;
}

/// A tensor of the given elements, or of `size` elements, in that memory.
template <class T>
class tensor {
 public:
  explicit tensor(const std::vector<T>& values)
      : data_(memory().copy(values)), size_(static_cast<index_t>(values.size())) {}
  explicit tensor(index_t size) : data_(memory().make<T>(size)), size_(size) {}

  T* data() const { return data_; }
  index_t size() const { return size_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

 private:
  T* data_;
  index_t size_;
};

/// Vectors in that memory.
template <class T>
struct guarded_allocator {
  using value_type = T;
  guarded_allocator() = default;
  template <class U>
  guarded_allocator(const guarded_allocator<U>&) {}
  T* allocate(std::size_t count) { return memory().make<T>(static_cast<index_t>(count)); }
  void deallocate(T*, std::size_t) {}  // the next input releases all
  template <class U>
  bool operator==(const guarded_allocator<U>&) const {
    return true;
  }
  template <class U>
  bool operator!=(const guarded_allocator<U>&) const {
    return false;
  }
};
template <class T>
using guarded = std::vector<T, guarded_allocator<T>>;

/// The bytes, consumed from the front; zeros once they are used up.
class input {
 public:
  input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  template <class Word>
  Word bits() {
    Word word{};
    for (std::size_t i = 0; i < sizeof word; ++i)
      word = static_cast<Word>(word | static_cast<Word>(byte()) << (8 * i));
    return word;
  }
  /// In [low, high].
  index_t integer(index_t low, index_t high) {
    return low +
           static_cast<index_t>(bits<std::uint16_t>() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool flag() { return (byte() & 1) != 0; }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[byte() % values.size()];
  }

  /// Any bit pattern, a special number or a moderate one.
  template <class T>
  T number() {
    const std::uint8_t kind = byte();
    if (kind < 32) {
      static const std::vector<T> special = test::special_logits<T>();
      return special[byte() % special.size()];
    }
    if (kind < 48) return any_bits<T>();
    return test::to<T>((static_cast<double>(bits<std::uint16_t>()) - 32768) /
                       (kind < 128 ? 1024 : 32));
  }
  /// All remaining bytes.
  std::string text() {
    const std::string rest(data_, data_ + size_);
    size_ = 0;
    return rest;
  }
  /// Finite and moderate.
  double tame(double low, double high) {
    return low + (high - low) * static_cast<double>(bits<std::uint16_t>()) / 65535;
  }

  /// `count` numbers; the bytes repeat once used up.
  template <class T>
  tensor<T> numbers(index_t count) {
    const tensor<T> values(count);
    fill<T>(values);
    return values;
  }
  /// The same in a problem's memory.
  template <class T>
  void fill(guarded<T>& values, index_t count) {
    values = guarded<T>(static_cast<std::size_t>(count));
    fill<T>(values);
  }

 private:
  template <class T, class Values>
  void fill(Values& values) {
    const input start = *this;
    for (T& value : values) {
      if (size_ == 0) *this = start;
      value = number<T>();
    }
  }
  template <class T>
  T any_bits() {
    if constexpr (std::is_same<T, bfloat16>::value) {
      return bfloat16::from_bits(bits<std::uint16_t>());
    } else {
      const auto word = bits<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>();
      T value;
      std::memcpy(&value, &word, sizeof value);
      return value;
    }
  }

  const std::uint8_t* data_;
  std::size_t size_;
};

/// Factors of rows or boxes, or none.
inline tensor<float> some_weights(input& in, index_t count) {
  std::vector<float> weights;
  if (in.flag())
    for (index_t i = 0; i < count; ++i) weights.push_back(in.one_of({1.0f, 0.5f, 3.0f, 0.0f}));
  return tensor<float>(weights);
}
inline double weight_of(const tensor<float>& weights, index_t i) {
  return weights.size() == 0 ? 1.0 : static_cast<double>(weights[static_cast<std::size_t>(i)]);
}

/// Labels with other values of background and ignore than -1 and -2, in 32 bits.
constexpr std::int32_t other_background = 1000, other_ignore = -7;
inline tensor<std::int32_t> renamed(const std::vector<index_t>& labels) {
  std::vector<std::int32_t> others;
  for (const index_t label : labels)
    others.push_back(label == -1   ? other_background
                     : label == -2 ? other_ignore
                                   : static_cast<std::int32_t>(label));
  if (count_foreground(labels) != count_foreground(others, other_background, other_ignore))
    fail("count_foreground depends on the representation of labels");
  return tensor<std::int32_t>(others);
}

/// The property that a fuzz_*.cpp checks for any input.
void target(input& in);

/// Calls property(T()) with the element type that a byte chooses.
template <class Property>
void with_any_type(input& in, const Property& property) {
  switch (in.byte() % 3) {
    case 0:
      return property(float());
    case 1:
      return property(bfloat16());
    default:
      return property(double());
  }
}

/// Calls property(T(), Box()) with the types of deltas and boxes: equal ones, or bfloat16 with
/// float.
template <class Property>
void with_any_types(input& in, const Property& property) {
  const std::uint8_t kind = in.byte();
  switch (kind % 3) {
    case 0:
      return property(float(), float());
    case 1:
      return kind % 2 == 0 ? property(bfloat16(), bfloat16()) : property(bfloat16(), float());
    default:
      return property(double(), double());
  }
}

/// The results of one call, in double; bfloat16 and float convert exactly.
class results {
 public:
  void add(double value) { values_.push_back(value); }
  template <class T>
  void add(const tensor<T>& values) {
    for (const T& value : values) add(static_cast<double>(value));
  }
  template <class T>
  void add(const guarded<T>& values) {
    for (const T& value : values) add(static_cast<double>(value));
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

inline bool same_number(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

/// The same numbers in the same positions.
inline void expect_same(const std::string& what, const results& a, const results& b) {
  if (!std::equal(a.values().begin(), a.values().end(), b.values().begin(), b.values().end(),
                  same_number))
    fail(what);
}

/// Fails unless compute(memory), on memory that holds `input`, leaves `expected` there.
template <class T, class Compute>
void expect_same_in_place(const std::string& what, const tensor<T>& input,
                          const tensor<T>& expected, const Compute& compute) {
  const tensor<T> memory(std::vector<T>(input.begin(), input.end()));
  compute(memory);
  results in_place, apart;
  in_place.add(memory);
  apart.add(expected);
  expect_same(what + " gives different numbers in its input's memory", in_place, apart);
}

/// Runs call(results) on every instruction set. AVX2 and AVX-512 must be bit-identical, and
/// check(values) must accept each result. A call that throws std::invalid_argument must throw it on
/// all.
template <class Call, class Check>
void on_every_isa(const std::string& what, const Call& call, const Check& check) {
  std::vector<double> fused;
  bool have_fused = false;
  int threw = 0, returned = 0;
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    set_isa(set);
    results r;
    try {
      call(r);
      ++returned;
    } catch (const std::invalid_argument&) {
      ++threw;
      continue;
    }
    check(isa_name(set), r.values());
    if (set == isa::baseline) continue;
    if (have_fused) {
      if (fused.size() != r.values().size()) fail(what + ": AVX2 and AVX-512 differ in size");
      for (std::size_t i = 0; i < fused.size(); ++i) {
        if (!same_number(fused[i], r.values()[i]))
          fail(what + ": AVX2 and AVX-512 differ at result " + std::to_string(i) + ": " +
               std::to_string(fused[i]) + ", " + std::to_string(r.values()[i]));
      }
    }
    fused = r.values();
    have_fused = true;
  }
  if (threw != 0 && returned != 0) fail(what + ": throws on some instruction sets only");
}

/// The same without a check.
template <class Call>
void on_every_isa(const std::string& what, const Call& call) {
  on_every_isa(what, call, [](const char*, const std::vector<double>&) {});
}

/// |actual - exact| within relative * |exact| + absolute; NaN only where expected. On failure,
/// what() describes the number; building texts for every number would take most of a fuzzer's time.
template <class What>
void expect_near(const What& what, double actual, double exact, double relative, double absolute) {
  if (std::isnan(exact) && std::isnan(actual)) return;
  if (actual == exact) return;
  if (std::isinf(actual) && actual * exact > 0 && std::abs(exact) > 3.38e38) return;  // float's end
  if (std::abs(actual - exact) <= relative * std::abs(exact) + absolute) return;
  char message[200];
  std::snprintf(message, sizeof message, "%s is %.17g, exact %.17g", std::string(what()).c_str(),
                actual, exact);
  fail(message);
}

/// Fails if the largest error of some results, as a part of its bound, is above 1 or NaN.
inline void expect_within_bound(const char* what, double error) {
  if (!(error <= 1))
    fail(std::string(what) + " has " + std::to_string(error) + " times the error of the bound");
}

/// The relative error that storing a result as T may add to that of its computation.
template <class T>
constexpr double storage_rounding() {
  return std::is_same<T, bfloat16>::value ? 0x1p-8 : 0;
}

/// The relative error that a correct result may have once it is stored as T.
template <class T>
constexpr double tolerance() {
  return std::is_same<T, bfloat16>::value ? 0x1p-7 : std::is_same<T, float>::value ? 1e-5 : 1e-10;
}

}  // namespace vecdet::fuzz
