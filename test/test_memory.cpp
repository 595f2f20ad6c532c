// SPDX-License-Identifier: Apache-2.0
// No function reads or writes outside its arguments, and where they lie changes no bit of a result:
// every function, element type and instruction set, at lengths around the vector and block widths,
// with arrays that end at an inaccessible page, that start after one, and at every misalignment.
#include "support/isa.hpp"
#include "support/placed_memory.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// The bytes of all results of a call.
class result_bytes {
 public:
  template <class T>
  void add(const T* values, index_t count) {
    const char* first = reinterpret_cast<const char*>(values);
    bytes_.insert(bytes_.end(), first, first + count * static_cast<index_t>(sizeof(T)));
  }
  template <class T>
  void add(const T& value) {
    add(&value, 1);
  }
  bool operator==(const result_bytes& other) const { return bytes_ == other.bytes_; }

 private:
  std::vector<char> bytes_;
};

/// Runs call(memory, results), which takes all its arrays from `memory`, at every placement on
/// every instruction set, and compares the results with those of aligned memory.
template <class Call>
void check_placements(const Call& call) {
  placed_memory memory;
  for_each_isa([&](isa) {
    const auto results_at = [&](placement place) {
      memory.place = place;
      memory.release();
      result_bytes results;
      call(memory, results);
      return results;
    };
    const result_bytes aligned = results_at({placement::offset, 0});
    CHECK(results_at({placement::ends_at_guard}) == aligned);
    CHECK(results_at({placement::starts_at_guard}) == aligned);
  });
}

/// Likewise at every distance from an aligned address in steps of the element.
template <class T, class Call>
void check_alignments(const Call& call) {
  placed_memory memory;
  for_each_isa([&](isa) {
    result_bytes aligned;
    for (index_t offset = 0; offset < 64; offset += static_cast<index_t>(sizeof(T))) {
      memory.place = {placement::offset, offset};
      memory.release();
      result_bytes results;
      call(memory, results);
      if (offset == 0) aligned = results;
      INFO("offset ", offset, " bytes");
      CHECK(results == aligned);
    }
  });
}

/// Element counts around the lanes of a batch, of a row and of a block.
const std::vector<index_t> lengths = {1,   2,   3,   4,   5,   7,   8,   9,   15,  16,  17, 23,
                                      31,  32,  33,  47,  63,  64,  65,  80,  91,  95,  96, 97,
                                      112, 126, 127, 128, 129, 130, 255, 256, 257, 383, 385};

constexpr execution sequential = execution::sequential;

// ---- focal loss

template <class T>
void focal_loss_call(placed_memory& memory, result_bytes& results, index_t rows, index_t cols,
                     index_t padding, double gamma, bool dense) {
  const index_t stride = cols + padding, extent = (rows - 1) * stride + cols;
  const T* logits = memory.copy(random_logits<T>(extent, 1));
  const matrix_view<const T> x(logits, rows, cols, stride);
  focal_loss_params params;
  params.gamma = gamma;
  const index_t* labels = memory.copy(random_labels(rows, cols, 2));
  std::vector<T> target_values(static_cast<std::size_t>(extent));
  random_generator generator(3);
  for (T& t : target_values) t = to<T>(generator.chance(0.1) ? generator.uniform() : 0.0);
  const matrix_view<const T> targets(memory.copy(target_values), rows, cols, stride);
  const std::vector<float> weights(static_cast<std::size_t>(rows), 0.5f);
  if (padding > 0) params.row_weights = {memory.copy(weights), rows};
  const focal_targets<T> truth =
      dense ? focal_targets<T>(targets) : focal_targets<T>(labels_view(labels, rows));
  const matrix_view<T> out(memory.make<T>(extent), rows, cols, stride);

  results.add(sigmoid_focal_loss(x, truth, params, sequential));
  results.add(sigmoid_focal_loss_and_grad(x, truth, out, params, sequential));
  results.add(out.data(), extent);  // with the padding, which must stay as it was
  sigmoid_focal_loss_unreduced(x, truth, out, params, sequential);
  results.add(out.data(), extent);
  const matrix_view<const T> upstream(memory.copy(random_logits<T>(extent, 4)), rows, cols, stride);
  sigmoid_focal_loss_grad(x, truth, upstream, out, params, sequential);
  results.add(out.data(), extent);
}

template <class T>
void focal_loss_memory() {
  for (const index_t cols : lengths) {
    const index_t rows = 1 + cols % 3, padding = cols % 2 == 0 ? 0 : 1 + cols % 5;
    for (const bool dense : {false, true}) {
      for (const double gamma : {2.0, 1.5}) {
        INFO("rows ", rows, " cols ", cols, " padding ", padding, " gamma ", gamma, " dense ",
             dense);
        check_placements([&](placed_memory& memory, result_bytes& results) {
          focal_loss_call<T>(memory, results, rows, cols, padding, gamma, dense);
        });
      }
    }
  }
  for (const bool dense : {false, true}) {
    check_alignments<T>([&](placed_memory& memory, result_bytes& results) {
      focal_loss_call<T>(memory, results, 3, 91, 0, 2, dense);
    });
  }
}

}  // namespace

TEST_CASE("memory: a guard page traps") {
  // The tests below rest on it.
  placed_memory memory;
  const auto dies = [&](placement place, index_t element) {
    memory.place = place;
    memory.release();
    volatile char* array = memory.make<char>(100);
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGSEGV, SIG_DFL);
      array[element] = array[element];
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  };
  CHECK(dies({placement::ends_at_guard}, 100));
  CHECK_FALSE(dies({placement::ends_at_guard}, 99));
  CHECK(dies({placement::starts_at_guard}, -1));
  CHECK_FALSE(dies({placement::starts_at_guard}, 0));
}

TEST_CASE("memory: focal loss, float") { focal_loss_memory<float>(); }
TEST_CASE("memory: focal loss, bfloat16") { focal_loss_memory<bfloat16>(); }
TEST_CASE("memory: focal loss, double") { focal_loss_memory<double>(); }
