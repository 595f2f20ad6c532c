// SPDX-License-Identifier: Apache-2.0
// Threshold and top-k of any logits, shape and stride, against a stable sort.
#include "fuzz_input.hpp"
#include "support/random.hpp"

#include <algorithm>

using namespace vecdet;

namespace {

/// Logits byte by byte, or many from a seed: enough for several chunks and for more candidates than
/// fit into the memory.
template <class T>
fuzz::tensor<T> any_logits(fuzz::input& in, index_t count, bool large) {
  if (!large) return in.numbers<T>(count);
  test::random_generator random(in.bits<std::uint64_t>());
  const double spread = in.one_of({0.01, 1.0, 10.0}), slope = in.one_of({0.0, 1e-4, -1e-4});
  const fuzz::tensor<T> logits(count);
  for (index_t i = 0; i < count; ++i)
    logits.data()[i] =
        test::to<T>(spread * (random.uniform() - 0.9) + slope * static_cast<double>(i));
  return logits;
}

template <class T>
void topk(fuzz::input& in) {
  const bool large = in.byte() < 8;
  const index_t cols = large ? in.integer(1, 3000) : in.integer(0, 300);
  const index_t rows = large ? 100000 / cols : in.integer(0, 9);
  const index_t stride = cols + in.one_of<index_t>({0, 0, 1, 5});
  const double threshold = in.one_of({0.05, 0.0, 1.0, 0.5, in.tame(0, 1), -0.5});
  const index_t k = in.one_of<index_t>({1000, 1, 0, 10, 100000, in.integer(0, 400), -1});
  const auto values = any_logits<T>(in, rows == 0 ? 0 : (rows - 1) * stride + cols, large);
  const matrix_view<const T> logits(values.data(), rows, cols, stride);

  const auto at = [&](index_t i) { return static_cast<double>(logits(i / cols, i % cols)); };
  std::vector<index_t> expected;
  for (index_t i = 0; i < logits.size(); ++i)
    if (at(i) > logit_of(threshold)) expected.push_back(i);
  std::stable_sort(expected.begin(), expected.end(),
                   [&](index_t a, index_t b) { return at(a) > at(b); });
  if (k >= 0 && static_cast<index_t>(expected.size()) > k)
    expected.resize(static_cast<std::size_t>(k));

  filter_topk_workspace workspace;
  fuzz::on_every_isa(std::string("top-k ") + dtype_name<T>(), [&](fuzz::results& results) {
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const filter_topk_result found = filter_topk(logits, threshold, k, workspace, policy);
      results.add(static_cast<double>(found.elements.size()));
      if (std::vector<index_t>(found.elements.begin(), found.elements.end()) != expected)
        fuzz::fail(std::string("top-k on ") + isa_name(active_isa()) + " differs from a sort");
      for (index_t i = 0; i < found.logits.size(); ++i)
        if (static_cast<double>(found.logits[i]) != at(expected[static_cast<std::size_t>(i)]))
          fuzz::fail("the logit of a result is not that of its element");
    }
  });
}

}  // namespace

void fuzz::target(input& in) { in.flag() ? topk<float>(in) : topk<bfloat16>(in); }
