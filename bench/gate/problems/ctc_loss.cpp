// SPDX-License-Identifier: Apache-2.0
// CTC of two lines of speech: letters, whose cost is that of the states.
#include "../../plain/ctc_loss.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/ctc_loss.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

struct speech {
  index_t steps, samples, classes, labels;
  std::vector<float> logits, out;
  std::vector<std::int64_t> targets;
  std::vector<index_t> lengths;

  speech(index_t step_count, index_t sample_count, index_t class_count, index_t label_count)
      : steps(step_count),
        samples(sample_count),
        classes(class_count),
        labels(label_count),
        logits(normal<float>(steps * samples * classes, 0.0f, 2.0f, 1)),
        out(logits.size()),
        lengths(static_cast<std::size_t>(samples), labels) {
    for (index_t i = 0; i < samples * labels; ++i)
      targets.push_back(1 + (i * 7 + i / 3) % (classes - 1));
  }
  double run() {
    ctc_targets in;
    in.classes = targets;
    in.lengths = lengths;
    return ctc_loss_and_grad(
        sequences_view<const float>::steps_first(logits.data(), steps, samples, classes), in, {},
        sequences_view<float>::steps_first(out.data(), steps, samples, classes), {},
        own<ctc_workspace>(), sequential);
  }
};

const problems added{
    {"ctc_loss_and_grad//f32/200x2x29x60", make<speech>(200, 2, 29, 60), VECDET_GATE_CALL(d.run()),
     VECDET_GATE_CALL(bench::native::plain_ctc_loss(d.logits.data(), d.targets.data(), 200, 2, 29,
                                                    60, d.out.data()))},
};

}  // namespace
}  // namespace vecdet::gate
