// SPDX-License-Identifier: Apache-2.0
// Prefix beam search of any logits, lengths, strides and limits: probabilities against the
// reference where logits are finite and moderate; texts have no blanks, ascending steps and
// descending probabilities.
#include "sequence_input.hpp"
#include <vecdet/ctc_beams.hpp>
#include <vecdet/reference/ctc_beams.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  const fuzz::sequence_shape given(in, 10, 3, 5, 40);
  ctc_beams_params params;
  params.blank = in.integer(0, given.classes - 1);
  params.width = in.integer(1, 9);
  params.texts = in.integer(1, params.width);
  params.max_classes = in.one_of<index_t>({0, 1, 3, 1000});
  params.min_probability = in.one_of({0.0, 0.05, 1e-4, 1.0});
  const auto logits = in.numbers<T>(given.size);
  const auto view = given.view(static_cast<const T*>(logits.data()));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  ctc_beams_workspace workspace;
  fuzz::on_every_isa("CTC's beams", [&](fuzz::results& results) {
    const ctc_beam_results found = ctc_beams(view, given.lengths, params, workspace, given.policy);
    for (index_t n = 0; n < given.samples; ++n) {
      const index_t length = given.lengths[static_cast<std::size_t>(n)];
      const index_t first = found.sample_offsets[n], last = found.sample_offsets[n + 1];
      if (last - first > params.texts) fuzz::fail("there are too many texts");
      for (index_t k = first; k < last; ++k) {
        results.add(found.log_probabilities[k]);
        if (k > first && found.log_probabilities[k] > found.log_probabilities[k - 1])
          fuzz::fail("texts are not in order");
        for (index_t i = found.offsets[k]; i < found.offsets[k + 1]; ++i) {
          results.add(static_cast<double>(found.classes[i]));
          results.add(static_cast<double>(found.steps[i]));
          if (found.classes[i] < 0 || found.classes[i] >= given.classes ||
              found.classes[i] == params.blank)
            fuzz::fail("a text has no class");
          if (found.steps[i] < 0 || found.steps[i] >= length ||
              (i > found.offsets[k] && found.steps[i] <= found.steps[i - 1]))
            fuzz::fail("the steps of a text do not ascend");
        }
      }
      double most = 0;
      const test::step_probabilities log_p(logits.data() + n * given.sample_stride, length,
                                           given.step_stride, given.classes);
      for (index_t t = 0; t < length; ++t)
        for (index_t c = 0; c < given.classes; ++c) {
          const double number = static_cast<double>(view.row(t, n)[c]);
          most = std::max(most, std::isfinite(number) ? std::abs(number) : infinity);
        }
      // Rounding decides which classes are as probable as the limit.
      if (most > 1000 || params.min_probability > 0) continue;
      double margin = 0;
      const auto exact = reference::ctc_beams(
          log_p, length, given.classes, params.blank, params.width,
          params.max_classes == 0 ? given.classes : params.max_classes, -infinity, &margin);
      if (last - first != std::min(params.texts, static_cast<index_t>(exact.size())))
        fuzz::fail("there are other texts");
      if (last > first && margin > 1e-4)
        fuzz::expect_near([] { return "the best text's probability"; },
                          found.log_probabilities[first], exact[0].all(), 1e-5,
                          1e-5 * static_cast<double>(given.steps));
    }
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}
