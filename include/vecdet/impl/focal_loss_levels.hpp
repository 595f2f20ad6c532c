// SPDX-License-Identifier: Apache-2.0
// The functions of focal_loss.hpp on a head's levels: the checks of levels, and the pieces into
// which levels are divided.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/focal_loss.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

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
  call.check_labels(kernels, policy);
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

}  // namespace VECDET_ABI
}  // namespace vecdet
