// SPDX-License-Identifier: Apache-2.0
// The functions of distribution_focal_loss.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/distribution_focal_loss.hpp>
#include <vecdet/args/loss_output.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/impl/softmax_chunks.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/distribution_focal_loss/distribution_focal_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

inline void check_bins(const char* function, const matrix_view<const float>& logits) {
  check(logits.cols() >= 2 && logits.cols() <= index_t{1} << 24, function, "logits.cols()",
        logits.cols(), "2 to 2^24 bins");
}

struct distribution_focal_loss_call {
  const char* function;
  matrix_view<const float> logits;
  vector_view<const float> targets;
  const distribution_focal_loss_params& params;
  loss_output output = loss_output::sum;
  vector_view<float> loss{};  ///< per row; used if `output` asks for it
  matrix_view<float> grad{};  ///< likewise

  void check_arguments() const {
    const index_t rows = logits.rows();
    check_bins(function, logits);
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check_size(function, "targets.size()", targets.size(), rows, "the number of rows");
    check_optional_size(function, "params.row_weights.size()", params.row_weights.size(), rows,
                        "the number of rows");
    if (output == loss_output::loss) {
      check_size(function, "loss.size()", loss.size(), rows, "the number of rows");
      check_apart(function, "loss", loss, "logits", logits);
      check_apart(function, "loss", loss, "targets", targets);
      check_apart(function, "loss", loss, "params.row_weights", params.row_weights);
    }
    if (output == loss_output::grad) {
      check_size(function, "grad.rows()", grad.rows(), rows, "the number of rows");
      check_size(function, "grad.cols()", grad.cols(), logits.cols(), "the number of bins");
      check_apart_or_same(function, "grad", grad, "logits", logits);
      check_apart(function, "grad", grad, "targets", targets);
      check_apart(function, "grad", grad, "params.row_weights", params.row_weights);
    }
  }

  double run(threading policy) const {
    check_arguments();
    const index_t rows = logits.rows(), bins = logits.cols();
    if (rows == 0) return 0;
    const isa target = active_isa();
    const profile::scope timing([&] {
      const index_t tensors = output == loss_output::grad ? 2 : 1;
      const index_t numbers = output == loss_output::loss ? 2 : 1;
      return profile::problem{function,
                              "sides",
                              dtype_name<float>(),
                              {rows, bins},
                              isa_name(target),
                              policy.threads(),
                              rows * index_t{sizeof(float)} * (bins * tensors + numbers),
                              24 * rows * bins};
    });
    distribution_focal_loss_args args{};
    args.logits = logits.data();
    args.stride = logits.stride();
    args.bins = bins;
    args.targets = targets.data();
    args.weights = data_or_null(params.row_weights);
    args.scale = params.scale;
    args.loss = output == loss_output::loss ? loss.data() : nullptr;
    args.grad = output == loss_output::grad ? grad.data() : nullptr;
    args.grad_stride = grad.stride();
    const auto kernel = kernels<distribution_focal_loss_kernels>(target).loss;
    return scaled(params.scale, sum_over_chunks(policy, softmax_chunks(rows, bins),
                                                [&](index_t first, index_t last) {
                                                  return kernel(args, first, last);
                                                }));
  }
};

inline profile::problem decoding_problem(const char* function, const char* variant,
                                         const matrix_view<const float>& logits, index_t bytes,
                                         isa target, threading policy) {
  return {function,
          variant,
          dtype_name<float>(),
          {logits.rows(), logits.cols()},
          isa_name(target),
          policy.threads(),
          logits.size() * index_t{sizeof(float)} + bytes,
          24 * logits.size()};
}

}  // namespace detail

inline double distribution_focal_loss(matrix_view<const float> logits,
                                      vector_view<const float> targets,
                                      const distribution_focal_loss_params& params,
                                      threading policy) {
  return detail::distribution_focal_loss_call{"distribution_focal_loss", logits, targets, params}
      .run(policy);
}

inline void distribution_focal_loss_unreduced(matrix_view<const float> logits,
                                              vector_view<const float> targets,
                                              vector_view<float> loss,
                                              const distribution_focal_loss_params& params,
                                              threading policy) {
  detail::distribution_focal_loss_call call{"distribution_focal_loss_unreduced", logits, targets,
                                            params};
  call.output = detail::loss_output::loss;
  call.loss = loss;
  call.run(policy);
}

inline double distribution_focal_loss_and_grad(matrix_view<const float> logits,
                                               vector_view<const float> targets,
                                               matrix_view<float> grad,
                                               const distribution_focal_loss_params& params,
                                               threading policy) {
  detail::distribution_focal_loss_call call{"distribution_focal_loss_and_grad", logits, targets,
                                            params};
  call.output = detail::loss_output::grad;
  call.grad = grad;
  return call.run(policy);
}

inline void decode_distributions(matrix_view<const float> logits, vector_view<float> distances,
                                 threading policy) {
  const char* const function = "decode_distributions";
  const index_t rows = logits.rows(), bins = logits.cols();
  detail::check_bins(function, logits);
  detail::check_size(function, "distances.size()", distances.size(), rows, "the number of rows");
  detail::check_apart(function, "distances", distances, "logits", logits);
  if (rows == 0) return;
  const isa target = active_isa();
  const profile::scope timing([&] {
    return detail::decoding_problem(function, "distances", logits, rows * index_t{sizeof(float)},
                                    target, policy);
  });
  const detail::distribution_decoding_args args{logits.data(), logits.stride(), bins,
                                                nullptr,       nullptr,         distances.data()};
  const auto kernel = detail::kernels<detail::distribution_focal_loss_kernels>(target).expectations;
  detail::for_each_chunk(policy, detail::softmax_chunks(rows, bins),
                         [&](index_t, index_t first, index_t last) { kernel(args, first, last); });
}

inline void decode_distribution_boxes(matrix_view<const float> logits,
                                      matrix_view<const float> points,
                                      vector_view<const float> strides, boxes_view<float> boxes,
                                      threading policy) {
  const char* const function = "decode_distribution_boxes";
  const index_t rows = logits.rows(), bins = logits.cols(), count = boxes.size();
  detail::check_bins(function, logits);
  detail::check(rows % 4 == 0, function, "logits.rows()", rows,
                "a multiple of 4: four rows per box");
  detail::check_size(function, "boxes.size()", count, rows / 4, "a quarter of the rows");
  detail::check_size(function, "points.rows()", points.rows(), count, "the number of boxes");
  detail::check(points.cols() == 2 && points.stride() == 2, function, "points.stride()",
                points.stride(), "2 columns, x and y, without gaps");
  detail::check_size(function, "strides.size()", strides.size(), count, "the number of boxes");
  detail::check_apart(function, "boxes", boxes, "logits", logits);
  detail::check_apart(function, "boxes", boxes, "points", points);
  detail::check_apart(function, "boxes", boxes, "strides", strides);
  if (rows == 0) return;
  const isa target = active_isa();
  const profile::scope timing([&] {
    return detail::decoding_problem(function, "boxes", logits, 7 * count * index_t{sizeof(float)},
                                    target, policy);
  });
  const detail::distribution_decoding_args args{logits.data(), logits.stride(), bins,
                                                points.data(), strides.data(),  boxes.data()};
  const auto kernel = detail::kernels<detail::distribution_focal_loss_kernels>(target).boxes;
  detail::for_each_chunk(policy, detail::softmax_chunks(count, 4 * bins),
                         [&](index_t, index_t first, index_t last) { kernel(args, first, last); });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
