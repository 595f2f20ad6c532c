// SPDX-License-Identifier: Apache-2.0
// Prefix beam search of CTC's logits, for text with 10 and for speech with 25 prefixes. Shapes are
// steps x samples x classes x width. Elements are logits.
//
// Bound: each logit is read once and has one exponential, as in ctc_greedy; each prefix needs about
// three logarithms and exponentials per step.
#include "../test/support/random.hpp"
#include "plain/ctc_beams.hpp"
#include "support/implementations.hpp"
#include <vecdet/ctc_beams.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

struct beams_shape {
  index_t steps, samples, classes, width;

  std::string name() const { return joined({steps, samples, classes, width}); }
  index_t size() const { return steps * samples * classes; }
};

struct beams_operands {
  beams_shape shape;
  std::vector<float> logits;
  std::vector<double> log_probabilities;  ///< of the best texts
  ctc_beams_workspace workspace;

  explicit beams_operands(const beams_shape& of)
      : shape(of),
        logits(static_cast<std::size_t>(of.size())),
        log_probabilities(static_cast<std::size_t>(of.samples)) {
    test::random_generator random(1);
    for (float& x : logits) x = static_cast<float>(random.uniform(-3, 3));
    // Recognisers are sure of most steps.
    for (index_t row = 0; row < of.steps * of.samples; ++row)
      logits[static_cast<std::size_t>(row * of.classes + random.below(of.classes))] = 9;
  }
  double run(threading policy) {
    ctc_beams_params params;
    params.width = shape.width;
    const ctc_beam_results found =
        ctc_beams(sequences_view<const float>::steps_first(logits.data(), shape.steps,
                                                           shape.samples, shape.classes),
                  {}, params, workspace, policy);
    std::copy(found.log_probabilities.begin(), found.log_probabilities.end(),
              log_probabilities.begin());
    return static_cast<double>(found.classes.size());
  }
};

const bool registered = [] {
  for (const beams_shape& shape : {beams_shape{40, 64, 6625, 10}, beams_shape{500, 16, 29, 25}}) {
    const auto elements = static_cast<double>(shape.size());
    register_with_plain(
        "ctc_beams/f32/" + shape.name(), {elements, elements * 4},
        [=] { return current_data<beams_operands>(shape.name(), shape); },
        [](beams_operands& d, threading policy) { return d.run(policy); },
        [](beams_operands& d) {
          return VECDET_PLAIN(plain_ctc_beams)(d.logits.data(), d.shape.steps, d.shape.samples,
                                               d.shape.classes, d.shape.width,
                                               d.log_probabilities.data());
        },
        &beams_operands::log_probabilities);
  }
  show_in_figures("ctc_beams/f32/500x16x29x25");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
