// SPDX-License-Identifier: Apache-2.0
// Compares the catalogue's calls between builds with different floating-point flags:
//
//   record <file>   writes the inputs and results of every call on each instruction set
//   equal <file>    on the recorded inputs, every result is bit-identical
//   close <file>    the results of ordinary numbers are within the tolerances of
//                   docs/portability.md; with special numbers, every call ends and accesses nothing
//                   outside its arrays
//
// Families may follow the file; without them, all run.
//
// Only the catalogue, calls/*.cpp, is compiled with the flags under test. Inputs are read from the
// file because the flags also change the generators of random numbers.
#include "calls/catalogue.hpp"
#include "support/available_isas.hpp"
#include "support/placed_memory.hpp"
#include <vecdet/dispatch.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// The greatest error of a result under -Ofast, divided by the larger of its magnitude and this
/// fraction of the largest in its array.
/// Sums of losses of float and bfloat16 are doubles, but sums of floats.
double tolerance_of(const std::string& name, std::size_t bytes) {
  if (bytes == 2) return 0x1p-7;
  return bytes == 8 && name.find("/f64 ") != std::string::npos ? 1e-11 : 4e-5;
}
double fraction_of(const std::string& name) {
  return name.find("conv3x3") == std::string::npos ? 1e-2 : 0.25;
}

/// The inputs of a call, or its results.
using texts = std::vector<std::string>;

void write(std::ostream& to, const std::string& text) {
  const auto size = static_cast<std::uint64_t>(text.size());
  to.write(reinterpret_cast<const char*>(&size), sizeof size);
  to.write(text.data(), static_cast<std::streamsize>(size));
}
bool read(std::istream& from, std::string& text) {
  std::uint64_t size = 0;
  if (!from.read(reinterpret_cast<char*>(&size), sizeof size)) return false;
  text.resize(size);
  if (!from.read(text.data(), static_cast<std::streamsize>(size)))
    throw std::runtime_error("the file is incomplete");
  return true;
}

/// The families to run; empty for all.
std::vector<std::string> wanted;

bool is_wanted(const family& f) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), f.name) != wanted.end();
}

/// Calls visit(set, source, name, call) for every call on every instruction set; the name is such
/// as "special nms/f32". Arrays end at an inaccessible page.
template <class Visit>
void for_each_named_call(const Visit& visit) {
  placed_memory at;
  at.place = {placement::ends_at_guard};
  for_each_available_isa([&](isa set) {
    std::map<std::string, int> known;  // a family may call a function twice
    for (const source from : {source::ordinary, source::special}) {
      for (const family& f : catalogue()) {
        if (!is_wanted(f)) continue;
        at.release();
        const call_set calls = f.make(at, {f.sized(333), from});
        for (const call& c : calls.calls) {
          const std::string name =
              (from == source::special ? "special " : "") + c.name + "/" + f.type;
          visit(set, from, name + " " + std::to_string(++known[name]), c);
        }
      }
    }
  });
}

std::string bytes_of(const results& of) { return {of.bytes().begin(), of.bytes().end()}; }

std::string results_name(isa set, const std::string& name) {
  return std::string(isa_name(set)) + " " + name;
}

void record(const std::string& file) {
  std::ofstream to(file, std::ios::binary);
  for_each_named_call([&](isa set, source, const std::string& name, const call& c) {
    if (set == isa::baseline) {  // inputs are the same for all
      write(to, name);
      const texts inputs = c.arrays.copied_inputs();
      write(to, std::to_string(inputs.size()));
      for (const std::string& input : inputs) write(to, input);
    }
    write(to, results_name(set, name));
    write(to, "1");
    write(to, bytes_of(c.results_of(threading::sequential)));
  });
  if (!to.flush()) throw std::runtime_error("cannot write " + file);
}

std::map<std::string, texts> recorded(const std::string& file) {
  std::ifstream from(file, std::ios::binary);
  std::map<std::string, texts> arrays;
  for (std::string name, count; read(from, name);) {
    read(from, count);
    texts parts(std::stoul(count));
    for (std::string& part : parts) read(from, part);
    if (!arrays.emplace(name, std::move(parts)).second)
      throw std::runtime_error("two calls are named " + name);
  }
  if (arrays.empty()) throw std::runtime_error("no calls in " + file);
  return arrays;
}

double number_at(const char* bytes, std::size_t size) {
  if (size == 8) {
    double number;
    std::memcpy(&number, bytes, sizeof number);
    return number;
  }
  std::uint32_t bits = 0;
  std::memcpy(size == 2 ? reinterpret_cast<char*>(&bits) + 2 : reinterpret_cast<char*>(&bits),
              bytes, size);
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

/// Whether one array of results is close to the expected one; says what is not.
bool is_close(const char* found, const char* expected, const results::run& run,
              const std::string& name) {
  if (!run.is_real) {
    if (std::memcmp(found, expected, run.count * run.size) == 0) return true;
    std::printf("  whole numbers differ\n");
    return false;
  }
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < run.count; ++i) {
    const double x = number_at(expected + i * run.size, run.size);
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < run.count; ++i) {
    const double x = number_at(expected + i * run.size, run.size);
    const double y = number_at(found + i * run.size, run.size);
    if (!std::isfinite(x) || x == y) continue;
    const double error =
        std::isfinite(y) ? std::fabs(y - x) / std::max(std::fabs(x), fraction_of(name) * largest)
                         : std::numeric_limits<double>::infinity();
    if (error > worst) worst = error, at = i;
  }
  if (worst <= tolerance_of(name, run.size)) return true;
  std::printf("  number %zu of %zu is %.9g, expected %.9g; error %.2g, largest %.9g\n", at,
              run.count, number_at(found + at * run.size, run.size),
              number_at(expected + at * run.size, run.size), worst, largest);
  return false;
}

bool all_close(const results& found, const std::string& expected, const std::string& name) {
  if (found.bytes().size() != expected.size()) {
    std::printf("  %zu bytes, expected %zu\n", found.bytes().size(), expected.size());
    return false;
  }
  std::size_t at = 0;
  bool close = true;
  for (const results::run& run : found.runs()) {
    close = is_close(found.bytes().data() + at, expected.data() + at, run, name) && close;
    at += run.count * run.size;
  }
  return close;
}

constexpr unsigned most_seconds = 60;  // per call: most take milliseconds
const char* running = "";

/// Names the call that does not end or accesses memory outside its arrays.
void name_call(int signal) {
  std::printf("%s: %s\n", running, signal == SIGALRM ? "does not end" : "invalid access");
  std::fflush(stdout);
  _exit(1);
}

constexpr int nothing_ran = -1;  // this processor lacks the program's instruction set

/// The number of calls whose results are not as required.
int compare(const std::string& file, bool bit_for_bit) {
  const std::map<std::string, texts> arrays = recorded(file);
  int compared = 0, ran = 0, wrong = 0;
  for_each_named_call([&](isa set, source from, const std::string& name, const call& c) {
    const std::string full_name = results_name(set, name);
    if (arrays.count(name) == 0 || arrays.count(full_name) == 0)
      throw std::runtime_error("the file lacks " + full_name);
    const texts& inputs = arrays.at(name);
    const std::string& expected = arrays.at(full_name)[0];
    if (inputs.size() != c.arrays.inputs.size())
      throw std::runtime_error(full_name + " has other inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].size() != c.arrays.inputs[i]->bytes)
        throw std::runtime_error(full_name + " has inputs of other sizes");
      std::memcpy(c.arrays.inputs[i]->address, inputs[i].data(), inputs[i].size());
    }
    running = full_name.c_str();
    alarm(most_seconds);
    const results found = c.results_of(threading::sequential);
    alarm(0);
    ++ran;
    if (!bit_for_bit && from == source::special) return;
    ++compared;
    if (bit_for_bit ? bytes_of(found) == expected : all_close(found, expected, name)) return;
    ++wrong;
    std::printf("%s: wrong\n", full_name.c_str());
  });
  std::printf("%d calls, %d compared, %d wrong\n", ran, compared, wrong);
  return ran == 0 ? nothing_ran : wrong;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count >= 3 ? arguments[1] : "";
  for (int i = 3; i < count; ++i) wanted.emplace_back(arguments[i]);
  std::signal(SIGALRM, name_call);
  std::signal(SIGSEGV, name_call);
  try {
    if (mode == "record") {
      record(arguments[2]);
      return 0;
    }
    if (mode == "equal" || mode == "close") {
      const int wrong = compare(arguments[2], mode == "equal");
      return wrong == nothing_ran ? 77 : wrong != 0;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vecdet_fast_math: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: vecdet_fast_math record|equal|close <file> [<family>...]\n");
  return 2;
}
