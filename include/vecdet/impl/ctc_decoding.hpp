// SPDX-License-Identifier: Apache-2.0
// The functions of ctc_decoding.hpp: checks, the profiler's scope, rows and samples in chunks.
#pragma once

#include <vecdet/args/ctc_decoding.hpp>
#include <vecdet/ctc_decoding.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/value_of.hpp>

#include <algorithm>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/ctc_decoding/ctc_decoding.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T>
ctc_texts best_ctc_paths(const sequences_view<const T>& logits,
                         const vector_view<const index_t>& input_lengths, index_t blank,
                         ctc_decoding_buffers& buffers, threading policy) {
  constexpr const char* function = "ctc_greedy";
  const index_t samples = logits.samples(), steps = logits.steps(), classes = logits.classes();
  check(classes >= 1, function, "logits.classes()", classes, "1 or more");
  if (blank < 0 || blank >= classes)
    throw_invalid_argument(function, "blank", blank, index_range(classes, "classes"));
  check_optional_size(function, "input_lengths.size()", input_lengths.size(), samples,
                      "the number of samples");
  for (index_t n = 0; n < input_lengths.size(); ++n)
    if (input_lengths[n] < 0 || input_lengths[n] > steps)
      throw_invalid_argument(function, element("input_lengths", n), input_lengths[n],
                             "0 to " + std::to_string(steps) + ", the logits' steps");

  const index_t rows = steps * samples;
  const isa target = active_isa();
  const profile::scope timing([&] {
    profile::problem p;
    p.function = function;
    p.type = dtype_name<T>();
    p.shape = {steps, samples, classes};
    p.implementation = isa_name(target);
    p.threads = policy.threads();
    p.bytes = rows * classes * index_t{sizeof(T)};
    p.flops = 18 * rows * classes;
    return p;
  });
  ctc_best_args<T> args{};
  args.logits = logits.data();
  args.step_stride = logits.step_stride();
  args.sample_stride = logits.sample_stride();
  args.steps = steps;
  args.samples = samples;
  args.classes = classes;
  args.blank = blank;
  args.steps_are_inner = logits.step_stride() < logits.sample_stride();
  args.input_lengths = input_lengths.empty() ? nullptr : input_lengths.data();
  args.best = grown(buffers.best, rows);
  args.sums = grown(buffers.sums, rows);
  index_t* const found = grown(buffers.classes, rows);
  index_t* const first_steps = grown(buffers.steps, rows);
  float* const probabilities = grown(buffers.probabilities, rows);
  double* const log_probabilities = grown(buffers.log_probabilities, samples);
  index_t* const offsets = grown(buffers.offsets, samples + 1);

  const auto& kernels = detail::kernels<ctc_decoding_kernels<T>>(target);
  if (rows > 0) {
    for_each_chunk(policy, chunking(rows, std::max(index_t{1}, (1 << 14) / classes)),
                   [&](index_t, index_t first, index_t last) { kernels.best(args, first, last); });
  }
  offsets[0] = 0;
  for (index_t n = 0; n < samples; ++n) {
    const index_t at = offsets[n];
    ctc_best_path path{found + at, first_steps + at, probabilities + at, 0};
    offsets[n + 1] = at + kernels.merge(args, n, path);
    log_probabilities[n] = path.log_probability;
  }
  const index_t count = offsets[samples];
  return {{found, count},
          {first_steps, count},
          {probabilities, count},
          {offsets, samples + 1},
          {log_probabilities, samples}};
}

}  // namespace detail

template <class T>
ctc_texts ctc_greedy(sequences_view<T> logits, vector_view<const index_t> input_lengths,
                     index_t blank, ctc_decoding_workspace& workspace, threading policy) {
  return detail::best_ctc_paths<value_of<T>>(logits, input_lengths, blank,
                                             detail::workspace_access::buffers(workspace), policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
