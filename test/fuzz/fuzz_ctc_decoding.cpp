// SPDX-License-Identifier: Apache-2.0
// The best path of any logits under any strides and lengths: classes and steps must be those of a
// plain loop, on every instruction set.
#include "sequence_input.hpp"
#include <vecdet/ctc_decoding.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  const fuzz::sequence_shape given(in, 60, 4, 9, 150);
  const index_t samples = given.samples, classes = given.classes;
  const std::vector<index_t>& lengths = given.lengths;
  const index_t blank = in.integer(0, classes - 1);
  const auto logits = in.numbers<T>(given.size);
  const auto view = given.view(static_cast<const T*>(logits.data()));
  ctc_decoding_workspace workspace;
  fuzz::on_every_isa("CTC's best path", [&](fuzz::results& results) {
    const ctc_texts found = ctc_greedy(view, lengths, blank, workspace, given.policy);
    index_t i = 0;
    for (index_t n = 0; n < samples; ++n) {
      if (found.offsets[n] != i) fuzz::fail("a text begins elsewhere");
      index_t before = blank;
      for (index_t t = 0; t < lengths[static_cast<std::size_t>(n)]; ++t) {
        const T* const x = view.row(t, n);
        const auto number = [&](index_t c) {
          const double value = static_cast<double>(x[c]);
          return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
        };
        index_t best = 0;
        for (index_t c = 1; c < classes; ++c)
          if (number(c) > number(best) ||
              (std::isnan(static_cast<double>(x[best])) && !std::isnan(static_cast<double>(x[c]))))
            best = c;
        if (best != blank && best != before) {
          if (i >= found.classes.size() || found.classes[i] != best || found.steps[i] != t)
            fuzz::fail("a class of the best path differs");
          ++i;
        }
        before = best;
      }
    }
    if (found.classes.size() != i || found.offsets[samples] != i)
      fuzz::fail("the best path has other classes");
    for (const float probability : found.probabilities) {
      if (!std::isnan(probability) && !(probability > 0 && probability < 1.0001f))
        fuzz::fail("a probability is out of range");
      results.add(static_cast<double>(probability));
    }
    for (const double log : found.log_probabilities) results.add(log);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}
