// SPDX-License-Identifier: Apache-2.0
// The functions of focal_loss.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/focal_loss.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/focal_loss/focal_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

inline void check_focusing(const char* function, double alpha, double gamma) {
  check(gamma >= 0 && fits_float(gamma), function, "params.gamma", gamma,
        "a finite float, 0 or more");
  check(alpha <= 1 && fits_float(alpha), function, "params.alpha", alpha,
        "a number in [0, 1], or a negative one for no weighting");
}

/// One call of a focal or soft-target loss.
template <class T>
struct focal_call {
  const char* function;
  const focal_targets<T>& targets;
  const focal_loss_params& params;
  matrix_view<const T> logits{};
  focal_output output = focal_output::sum;
  matrix_view<T> out{};  ///< the loss or the gradient, depending on `output`
  matrix_view<const T> upstream{};
  double scale = 1;  ///< multiplied with params.scale
  labelled_loss labelled = labelled_loss::focal;
  const char* scored_variant = "scored";  ///< the profiler's name for scored labels
  double negative_weight = 1;             ///< an additional factor on negatives
  double focusing = 1;  ///< 0: the gradient treats the modulating factor as constant
  const char* rows_are = "the rows of logits";  ///< the description of rows in messages

  void check_matrix(const char* argument, index_t rows, index_t cols) const {
    check_size(function, (std::string(argument) + ".rows()").c_str(), rows, logits.rows(),
               "the rows of logits");
    check_size(function, (std::string(argument) + ".cols()").c_str(), cols, logits.cols(),
               "the columns of logits");
  }

  void check_arguments() const {
    check_focusing(function, params.alpha, params.gamma);
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check(fits_float(scale), function, "upstream", scale, "a finite float");
    check_optional_size(function, "params.row_weights.size()", params.row_weights.size(),
                        logits.rows(), "the rows of logits");
    if (output == focal_output::loss) check_matrix("loss", out.rows(), out.cols());
    if (output == focal_output::grad) check_matrix("grad", out.rows(), out.cols());
    if (output == focal_output::upstream_times_grad) {
      check_matrix("grad", out.rows(), out.cols());
      check_matrix("upstream", upstream.rows(), upstream.cols());
    }
    if (targets.are_labels()) {
      check(params.background != params.ignore, function, "params.ignore", params.ignore,
            "a value other than params.background");
      check_size(function, "labels.size()", targets.labels().size(), logits.rows(), rows_are);
      if (targets.are_scored())
        check_size(function, "scores.size()", targets.scores().size(), logits.rows(), rows_are);
    } else {
      check_matrix("targets", targets.dense().rows(), targets.dense().cols());
    }
  }

  /// The gradient may overwrite the logits, because each block is read before it is written.
  void check_memory() const {
    if (output == focal_output::sum) return;
    const bool is_grad = output != focal_output::loss;
    const char* const name = is_grad ? "grad" : "loss";
    const bool is_in_place =
        out.data() == logits.data() && (out.stride() == logits.stride() || logits.rows() <= 1);
    if (!is_grad || !is_in_place) check_apart(function, name, out, "logits", logits);
    check_apart(function, name, out, "labels", targets.labels());
    check_apart(function, name, out, "scores", targets.scores());
    check_apart(function, name, out, "targets", targets.dense());
    check_apart(function, name, out, "params.row_weights", params.row_weights);
    check_apart(function, name, out, "upstream", upstream);
  }

  void check_labels(const focal_loss_kernels<T>& kernels) const {
    const labels_view& labels = targets.labels();
    const index_t i =
        kernels.find_invalid_label(labels, logits.cols(), params.background, params.ignore);
    if (i < labels.size()) {
      throw_invalid_argument(
          function, element("labels", i), label_text(labels, i),
          index_range(logits.cols(), "classes") + ", " + std::to_string(params.background) +
              " or " + std::to_string(params.ignore) + label_hint(labels[i], logits.cols()));
    }
  }

  void look_at_targets() const {
    if (!targets.are_scored()) return;
    look_at_scores(function, "scores", targets.scores(), [&](index_t i) {
      const index_t label = targets.labels()[i];
      return label != params.background && label != params.ignore;
    });
  }

  focal_loss_args<T> kernel_args() const {
    const bool reduced = output == focal_output::sum || output == focal_output::grad;
    const double weight =
        params.scale * scale /
        (reduced && params.reduction == reduction::mean ? static_cast<double>(logits.size()) : 1.0);
    focal_loss_args<T> args{};
    args.logits = logits.data();
    args.cols = logits.cols();
    args.logits_stride = logits.stride();
    args.labels = targets.labels();
    args.targets = targets.dense().data();
    args.targets_stride = targets.dense().stride();
    args.background = params.background;
    args.ignore = params.ignore;
    args.row_weights = data_or_null(params.row_weights);
    args.scores = targets.are_scored() ? targets.scores().data() : nullptr;
    args.labelled = labelled;
    args.positive_weight = params.alpha < 0 ? weight : weight * params.alpha;
    args.negative_weight = params.alpha < 0 ? weight : weight * (1 - params.alpha);
    args.negative_weight *= negative_weight;
    args.gamma = params.gamma;
    args.focusing = focusing;
    args.output = output;
    args.out = out.data();
    args.out_stride = out.stride();
    args.upstream = upstream.data();
    args.upstream_stride = upstream.stride();
    return args;
  }

  profile::problem problem(isa target, int threads) const {
    const bool dense = !targets.are_labels();
    const index_t tensors =
        1 + dense + (output != focal_output::sum) + (output == focal_output::upstream_times_grad);
    const index_t label_bytes =
        dense ? 0
              : logits.rows() * (index_t{sizeof(index_t)} +
                                 (targets.are_scored() ? index_t{sizeof(float)} : 0));
    constexpr index_t flops_per_logit = 44;  // multiplications and additions of the fast equation
    return {function,
            dense                  ? "dense"
            : targets.are_scored() ? scored_variant
                                   : "labels",
            dtype_name<T>(),
            {logits.rows(), logits.cols()},
            isa_name(target),
            threads,
            tensors * logits.size() * index_t{sizeof(T)} + label_bytes,
            flops_per_logit * logits.size()};
  }
};

template <class T>
double run_focal_loss(const focal_call<T>& call, threading policy) {
  const isa target = active_isa();
  const auto& kernels = detail::kernels<focal_loss_kernels<T>>(target);
  call.check_arguments();
  call.check_memory();
  if (call.targets.are_labels()) call.check_labels(kernels);
  call.look_at_targets();
  const matrix_view<const T>& logits = call.logits;
  if (logits.empty()) {
    return call.params.reduction == reduction::mean ? std::numeric_limits<double>::quiet_NaN() : 0;
  }
  const profile::scope timing([&] { return call.problem(target, policy.threads()); });
  const focal_loss_args<T> args = call.kernel_args();
  constexpr index_t smallest_chunk = 16384;  // elements: a few microseconds
  // Rows that fill whole blocks, so that the last block needs no padding.
  const index_t whole = focal_block / std::gcd(logits.cols(), index_t{focal_block});
  return sum_over_chunks(
      policy, chunking(logits.rows(), 1 + smallest_chunk / logits.cols(), whole),
      [&](index_t first, index_t last) { return kernels.compute_rows(args, first, last); });
}

/// A level's part of a call, divided into pieces of about 65,536 elements: rows in NHWC,
/// planes in NCHW.
struct focal_level {
  index_t locations, anchors, classes;
  head_layout layout;

  index_t rows_a_piece() const {
    constexpr index_t elements = 65536;
    const index_t whole = focal_block / std::gcd(classes, index_t{focal_block});
    return (1 + elements / classes + whole - 1) / whole * whole;
  }
  /// Whole planes, unless they are huge: halves of planes of 10,000 locations took 1.4 to 1.7 times
  /// as long with AVX-512.
  index_t locations_per_piece() const {
    constexpr index_t most = 65536, together = 4 * focal_block;
    const index_t pieces = (locations + most - 1) / most;
    return pieces <= 1 ? locations : (locations / pieces + together) / together * together;
  }
  /// The planes of an NCHW piece. Several per anchor, because a piece searches the labels of all
  /// anchors.
  index_t planes_per_piece() const {
    constexpr index_t elements = 65536;
    return std::max(2 * anchors, elements / locations_per_piece());
  }
  index_t anchors_per_piece() const {
    return std::min({anchors, most_focal_anchors, (planes_per_piece() + classes - 1) / classes});
  }
  index_t classes_per_piece() const {
    const index_t groups = std::max(index_t{1}, classes / planes_per_piece());
    return (classes + groups - 1) / groups;
  }
  index_t pieces_of_planes() const {
    return (locations + locations_per_piece() - 1) / locations_per_piece();
  }
  index_t pieces_of_anchor() const {
    return (classes + classes_per_piece() - 1) / classes_per_piece() * pieces_of_planes();
  }
  index_t pieces_per_image() const {
    if (locations == 0) return 0;
    return layout == head_layout::nhwc
               ? (locations * anchors + rows_a_piece() - 1) / rows_a_piece()
               : (anchors + anchors_per_piece() - 1) / anchors_per_piece() * pieces_of_anchor();
  }
  /// The planes of NCHW piece `piece`, without those of other locations.
  focal_planes planes_of(index_t piece) const {
    const index_t anchor = piece / pieces_of_anchor() * anchors_per_piece();
    const index_t c = piece % pieces_of_anchor() / pieces_of_planes() * classes_per_piece();
    return {locations,
            std::min(locations_per_piece(), locations - first_location(piece)),
            anchors,
            anchor,
            std::min(anchors_per_piece(), anchors - anchor),
            c,
            std::min(classes_per_piece(), classes - c)};
  }
  index_t first_location(index_t piece) const {
    return piece % pieces_of_planes() * locations_per_piece();
  }
};

/// Processes piece `piece` of one image's level, to which `args` points.
template <class T>
double focal_piece(const focal_loss_kernels<T>& kernels, focal_loss_args<T> args,
                   const focal_level& level, index_t piece) {
  if (level.layout == head_layout::nhwc) {
    const index_t rows = level.locations * level.anchors, first = piece * level.rows_a_piece();
    return kernels.compute_rows(args, first, std::min(rows, first + level.rows_a_piece()));
  }
  const index_t first = level.first_location(piece);
  args.logits += first;
  args.out += first;
  args.first_label += first * level.anchors;
  return kernels.compute_planes(args, level.planes_of(piece));
}

/// Runs `row_call`, which has neither logits nor an output yet, on levels. It is checked and named
/// like a call on a matrix whose rows are the anchors.
template <class T, class Logit>
double run_level_focal_loss(const focal_call<T>& row_call, const head_view<Logit>& logits,
                            const head_view<T>& grad, vector_view<const float> image_scales,
                            threading policy) {
  const char* const function = row_call.function;
  const focal_targets<T>& targets = row_call.targets;
  const focal_loss_params& params = row_call.params;
  const isa target = active_isa();
  const auto& kernels = detail::kernels<focal_loss_kernels<T>>(target);
  const index_t image_labels = logits.anchors_per_image();
  check(targets.are_labels(), function, "targets", "a matrix", "labels, one per anchor");
  check(params.row_weights.empty(), function, "params.row_weights.size()",
        params.row_weights.size(), "0: use image_scales instead");
  check_image_scales(function, image_scales, logits.images(), "the images of logits");
  check_head(function, "grad", grad, "logits", logits, logits.classes());
  check_levels_apart(function, "grad", grad);
  check_levels_apart(function, "grad", grad, "logits", logits, true);
  check_levels_apart(function, "grad", grad, "labels", targets.labels());
  check_levels_apart(function, "grad", grad, "scores", targets.scores());
  check_levels_apart(function, "grad", grad, "image_scales", image_scales);
  const index_t rows = logits.images() * image_labels;
  T none{};  // never read
  const matrix_view<T> shape(&none, rows, logits.classes());
  focal_call<T> call = row_call;
  call.logits = call.out = shape;
  call.rows_are = "images x anchors";
  call.check_arguments();
  call.check_labels(kernels);
  call.look_at_targets();
  if (shape.empty()) {
    return params.reduction == reduction::mean ? std::numeric_limits<double>::quiet_NaN() : 0;
  }
  const profile::scope timing([&] {
    profile::problem problem = call.problem(target, policy.threads());
    problem.variant = levels_variant(logits.layout());
    return problem;
  });
  focal_loss_args<T> all_args = call.kernel_args();
  all_args.logits_stride = logits.channels();
  all_args.out_stride = grad.channels();
  const auto level_of = [&](index_t l) {
    return focal_level{logits.locations(l), logits.anchors(), logits.classes(), logits.layout()};
  };
  index_t pieces = 0;
  for (index_t l = 0; l < logits.levels().size(); ++l)
    pieces += logits.images() * level_of(l).pieces_per_image();
  return sum_over_chunks(policy, chunking(pieces, 1), [&](index_t first, index_t last) {
    double sum = 0;
    index_t begin = 0, first_label = 0;  // the level's first piece, and its first label in an image
    for (index_t l = 0; l < logits.levels().size(); ++l) {
      const focal_level level = level_of(l);
      const level_steps logit_steps(logits, l), grad_steps(grad, l);
      const index_t per_image = level.pieces_per_image();
      const index_t end = begin + logits.images() * per_image;
      for (index_t i = std::max(first, begin); i < std::min(last, end); ++i) {
        const index_t image = (i - begin) / per_image;
        focal_loss_args<T> args = all_args;
        args.logits = logits.levels()[l].data + image * logit_steps.image;
        args.out = grad.levels()[l].data + image * grad_steps.image;
        args.first_label = image * image_labels + first_label;
        const double scale = image_scales.empty() ? 1 : static_cast<double>(image_scales[image]);
        args.positive_weight *= scale;
        args.negative_weight *= scale;
        sum += focal_piece(kernels, args, level, (i - begin) % per_image);
      }
      begin = end;
      first_label += level.locations * level.anchors;
    }
    return sum;
  });
}

}  // namespace detail

template <class T>
double sigmoid_focal_loss_and_grad(const head_view<T>& logits,
                                   const focal_targets<value_of<T>>& targets,
                                   const head_view<value_of<T>>& grad,
                                   vector_view<const float> image_scales,
                                   const focal_loss_params& params, threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_and_grad", targets, params};
  call.output = detail::focal_output::grad;
  return detail::run_level_focal_loss(call, logits, grad, image_scales, policy);
}

template <class T>
double sigmoid_focal_loss(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                          const focal_loss_params& params, threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss", targets, params};
  call.logits = logits;
  return detail::run_focal_loss(call, policy);
}

template <class T>
void sigmoid_focal_loss_unreduced(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                                  matrix_view<value_of<T>> loss, const focal_loss_params& params,
                                  threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_unreduced", targets, params};
  call.logits = logits;
  call.output = detail::focal_output::loss;
  call.out = loss;
  detail::run_focal_loss(call, policy);
}

template <class T>
double sigmoid_focal_loss_and_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                                   matrix_view<value_of<T>> grad, const focal_loss_params& params,
                                   threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_and_grad", targets, params};
  call.logits = logits;
  call.output = detail::focal_output::grad;
  call.out = grad;
  return detail::run_focal_loss(call, policy);
}

template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                             double upstream, matrix_view<value_of<T>> grad,
                             const focal_loss_params& params, threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_grad", targets, params};
  call.logits = logits;
  call.output = detail::focal_output::grad;
  call.out = grad;
  call.scale = upstream;
  detail::run_focal_loss(call, policy);
}

template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                             matrix_view<const value_of<T>> upstream, matrix_view<value_of<T>> grad,
                             const focal_loss_params& params, threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_grad", targets, params};
  call.logits = logits;
  call.output = detail::focal_output::upstream_times_grad;
  call.out = grad;
  call.upstream = upstream;
  detail::run_focal_loss(call, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
