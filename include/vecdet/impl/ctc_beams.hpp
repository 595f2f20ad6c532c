// SPDX-License-Identifier: Apache-2.0
// The functions of ctc_beams.hpp: checks, the profiler's scope, samples in chunks.
#pragma once

#include <vecdet/args/ctc_beams.hpp>
#include <vecdet/ctc_beams.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/value_of.hpp>

#include <algorithm>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/ctc_beams/ctc_beams.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T>
void check_ctc_beams(const char* function, const sequences_view<const T>& logits,
                     const vector_view<const index_t>& input_lengths,
                     const ctc_beams_params& params) {
  const index_t samples = logits.samples(), steps = logits.steps(), classes = logits.classes();
  check(classes >= 1, function, "logits.classes()", classes, "1 or more");
  if (params.blank < 0 || params.blank >= classes)
    throw_invalid_argument(function, "params.blank", params.blank, index_range(classes, "classes"));
  check(params.width >= 1 && params.width <= 10000, function, "params.width", params.width,
        "1 to 10000");
  if (params.texts < 1 || params.texts > params.width)
    throw_invalid_argument(function, "params.texts", params.texts,
                           "1 to " + std::to_string(params.width) + ", the width");
  check(params.max_classes >= 0, function, "params.max_classes", params.max_classes, "0 or more");
  check(is_within(params.min_probability, 0, 1), function, "params.min_probability",
        params.min_probability, "0 to 1");
  check_optional_size(function, "input_lengths.size()", input_lengths.size(), samples,
                      "the number of samples");
  for (index_t n = 0; n < input_lengths.size(); ++n)
    if (input_lengths[n] < 0 || input_lengths[n] > steps)
      throw_invalid_argument(function, element("input_lengths", n), input_lengths[n],
                             "0 to " + std::to_string(steps) + ", the logits' steps");
}

template <class T>
ctc_beam_results search_ctc_beams(const sequences_view<const T>& logits,
                                  const vector_view<const index_t>& input_lengths,
                                  const ctc_beams_params& params, ctc_beams_buffers& buffers,
                                  threading policy) {
  constexpr const char* function = "ctc_beams";
  check_ctc_beams(function, logits, input_lengths, params);
  const index_t samples = logits.samples(), steps = logits.steps();
  const isa target = active_isa();
  const profile::scope timing([&] {
    profile::problem p;
    p.function = function;
    p.variant = profile::numbered_name("width", static_cast<double>(params.width));
    p.type = dtype_name<T>();
    p.shape = {steps, samples, logits.classes()};
    p.implementation = isa_name(target);
    p.threads = policy.threads();
    p.bytes = steps * samples * logits.classes() * index_t{sizeof(T)};
    p.flops = 18 * steps * samples * logits.classes();
    return p;
  });
  ctc_beams_args<T> args{};
  args.logits = logits.data();
  args.step_stride = logits.step_stride();
  args.sample_stride = logits.sample_stride();
  args.steps = steps;
  args.classes = logits.classes();
  args.blank = params.blank;
  args.input_lengths = input_lengths.empty() ? nullptr : input_lengths.data();
  args.width = params.width;
  args.texts = params.texts;
  args.most_classes = params.max_classes == 0 ? args.classes : params.max_classes;
  args.min_probability = params.min_probability;

  const index_t most = samples * params.texts;
  index_t* const classes = grown(buffers.classes, most * steps);
  index_t* const places = grown(buffers.steps, most * steps);
  index_t* const lengths = grown(buffers.lengths, most);
  double* const logs = grown(buffers.log_probabilities, most);
  index_t* const counts = grown(buffers.counts, samples);
  index_t* const offsets = grown(buffers.offsets, most + 1);
  index_t* const sample_offsets = grown(buffers.sample_offsets, samples + 1);
  const auto& kernels = detail::kernels<ctc_beams_kernels<T>>(target);
  const chunking chunks(samples, 1);
  const index_t lines = lines_for<unsigned char>(kernels.scratch_size(args));
  const auto search = [&](index_t first, index_t last, cache_line* scratch) {
    for (index_t n = first; n < last; ++n) {
      const index_t text = n * params.texts;
      counts[n] = kernels.search(
          args, n, {classes + text * steps, places + text * steps, lengths + text, logs + text},
          scratch);
    }
  };
  for_each_chunk_with_memory(policy, chunks, buffers.scratch, lines, search);

  // Moves the texts together.
  index_t texts = 0, end = 0;
  sample_offsets[0] = 0;
  for (index_t n = 0; n < samples; ++n) {
    for (index_t k = n * params.texts; k < n * params.texts + counts[n]; ++k) {
      const index_t from = k * steps, length = lengths[k];
      std::copy(classes + from, classes + from + length, classes + end);
      std::copy(places + from, places + from + length, places + end);
      logs[texts] = logs[k];
      offsets[texts++] = end;
      end += length;
    }
    sample_offsets[n + 1] = texts;
  }
  offsets[texts] = end;
  return {{classes, end},
          {places, end},
          {offsets, texts + 1},
          {logs, texts},
          {sample_offsets, samples + 1}};
}

}  // namespace detail

template <class T>
ctc_beam_results ctc_beams(sequences_view<T> logits, vector_view<const index_t> input_lengths,
                           const ctc_beams_params& params, ctc_beams_workspace& workspace,
                           threading policy) {
  return detail::search_ctc_beams<value_of<T>>(
      logits, input_lengths, params, detail::workspace_access::buffers(workspace), policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
