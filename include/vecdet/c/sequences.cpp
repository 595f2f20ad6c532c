// SPDX-License-Identifier: Apache-2.0
// CTC, the loss of text and speech recognisers, and decoding. Logits are steps x samples x classes:
// class c of step t of sample n is element t * step_stride + n * sample_stride + c.
#include <vecdet/c/losses.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/ctc_beams.hpp>
#include <vecdet/ctc_decoding.hpp>
#include <vecdet/ctc_loss.hpp>

/// The targets of a batch, without blanks.
typedef struct vecdet_ctc_targets {
  const int64_t* classes;  ///< of all samples
  int64_t class_count;     ///< their number, with padding
  const int64_t* lengths;  ///< the number of classes of each sample
  int64_t stride;          ///< from one padded target to the next; 0: one directly after the other
} vecdet_ctc_targets;

namespace vecdet_c {
namespace {

/// The arguments of a call, apart from its results.
struct sequences {
  int64_t steps, samples, classes, step_stride, sample_stride;

  template <class T>
  sequences_view<T> view(T* data) const {
    return {data, steps, samples, classes, step_stride, sample_stride};
  }
};

ctc_targets targets_of(const vecdet_ctc_targets* targets, int64_t samples, const char* function) {
  detail::check(samples >= 0, function, "samples", samples, "0 or more");
  check_pointer(targets, function, "targets");
  ctc_targets result;
  result.classes = labels_view(targets->classes, targets->class_count);
  result.lengths = vector_view<const index_t>(targets->lengths, samples);
  result.stride = targets->stride;
  return result;
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// The sum of the losses. `input_lengths` null: each sample has all steps.
/// @unreduced Writes the loss of each sample to `losses`: double for double logits, otherwise
/// float.
/// @and_grad The sum and its gradient. `grad` has the strides of the logits, and may be their
/// memory.
VECDET_LOSS(ctc_loss, vecdet_dtype type, const void* logits, int64_t steps, int64_t samples,
            int64_t classes, int64_t step_stride, int64_t sample_stride,
            const vecdet_ctc_targets* targets, const int64_t* input_lengths,
            const vecdet_ctc_params* params, vecdet_workspace* workspace) {
  return guarded([&] {
    form.check();
    const ctc_targets t = targets_of(targets, samples, form.function);
    const auto p = params_of<ctc_params>(params, form.function, samples);
    const sequences shape{steps, samples, classes, step_stride, sample_stride};
    scratch memory(workspace);
    on_type(type, form.function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      using R = compute_type<T>;
      form.call([&](void* losses) { return vector_view<R>(as<R>(losses), samples); },
                [&](void* grad) { return shape.view(as<T>(grad)); },
                [&](const auto&... out) {
                  return compute(shape.view(as<T>(logits)), t,
                                 optional_view(input_lengths, samples), out..., p,
                                 memory.get<ctc_workspace>(), policy);
                });
    });
  });
}
/// The best path of each sample: the most probable class of each step, without repetitions and
/// blanks. Those of sample n are [offsets[n], offsets[n + 1]) of `labels`, with the first step of
/// each in `label_steps` and its probability there in `probabilities`; these have memory for steps
/// x samples, `offsets` for samples + 1, and `log_probabilities`, of the whole paths, for samples.
VECDET_C vecdet_status vecdet_ctc_greedy(vecdet_dtype type, const void* logits, int64_t steps,
                                         int64_t samples, int64_t classes, int64_t step_stride,
                                         int64_t sample_stride, const int64_t* input_lengths,
                                         int64_t blank, vecdet_workspace* workspace,
                                         int64_t* labels, int64_t* label_steps,
                                         float* probabilities, int64_t* offsets,
                                         double* log_probabilities) {
  constexpr const char* function = "ctc_greedy";
  return guarded([&] {
    const index_t most = steps > 0 && samples > 0;
    check_pointer(labels, function, "labels", most);
    check_pointer(label_steps, function, "label_steps", most);
    check_pointer(probabilities, function, "probabilities", most);
    check_pointer(offsets, function, "offsets");
    check_pointer(log_probabilities, function, "log_probabilities", samples);
    detail::check(samples >= 0, function, "samples", samples, "0 or more");
    const sequences shape{steps, samples, classes, step_stride, sample_stride};
    scratch memory(workspace);
    on_type(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const ctc_texts found =
          ctc_greedy(shape.view(as<T>(logits)), optional_view(input_lengths, samples), blank,
                     memory.get<ctc_decoding_workspace>(), policy);
      copy_view(found.classes, labels);
      copy_view(found.steps, label_steps);
      copy_view(found.probabilities, probabilities);
      copy_view(found.offsets, offsets);
      copy_view(found.log_probabilities, log_probabilities);
    });
  });
}
/// The most probable texts of each sample by prefix beam search. Those of sample n are
/// [sample_offsets[n], sample_offsets[n + 1]), the most probable first; the classes of text k are
/// [offsets[k], offsets[k + 1]) of `labels`, with the steps in which they begin, in the
/// text's most probable path, in `label_steps`. With params->texts texts per sample, `labels` and
/// `label_steps` have memory for steps x samples x texts, `offsets` for samples x texts + 1,
/// `log_probabilities` for samples x texts, and `sample_offsets` for samples + 1.
VECDET_C vecdet_status vecdet_ctc_beams(vecdet_dtype type, const void* logits, int64_t steps,
                                        int64_t samples, int64_t classes, int64_t step_stride,
                                        int64_t sample_stride, const int64_t* input_lengths,
                                        const vecdet_ctc_beams_params* params,
                                        vecdet_workspace* workspace, int64_t* labels,
                                        int64_t* label_steps, int64_t* offsets,
                                        double* log_probabilities, int64_t* sample_offsets) {
  constexpr const char* function = "ctc_beams";
  return guarded([&] {
    const index_t most = steps > 0 && samples > 0;
    check_pointer(labels, function, "labels", most);
    check_pointer(label_steps, function, "label_steps", most);
    check_pointer(offsets, function, "offsets");
    check_pointer(log_probabilities, function, "log_probabilities", samples);
    check_pointer(sample_offsets, function, "sample_offsets");
    detail::check(samples >= 0, function, "samples", samples, "0 or more");
    const auto p = params_of<ctc_beams_params>(params, function);
    const sequences shape{steps, samples, classes, step_stride, sample_stride};
    scratch memory(workspace);
    on_type(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const ctc_beam_results found =
          ctc_beams(shape.view(as<T>(logits)), optional_view(input_lengths, samples), p,
                    memory.get<ctc_beams_workspace>(), policy);
      copy_view(found.classes, labels);
      copy_view(found.steps, label_steps);
      copy_view(found.offsets, offsets);
      copy_view(found.log_probabilities, log_probabilities);
      copy_view(found.sample_offsets, sample_offsets);
    });
  });
}

#include <vecdet/c/generated/sequences_losses.hpp>
