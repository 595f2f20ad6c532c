// SPDX-License-Identifier: Apache-2.0
// More than 2^31 elements through the focal loss and the top-k filter in bfloat16, on every
// instruction set: 4.3 GB of logits, checked by closed forms and by answers planted beyond 2^31.
// Prints the memory that each call took. Exits with 77 if the machine has too little. The
// environment variable VECDET_ISA selects a single instruction set.
#include "support/values.hpp"
#include <vecdet/filter_topk.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/reference/focal_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

using namespace vecdet;

namespace {

constexpr index_t rows = 27000000, cols = 80, elements = rows * cols;
constexpr index_t border = index_t{1} << 31;
static_assert(elements > border + 12 * 1000 * 1000, "the last rows are well beyond");

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::printf("FAILED on %s: %s\n", isa_name(active_isa()), what.c_str());
}
/// Within 8 times 2^-24, about the documented accuracy of each loss: five losses repeat, so their
/// errors do not cancel.
void expect_near(double actual, double exact, const std::string& what) {
  expect(std::abs(actual - exact) <= 8 * 0x1p-24 * std::abs(exact),
         what + " is " + std::to_string(actual) + ", exact " + std::to_string(exact));
}

/// A line of /proc, in bytes.
index_t kilobytes(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, name.size() + 1, name + ":") == 0)
      return 1024 * std::atoll(line.c_str() + name.size() + 1);
  return 0;
}
index_t status(const std::string& name) { return kilobytes("/proc/self/status", name); }

/// Runs a call and limits it to 64 MB beyond the memory in use before.
template <class Call>
void measured(const char* what, const Call& call) {
  std::ofstream("/proc/self/clear_refs") << 5;  // resets the high-water mark
  const index_t before = status("VmRSS");
  call();
  const index_t beyond = status("VmHWM") - before;
  std::printf("%-9s %-28s %8.1f MB peak, %6.1f MB of them by this call\n", isa_name(active_isa()),
              what, 1e-6 * static_cast<double>(status("VmHWM")),
              1e-6 * static_cast<double>(beyond));
  expect(beyond < 64000000, std::string(what) + " took memory");
}

/// Five repeating logits; all are exact in bfloat16, and all are targets in [0, 1].
constexpr double cycle[] = {0, 0.25, 1, 0.5, 0.125};
static_assert(cols % 5 == 0, "every row is the same");

void fill(bfloat16* logits) {
  constexpr index_t block = 5 << 16;
  for (index_t i = 0; i < block; ++i) logits[i] = test::to<bfloat16>(cycle[i % 5]);
  for (index_t i = block; i < elements; i += block)
    std::memcpy(logits + i, logits, 2 * static_cast<std::size_t>(std::min(block, elements - i)));
}

template <class Loss>
double sum_of_cycle(const Loss& loss) {
  double sum = 0;
  for (const double x : cycle) sum += loss(x);
  return sum * static_cast<double>(elements / 5);
}
double negative(double x) { return reference::hard_focal_loss(x, false, 0.25, 2); }
double positive(double x) { return reference::hard_focal_loss(x, true, 0.25, 2); }
float rounded_grad(double x, bool is_positive) {
  return test::to<bfloat16>(reference::hard_focal_loss_grad(x, is_positive, 0.25, 2));
}

void focal_loss_of_rows(bfloat16* memory) {
  fill(memory);
  const matrix_view<const bfloat16> logits(memory, rows, cols);
  std::vector<std::int32_t> labels(rows, -1);
  labels[rows - 3] = 6;
  labels[rows - 2] = -2;
  double row_sum = 0;
  for (index_t j = 0; j < cols; ++j) row_sum += negative(cycle[j % 5]);
  const double exact = sum_of_cycle(negative) - negative(cycle[1]) + positive(cycle[1]) - row_sum;
  double loss = 0;
  measured("loss, labels", [&] { loss = sigmoid_focal_loss(logits, labels); });
  expect_near(loss, exact, "the loss");
  measured("loss, dense targets", [&] {
    loss = sigmoid_focal_loss(logits, logits);  // each logit is its own target
  });
  expect_near(loss,
              sum_of_cycle([](double x) { return reference::soft_focal_loss(x, x, 0.25, 2); }),
              "the loss of dense targets");
  measured("loss and gradient, in place", [&] {
    loss = sigmoid_focal_loss_and_grad(logits, labels, matrix_view<bfloat16>(memory, rows, cols));
  });
  expect_near(loss, exact, "the loss with gradient");
  index_t wrong = 0;
  const auto check = [&](index_t i, index_t j, float grad) {
    wrong += !(std::abs(static_cast<float>(logits(i, j)) - grad) <= 0.005f * std::abs(grad));
  };
  for (index_t j = 0; j < cols; ++j) {
    check(0, j, rounded_grad(cycle[j % 5], false));
    check(rows - 3, j, rounded_grad(cycle[j % 5], j == 6));
    check(rows - 2, j, 0);
  }
  for (index_t i = 1; i < rows; ++i)  // all other rows have the bits of the first
    if (i != rows - 3 && i != rows - 2)
      wrong += std::memcmp(logits.row(i), memory, cols * sizeof(bfloat16)) != 0;
  expect(wrong == 0, std::to_string(wrong) + " gradients, or rows of gradients, are wrong");
}

void focal_loss_of_one_row(bfloat16* memory) {
  fill(memory);
  const index_t label = border + 5 * 12345 + 2;
  double loss = 0;
  measured("loss and gradient, one row", [&] {
    loss = sigmoid_focal_loss_and_grad(matrix_view<const bfloat16>(memory, 1, elements),
                                       std::vector<index_t>{label},
                                       matrix_view<bfloat16>(memory, 1, elements));
  });
  const double x = cycle[label % 5];
  expect_near(loss, sum_of_cycle(negative) - negative(x) + positive(x), "the loss of one row");
  expect(static_cast<float>(memory[label]) < 0, "the gradient of the label in one row");
  expect(
      static_cast<float>(memory[label - border]) > 0 && static_cast<float>(memory[label - 5]) > 0,
      "the gradients around it");
}

void filter_topk_of(bfloat16* memory) {
  fill(memory);
  const std::vector<index_t> ties{17, border - 1, border, border + 1, elements - 1};
  for (const index_t i : ties) memory[i] = bfloat16(3.0f);
  memory[border + 1000003] = bfloat16(8.0f);
  memory[elements - 2] = bfloat16(4.0f);
  std::vector<index_t> expected{border + 1000003, elements - 2};
  expected.insert(expected.end(), ties.begin(), ties.end());
  filter_topk_workspace workspace;
  for (const threading policy : {threading::sequential, threading::parallel}) {
    for (const index_t k : {5, 7}) {
      filter_topk_result found;
      measured(policy.threads() == 1 ? "top-k, one thread" : "top-k, all threads", [&] {
        found =
            filter_topk(matrix_view<const bfloat16>(memory, rows, cols), 0.9, k, workspace, policy);
      });
      expect(std::vector<index_t>(found.elements.begin(), found.elements.end()) ==
                 std::vector<index_t>(expected.begin(), expected.begin() + k),
             "the best " + std::to_string(k));
    }
    // The first of a thousand that tie with 400 million others.
    const auto found =
        filter_topk(matrix_view<const bfloat16>(memory, rows, cols), 0.7, 1000, workspace, policy);
    expect(found.elements.size() == 1000 && found.elements[7] == 2 && found.elements[999] == 4967,
           "the first of many ties");
  }
}

}  // namespace

int main() {
  constexpr index_t needed = 2 * elements + 1200000000;
  if (kilobytes("/proc/meminfo", "MemAvailable") < needed) {
    std::printf("skipped: %.1f GB of memory are needed\n", 1e-9 * static_cast<double>(needed));
    return 77;
  }
  const std::unique_ptr<bfloat16[]> memory(new bfloat16[elements]);
  fill(memory.get());
  const char* only = std::getenv("VECDET_ISA");
  for (const isa set : {isa::avx512, isa::avx2, isa::baseline}) {
    if (!isa_available(set) || (only != nullptr && only != std::string(isa_name(set)))) continue;
    set_isa(set);
    focal_loss_of_rows(memory.get());
    focal_loss_of_one_row(memory.get());
    filter_topk_of(memory.get());
  }
  std::printf("%lld elements: %s\n", static_cast<long long>(elements),
              failures == 0 ? "all as expected" : "FAILED");
  return failures == 0 ? 0 : 1;
}
