// SPDX-License-Identifier: Apache-2.0
// Prefix beam search of any logits, lengths, strides and limits: probabilities against the
// reference where logits are finite and moderate; texts have no blanks, ascending steps and
// descending probabilities.
#include "fuzz_input.hpp"
#include <vecdet/ctc_beams.hpp>
#include <vecdet/reference/ctc_beams.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  const index_t steps = in.integer(0, 10), samples = in.integer(0, 3);
  const index_t classes = in.flag() ? in.integer(1, 5) : in.integer(6, 40);
  const index_t stride = classes + in.one_of<index_t>({0, 1, 5});
  const bool steps_first = in.flag();
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  ctc_beams_params params;
  params.blank = in.integer(0, classes - 1);
  params.width = in.integer(1, 9);
  params.texts = in.integer(1, params.width);
  params.max_classes = in.one_of<index_t>({0, 1, 3, 1000});
  params.min_probability = in.one_of({0.0, 0.05, 1e-4, 1.0});
  std::vector<index_t> lengths;
  for (index_t n = 0; n < samples; ++n) lengths.push_back(in.integer(0, steps));
  const index_t rows = steps * samples;
  const auto logits = in.numbers<T>(rows == 0 ? 0 : (rows - 1) * stride + classes);
  const index_t step_stride = steps_first ? stride * samples : stride;
  const index_t sample_stride = steps_first ? stride : stride * steps;
  const sequences_view<const T> view(logits.data(), steps, samples, classes, step_stride,
                                     sample_stride);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  ctc_beams_workspace workspace;
  fuzz::on_every_isa("CTC's beams", [&](fuzz::results& results) {
    const ctc_beam_results found = ctc_beams(view, lengths, params, workspace, policy);
    for (index_t n = 0; n < samples; ++n) {
      const index_t length = lengths[static_cast<std::size_t>(n)];
      const index_t first = found.sample_offsets[n], last = found.sample_offsets[n + 1];
      if (last - first > params.texts) fuzz::fail("there are too many texts");
      for (index_t k = first; k < last; ++k) {
        results.add(found.log_probabilities[k]);
        if (k > first && found.log_probabilities[k] > found.log_probabilities[k - 1])
          fuzz::fail("texts are not in order");
        for (index_t i = found.offsets[k]; i < found.offsets[k + 1]; ++i) {
          results.add(static_cast<double>(found.classes[i]));
          results.add(static_cast<double>(found.steps[i]));
          if (found.classes[i] < 0 || found.classes[i] >= classes ||
              found.classes[i] == params.blank)
            fuzz::fail("a text has no class");
          if (found.steps[i] < 0 || found.steps[i] >= length ||
              (i > found.offsets[k] && found.steps[i] <= found.steps[i - 1]))
            fuzz::fail("the steps of a text do not ascend");
        }
      }
      double most = 0;
      std::vector<std::vector<double>> log_p;
      for (index_t t = 0; t < length; ++t) {
        std::vector<double> x(view.row(t, n), view.row(t, n) + classes);
        for (const double number : x)
          most = std::max(most, std::isfinite(number) ? std::abs(number) : infinity);
        const double greatest = *std::max_element(x.begin(), x.end());
        double sum = 0;
        for (const double number : x) sum += std::exp(number - greatest);
        for (double& number : x) number = number - greatest - std::log(sum);
        log_p.push_back(x);
      }
      // Rounding decides which classes are as probable as the limit.
      if (most > 1000 || params.min_probability > 0) continue;
      double margin = 0;
      const auto exact = reference::ctc_beams(
          [&](index_t t, index_t c) {
            return log_p[static_cast<std::size_t>(t)][static_cast<std::size_t>(c)];
          },
          length, classes, params.blank, params.width,
          params.max_classes == 0 ? classes : params.max_classes, -infinity, &margin);
      if (last - first != std::min(params.texts, static_cast<index_t>(exact.size())))
        fuzz::fail("there are other texts");
      if (last > first && margin > 1e-4)
        fuzz::expect_near([] { return "the best text's probability"; },
                          found.log_probabilities[first], exact[0].all(), 1e-5,
                          1e-5 * static_cast<double>(steps));
    }
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}
