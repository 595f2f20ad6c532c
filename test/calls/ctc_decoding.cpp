// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/ctc_decoding.hpp>

#include <tuple>

namespace vecdet::test {
namespace {

/// Shapes are steps x samples x classes.
template <class T>
struct ctc_decoding_calls {
  index_t steps, samples, classes;
  placed<index_t> input_lengths;
  placed_matrix<T> logits;
  ctc_decoding_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{5, 2, 1 + length}, {length, 3, 6}}; }
  static shape sized(index_t rows) { return {25, rows / 1000 + 4, 40}; }

  ctc_decoding_calls(operands& make, const problem& p)
      : steps(p.shape[0]),
        samples(p.shape[1]),
        classes(p.shape[2]),
        input_lengths(make.copy(all_input_lengths(p))),
        logits(make.matrix<T>(steps * samples, classes, -6, 6)) {}

  static std::vector<index_t> all_input_lengths(const problem& p) {
    std::vector<index_t> all;
    for (index_t n = 0; n < p.shape[1]; ++n) all.push_back(p.shape[0] - n % (p.shape[0] + 1) / 2);
    return all;
  }

  static auto parts(const ctc_texts& texts) {
    return std::make_tuple(texts.classes, texts.steps, texts.probabilities, texts.offsets,
                           texts.log_probabilities);
  }

  void list(call_list& c) {
    c.add("ctc_greedy/", reads(logits, input_lengths), [this](threading policy) {
      const sequences_view<const T> x(logits.data(), steps, samples, classes,
                                      logits.stride * samples, logits.stride);
      return parts(ctc_greedy(x, input_lengths.in(), 0, workspace, policy));
    });
    c.add("ctc_greedy//samples_first", reads(logits, input_lengths), [this](threading policy) {
      const sequences_view<const T> x(logits.data(), steps, samples, classes, logits.stride,
                                      logits.stride * steps);
      return parts(ctc_greedy(x, input_lengths.in(), classes - 1, workspace, policy));
    });
  }
};

const registered_family registered =
    calls_of<ctc_decoding_calls, float, bfloat16, double>("ctc_decoding");

}  // namespace
}  // namespace vecdet::test
