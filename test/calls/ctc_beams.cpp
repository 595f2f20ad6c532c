// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/ctc_beams.hpp>

#include <tuple>

namespace vecdet::test {
namespace {

/// Shapes are steps x samples x classes.
template <class T>
struct ctc_beams_calls {
  index_t steps, samples, classes, width;
  placed<index_t> input_lengths;
  placed_matrix<T> logits;
  ctc_beams_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{5, 2, 1 + length}, {length, 3, 6}}; }
  static shape sized(index_t rows) { return {25, rows / 1000 + 4, 40}; }
  static bool takes(const problem& p) { return width_of(p) >= 1 && width_of(p) <= 10000; }
  static index_t width_of(const problem& p) { return number_after<index_t>("width", p.variant, 5); }

  ctc_beams_calls(operands& make, const problem& p)
      : steps(p.shape[0]),
        samples(p.shape[1]),
        classes(p.shape[2]),
        width(width_of(p)),
        input_lengths(make.copy(all_input_lengths(p))),
        logits(make.matrix<T>(steps * samples, classes, -6, 6)) {}

  static std::vector<index_t> all_input_lengths(const problem& p) {
    std::vector<index_t> all;
    for (index_t n = 0; n < p.shape[1]; ++n) all.push_back(p.shape[0] - n % (p.shape[0] + 1) / 2);
    return all;
  }
  static auto parts(const ctc_beam_results& texts) {
    return std::make_tuple(texts.classes, texts.steps, texts.offsets, texts.log_probabilities,
                           texts.sample_offsets);
  }

  void list(call_list& c) {
    ctc_beams_params params;
    params.width = width;
    const std::string name = text_of("ctc_beams/width", width);
    c.add(name, reads(logits, input_lengths), [=](threading policy) {
      const sequences_view<const T> x(logits.data(), steps, samples, classes,
                                      logits.stride * samples, logits.stride);
      return parts(ctc_beams(x, input_lengths.in(), params, workspace, policy));
    });
    params.texts = width;
    params.max_classes = 3;
    params.min_probability = 1e-3;
    params.blank = classes - 1;
    c.add(name + "/limited", reads(logits, input_lengths), [=](threading policy) {
      const sequences_view<const T> x(logits.data(), steps, samples, classes, logits.stride,
                                      logits.stride * steps);
      return parts(ctc_beams(x, input_lengths.in(), params, workspace, policy));
    });
  }
};

const registered_family registered =
    calls_of<ctc_beams_calls, float, bfloat16, double>("ctc_beams");

}  // namespace
}  // namespace vecdet::test
