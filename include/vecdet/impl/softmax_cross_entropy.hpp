// SPDX-License-Identifier: Apache-2.0
// The functions of softmax_cross_entropy.hpp: checks, the profiler's scope, chunks, mining.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/softmax_cross_entropy.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/impl/softmax_chunks.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/softmax_cross_entropy.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/softmax_cross_entropy/softmax_cross_entropy.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

struct softmax_cross_entropy_call {
  const char* function;
  matrix_view<const float> logits;
  labels_view labels;
  const softmax_cross_entropy_params& params;
  const hard_negative_mining* mining = nullptr;  ///< null: all rows count
  loss_output output = loss_output::sum;
  vector_view<float> loss{};  ///< per row; used if `output` asks for it
  matrix_view<float> grad{};  ///< likewise

  void check_arguments() const {
    const index_t rows = logits.rows();
    check(logits.cols() >= 1, function, "logits.cols()", logits.cols(), "1 class or more");
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check_size(function, "labels.size()", labels.size(), rows, "the number of rows");
    if (output == loss_output::loss) {
      check_size(function, "loss.size()", loss.size(), rows, "the number of rows");
      check_apart(function, "loss", loss, "logits", logits);
      check_apart(function, "loss", loss, "labels", labels);
    }
    if (output == loss_output::grad) {
      check_size(function, "grad.rows()", grad.rows(), rows, "the number of rows");
      check_size(function, "grad.cols()", grad.cols(), logits.cols(), "the number of classes");
      if (mining == nullptr) {
        check_apart_or_same(function, "grad", grad, "logits", logits);
      } else {
        check_apart(function, "grad", grad, "logits", logits);
      }
      check_apart(function, "grad", grad, "labels", labels);
    }
    if (mining != nullptr) {
      if (mining->images < 1 || rows % mining->images != 0) {
        throw_invalid_argument(function, "mining.images", mining->images,
                               "a divisor of " + std::to_string(rows) + ", the number of rows");
      }
      check(mining->negatives_per_foreground >= 0, function, "mining.negatives_per_foreground",
            mining->negatives_per_foreground, "0 or more");
      if (mining->background < 0 || mining->background >= logits.cols()) {
        throw_invalid_argument(function, "mining.background", mining->background,
                               index_range(logits.cols(), "classes"));
      }
    }
  }

  softmax_cross_entropy_args kernel_args() const {
    softmax_cross_entropy_args args{};
    args.logits = logits.data();
    args.stride = logits.stride();
    args.classes = logits.cols();
    args.labels = labels;
    args.background = mining != nullptr ? mining->background : 0;
    args.ignore = params.ignore;
    args.scale = params.scale;
    args.loss = output == loss_output::loss ? loss.data() : nullptr;
    args.grad = output == loss_output::grad ? grad.data() : nullptr;
    args.grad_stride = grad.stride();
    return args;
  }

  void check_labels(const softmax_cross_entropy_kernels& kernels) const {
    const index_t invalid = kernels.find_invalid(kernel_args());
    if (invalid == labels.size()) return;
    throw_invalid_argument(
        function, element("labels", invalid), label_text(labels, invalid),
        index_range(logits.cols(), "classes") + " or " + std::to_string(params.ignore));
  }

  profile::problem problem(isa target, int threads) const {
    const index_t rows = logits.rows();
    const bool gives_loss = output == loss_output::loss;
    const index_t tensors = output == loss_output::grad ? 2 : 1;
    return {function,
            mining == nullptr ? "rows"
                              : profile::numbered_name(
                                    "mined", static_cast<double>(mining->negatives_per_foreground)),
            dtype_name<float>(),
            {rows, logits.cols()},
            isa_name(target),
            threads,
            rows * (index_t{sizeof(float)} * (logits.cols() * tensors + gives_loss) +
                    index_t{sizeof(index_t)}),
            22 * logits.size()};
  }

  double run(threading policy) const {
    check_arguments();
    const isa target = active_isa();
    const auto& kernels = detail::kernels<softmax_cross_entropy_kernels>(target);
    check_labels(kernels);
    const index_t rows = logits.rows();
    if (rows == 0) return 0;
    const profile::scope timing([&] { return problem(target, policy.threads()); });
    const softmax_cross_entropy_args all = kernel_args();
    return scaled(params.scale, sum_over_chunks(policy, softmax_chunks(rows, logits.cols()),
                                                [&](index_t first, index_t last) {
                                                  return kernels.loss(all, first, last);
                                                }));
  }

  double run_mined(hard_negative_buffers& buffers, threading policy) const {
    check_arguments();
    const isa target = active_isa();
    const auto& kernels = detail::kernels<softmax_cross_entropy_kernels>(target);
    check_labels(kernels);
    const index_t rows = logits.rows();
    if (rows == 0) return 0;
    const profile::scope timing([&] { return problem(target, policy.threads()); });
    const index_t images = mining->images, per_image = rows / images;
    std::uint32_t* const keys = grown(buffers.keys, rows);
    index_t* const mined = grown(buffers.rows, rows);
    index_t* const counts = grown(buffers.counts, images);

    softmax_cross_entropy_args some = kernel_args();
    for_each_chunk(
        policy, softmax_chunks(rows, logits.cols()),
        [&](index_t, index_t first, index_t last) { kernels.keys(some, first, last, keys); });
    for_each_chunk(policy, chunking(images, 1), [&](index_t, index_t first, index_t last) {
      for (index_t i = first; i < last; ++i)
        counts[i] = kernels.mine(keys, i * per_image, (i + 1) * per_image,
                                 mining->negatives_per_foreground, mined + i * per_image);
    });
    index_t count = 0;
    for (index_t i = 0; i < images; ++i) {
      std::memmove(mined + count, mined + i * per_image,
                   static_cast<std::size_t>(counts[i]) * sizeof *mined);
      count += counts[i];
    }
    some.rows = mined;
    return scaled(params.scale, sum_over_chunks(policy, softmax_chunks(count, logits.cols()),
                                                [&](index_t first, index_t last) {
                                                  return kernels.loss(some, first, last);
                                                }));
  }
};

}  // namespace detail

inline double softmax_cross_entropy_loss(matrix_view<const float> logits, labels_view labels,
                                         const softmax_cross_entropy_params& params,
                                         threading policy) {
  return detail::softmax_cross_entropy_call{"softmax_cross_entropy_loss", logits, labels, params}
      .run(policy);
}

inline void softmax_cross_entropy_loss_unreduced(matrix_view<const float> logits,
                                                 labels_view labels, vector_view<float> loss,
                                                 const softmax_cross_entropy_params& params,
                                                 threading policy) {
  detail::softmax_cross_entropy_call call{"softmax_cross_entropy_loss_unreduced", logits, labels,
                                          params};
  call.output = detail::loss_output::loss;
  call.loss = loss;
  call.run(policy);
}

inline double softmax_cross_entropy_loss_and_grad(matrix_view<const float> logits,
                                                  labels_view labels, matrix_view<float> grad,
                                                  const softmax_cross_entropy_params& params,
                                                  threading policy) {
  detail::softmax_cross_entropy_call call{"softmax_cross_entropy_loss_and_grad", logits, labels,
                                          params};
  call.output = detail::loss_output::grad;
  call.grad = grad;
  return call.run(policy);
}

inline double softmax_cross_entropy_loss_and_grad(
    matrix_view<const float> logits, labels_view labels, const hard_negative_mining& mining,
    matrix_view<float> grad, const softmax_cross_entropy_params& params,
    softmax_cross_entropy_workspace& workspace, threading policy) {
  detail::softmax_cross_entropy_call call{"softmax_cross_entropy_loss_and_grad", logits, labels,
                                          params};
  call.mining = &mining;
  call.output = detail::loss_output::grad;
  call.grad = grad;
  return call.run_mined(detail::workspace_access::buffers(workspace), policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
