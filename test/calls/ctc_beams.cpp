// SPDX-License-Identifier: Apache-2.0
#include "sequences.hpp"
#include <vecdet/ctc_beams.hpp>

#include <tuple>

namespace vecdet::test {
namespace {

template <class T>
struct ctc_beams_calls : sequence_operands<T> {
  using base = sequence_operands<T>;
  using base::classes, base::input_lengths, base::logits;
  index_t width;
  ctc_beams_workspace workspace;

  static bool takes(const problem& p) { return width_of(p) >= 1 && width_of(p) <= 10000; }
  static index_t width_of(const problem& p) { return number_after<index_t>("width", p.variant, 5); }

  ctc_beams_calls(operands& make, const problem& p) : base(make, p), width(width_of(p)) {}

  static auto parts(const ctc_beam_results& texts) {
    return std::make_tuple(texts.classes, texts.steps, texts.offsets, texts.log_probabilities,
                           texts.sample_offsets);
  }

  void list(call_list& c) {
    ctc_beams_params params;
    params.width = width;
    const std::string name = text_of("ctc_beams/width", width);
    const accesses inputs = reads(logits, input_lengths);
    c.add(name, inputs, [this, params](threading policy) {
      return parts(ctc_beams(this->template steps_first<const T>(logits), input_lengths.in(),
                             params, workspace, policy));
    });
    params.texts = width;
    params.max_classes = 3;
    params.min_probability = 1e-3;
    params.blank = classes - 1;
    c.add(name + "/limited", inputs, [this, params](threading policy) {
      return parts(ctc_beams(this->template samples_first<const T>(logits), input_lengths.in(),
                             params, workspace, policy));
    });
  }
};

const registered_family registered =
    calls_of<ctc_beams_calls, float, bfloat16, double>("ctc_beams");

}  // namespace
}  // namespace vecdet::test
