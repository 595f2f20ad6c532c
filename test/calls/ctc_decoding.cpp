// SPDX-License-Identifier: Apache-2.0
#include "sequences.hpp"
#include <vecdet/ctc_decoding.hpp>

#include <tuple>

namespace vecdet::test {
namespace {

template <class T>
struct ctc_decoding_calls : sequence_operands<T> {
  using base = sequence_operands<T>;
  using base::classes, base::input_lengths, base::logits;
  ctc_decoding_workspace workspace;

  ctc_decoding_calls(operands& make, const problem& p) : base(make, p) {}

  static auto parts(const ctc_texts& texts) {
    return std::make_tuple(texts.classes, texts.steps, texts.probabilities, texts.offsets,
                           texts.log_probabilities);
  }

  void list(call_list& c) {
    const accesses inputs = reads(logits, input_lengths);
    c.add("ctc_greedy/", inputs, [this](threading policy) {
      return parts(ctc_greedy(this->template steps_first<const T>(logits), input_lengths.in(), 0,
                              workspace, policy));
    });
    c.add("ctc_greedy//samples_first", inputs, [this](threading policy) {
      return parts(ctc_greedy(this->template samples_first<const T>(logits), input_lengths.in(),
                              classes - 1, workspace, policy));
    });
  }
};

const registered_family registered =
    calls_of<ctc_decoding_calls, float, bfloat16, double>("ctc_decoding");

}  // namespace
}  // namespace vecdet::test
