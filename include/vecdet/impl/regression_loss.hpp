// SPDX-License-Identifier: Apache-2.0
// The functions of regression_loss.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/regression_loss.hpp>
#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/box_coding.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/box_loss_names.hpp>
#include <vecdet/impl/box_selection.hpp>
#include <vecdet/impl/find_first.hpp>
#include <vecdet/impl/head_boxes.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <string>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/regression_loss/regression_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

template <class T, class Box>
struct regression_call {
  using stored = regressed_storage<T, Box>;
  const char* function;
  boxes_view<const T> deltas;
  const regression_targets<Box>& targets;
  const box_selection& selection;
  const regression_loss_params& params;
  boxes_view<const Box> anchors{};
  loss_output output = loss_output::sum;
  boxes_view<T> grad{};

  void check_params() const {
    check(params.beta >= 0 && fits_float(params.beta), function, "params.beta", params.beta,
          "a finite float, 0 or more");
    check(params.epsilon >= 0 && fits_float(params.epsilon), function, "params.epsilon",
          params.epsilon, "a finite float, 0 or more");
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check_corner_coder(function, "params.coder", params.coder);
  }

  void check_targets() const {
    const index_t boxes = deltas.size();
    if (targets.is_matched()) {
      check_size(function, "matches.size()", targets.matches().size(), boxes,
                 "the number of deltas");
    } else {
      check_size(function, "targets.size()", targets.boxes().size(), boxes, "the number of deltas");
    }
  }

  void check_arguments() const {
    const index_t boxes = deltas.size();
    check_params();
    check_targets();
    if (anchors.size() != boxes && (anchors.empty() || boxes % anchors.size() != 0)) {
      throw_invalid_argument(
          function, "anchors.size()", anchors.size(),
          std::to_string(boxes) + ", the number of deltas, or a divisor: the anchors of one image");
    }
    check_optional_size(function, "params.box_weights.size()", params.box_weights.size(), boxes,
                        "the number of deltas");
    if (output == loss_output::grad) {
      check_size(function, "grad.size()", grad.size(), boxes, "the number of deltas");
    }
    check_selection(function, selection, boxes);
    check_apart(function, "grad", grad, "deltas", deltas);
    check_apart(function, "grad", grad, "anchors", anchors);
    check_apart(function, "grad", grad, "targets", targets.boxes());
    check_apart(function, "grad", grad, "matches", targets.matches());
    check_apart(function, "grad", grad, "params.box_weights", params.box_weights);
    check_apart(function, "grad", grad, selection);
  }

  /// Per box: encoding and smooth L1, or decoding, the IoU loss and the chain rule.
  index_t flops() const {
    return (params.loss == box_loss::smooth_l1 ? 155
            : params.loss == box_loss::ciou    ? 202
                                               : 152) *
           known_size(selection, deltas.size());
  }

  regression_loss_args<stored> kernel_args() const {
    regression_loss_args<stored> args{};
    args.deltas = deltas.data();
    args.anchors = anchors.data();
    args.anchor_period = anchors.empty() || anchors.size() == deltas.size() ? 0 : anchors.size();
    args.targets = targets.boxes().data();
    args.matches = targets.is_matched() ? targets.matches().data() : nullptr;
    args.box_weights = data_or_null(params.box_weights);
    args.is_smooth_l1 = params.loss == box_loss::smooth_l1;
    args.kind = params.loss == box_loss::giou   ? iou_kind::giou
                : params.loss == box_loss::diou ? iou_kind::diou
                                                : iou_kind::ciou;
    args.beta = params.beta;
    args.scale = params.scale;
    args.epsilon = params.epsilon;
    args.weights[0] = params.coder.weight_x;
    args.weights[1] = params.coder.weight_y;
    args.weights[2] = params.coder.weight_w;
    args.weights[3] = params.coder.weight_h;
    args.low_size = low_size(params.coder);
    args.high_size = high_size(params.coder);
    args.output = output;
    args.grad = grad.data();
    args.selected = selected_by(selection);
    return args;
  }

  /// Throws if the match of a selected anchor is not the index of a ground-truth box.
  void check_matches(const regression_loss_kernels<stored>& kernels,
                     const regression_loss_args<stored>& args, threading policy) const {
    const index_t truths = targets.boxes().size();
    index_t bad = deltas.size();
    if (!selection.is_all() && !selection.is_list()) {
      const index_t none = deltas.size();
      bad = find_first(chunking(deltas.size(), smallest_box_chunk), none, policy,
                       [&](index_t first, index_t last) {
                         const index_t found = kernels.bad_match(args, truths, first, last);
                         return found < 0 ? none : found;
                       });
    } else {
      const index_t count = selection.is_all() ? deltas.size() : selection.indices().size();
      for (index_t k = 0; k < count; ++k) {
        const index_t i = selection.is_all() ? k : selection.indices()[k];
        const index_t match = targets.matches()[i];
        if (match < 0 || match >= truths) bad = std::min(bad, i);
      }
    }
    if (bad < deltas.size()) {
      throw_invalid_argument(function, element("matches", bad), targets.matches()[bad],
                             index_range(truths, "ground-truth boxes"));
    }
  }
};

template <class T, class Box>
double run_regression_loss(const regression_call<T, Box>& call, threading policy) {
  call.check_arguments();
  const index_t boxes = call.deltas.size();
  if (boxes == 0) return 0;
  const isa target = active_isa();
  using stored = typename regression_call<T, Box>::stored;
  const auto& kernels = detail::kernels<regression_loss_kernels<stored>>(target);
  const auto args = call.kernel_args();
  const profile::scope timing([&]() -> profile::problem {
    const index_t tensor = 4 * boxes * index_t{sizeof(T)};
    const index_t given = tensor + 8 * boxes * index_t{sizeof(Box)};
    const index_t written = call.output == loss_output::grad ? tensor : 0;
    return {call.function,
            box_loss_name(call.params.loss,
                          std::is_same<T, Box>::value ? box_source::boxes : box_source::mixed),
            dtype_name<T>(),
            {boxes},
            isa_name(target),
            policy.threads(),
            written + (call.selection.is_all() ? given : boxes * index_t{sizeof(index_t)}),
            call.flops()};
  });
  if (call.targets.is_matched()) call.check_matches(kernels, args, policy);
  return scaled(call.params.scale, run_selected(kernels, args, call.selection, boxes, policy));
}

/// The regression loss of a head's levels, with the anchors of one image.
template <class Input, class T>
class level_regression_call {
  static_assert(std::is_same<T, float>::value || std::is_same<T, bfloat16>::value,
                "this function takes float or vecdet::bfloat16");
  using flat_call = regression_call<T, float>;
  using stored = typename flat_call::stored;

 public:
  level_regression_call(const char* function, const head_view<Input>& deltas,
                        const regression_targets<float>& targets, const box_selection& selection,
                        const head_view<T>& grad, const vector_view<const float>& image_scales,
                        const regression_loss_params& params)
      : deltas_(deltas),
        grad_(grad),
        image_scales_(image_scales),
        total_(deltas.images() * deltas.anchors_per_image()),
        flat_{function, {&none_, total_}, targets, selection, params} {
    flat_.output = loss_output::grad;
  }

  void check_arguments() const {
    flat_.check_params();
    check_level_boxes(flat_.function, "deltas", deltas_, grad_, flat_.selection, image_scales_,
                      flat_.params.box_weights);
    flat_.check_targets();
    check_apart_from_grad("targets", flat_.targets.boxes());
    check_apart_from_grad("matches", flat_.targets.matches());
  }
  void check_apart_from_grad(const char* name, const address_range& memory) const {
    check_levels_apart(flat_.function, "grad", grad_, name, memory);
  }

  /// The losses of all boxes on the anchors of one image.
  double run_all(const boxes_view<const float>& anchors, threading policy) const {
    return run(policy, [&](const loss& levels, const index_t* matches, const auto& compute) {
      const boxes_view<const float>& truth = flat_.targets.boxes();
      return levels.run_all(
          policy,
          [&](block& memory, loss_boxes<T, float>& boxes, index_t anchor, index_t label) {
            boxes.anchors = anchors[anchor];
            boxes.targets = matches != nullptr ? memory.targets : truth[label];
            if (matches == nullptr) return;
            for (index_t k = 0; k < boxes.count; ++k) {
              const float* const box = truth[matches[label + k]];
              std::copy(box, box + 4, memory.targets + 4 * k);
            }
          },
          compute);
    });
  }

  /// The losses of selected boxes. anchor_at(i, corners) sets the corners of anchor i of an image.
  template <class AnchorAt>
  double run_selected(const AnchorAt& anchor_at, threading policy) const {
    return run(policy, [&](const loss& levels, const index_t* matches, const auto& compute) {
      return levels.run_selected(
          policy,
          [&](block& to, index_t k, index_t anchor, index_t label) {
            anchor_at(anchor, to.anchors + 4 * k);
            const float* const box =
                flat_.targets.boxes()[matches != nullptr ? matches[label] : label];
            std::copy(box, box + 4, to.targets + 4 * k);
          },
          compute);
    });
  }

 private:
  using loss = level_boxes_loss<Input, T, float>;
  using block = typename loss::block;

  /// run_levels(levels, matches or null, compute) returns the sum of the losses.
  template <class RunLevels>
  double run(threading policy, const RunLevels& run_levels) const {
    if (total_ == 0) return 0;
    const isa target = active_isa();
    const auto& kernels = detail::kernels<regression_loss_kernels<stored>>(target);
    regression_loss_args<stored> args = flat_.kernel_args();
    const profile::scope timing([&] {
      const index_t boxes_and_anchors = total_ + deltas_.anchors_per_image();
      return level_problem(flat_.function,
                           box_loss_name(flat_.params.loss, source_of(deltas_.layout())), deltas_,
                           target, policy.threads(),
                           level_loss_bytes(deltas_, flat_.selection,
                                            boxes_and_anchors * bytes_per_box<const float*>),
                           flat_.flops());
    });
    if (flat_.targets.is_matched()) flat_.check_matches(kernels, args, policy);
    const index_t* const matches = args.matches;
    args.selected = selected_by(box_selection::all());
    args.matches = nullptr;
    const auto compute = [&](const loss_boxes<T, float>& of) {
      regression_loss_args<stored> some = args;
      some.deltas = of.in;
      some.anchors = of.anchors;
      some.targets = of.targets;
      some.box_weights = of.weights;
      some.grad = of.grad;
      return kernels.run(some, 0, of.count);
    };
    return scaled(flat_.params.scale, run_levels(loss(target, deltas_, grad_, flat_.selection,
                                                      image_scales_, flat_.params.box_weights),
                                                 matches, compute));
  }

  static inline const T none_{};  // never read
  const head_view<Input>& deltas_;
  const head_view<T>& grad_;
  const vector_view<const float> image_scales_;
  index_t total_;
  flat_call flat_;
};

}  // namespace detail

template <class T>
double regression_loss_and_grad(const head_view<T>& deltas, boxes_view<const float> anchors,
                                const regression_targets<float>& targets,
                                const box_selection& selection, const head_view<value_of<T>>& grad,
                                vector_view<const float> image_scales,
                                const regression_loss_params& params, threading policy) {
  constexpr const char* function = "regression_loss_and_grad";
  const detail::level_regression_call<T, value_of<T>> call(function, deltas, targets, selection,
                                                           grad, image_scales, params);
  call.check_arguments();
  detail::check_size(function, "anchors.size()", anchors.size(), deltas.anchors_per_image(),
                     "the anchors of one image");
  call.check_apart_from_grad("anchors", anchors);
  if (selection.is_all()) return call.run_all(anchors, policy);
  return call.run_selected(
      [&](index_t i, float* corners) { std::copy(anchors[i], anchors[i] + 4, corners); }, policy);
}

template <class Boxes>
double regression_loss(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                       const regression_targets<coordinate_of<Boxes>>& targets,
                       const box_selection& selection, const regression_loss_params& params,
                       threading policy) {
  const auto deltas = detail::boxes_in(given, "regression_loss", "deltas");
  detail::regression_call<coordinate_of<Boxes>, coordinate_of<Boxes>> call{
      "regression_loss", deltas, targets, selection, params};
  call.anchors = anchors;
  return detail::run_regression_loss(call, policy);
}

template <class Boxes>
double regression_loss_and_grad(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                                const regression_targets<coordinate_of<Boxes>>& targets,
                                const box_selection& selection,
                                boxes_view<coordinate_of<Boxes>> grad,
                                const regression_loss_params& params, threading policy) {
  const auto deltas = detail::boxes_in(given, "regression_loss_and_grad", "deltas");
  detail::regression_call<coordinate_of<Boxes>, coordinate_of<Boxes>> call{
      "regression_loss_and_grad", deltas, targets, selection, params};
  call.anchors = anchors;
  call.output = detail::loss_output::grad;
  call.grad = grad;
  return detail::run_regression_loss(call, policy);
}

template <class Boxes, if_bfloat16<coordinate_of<Boxes>>>
double regression_loss(const Boxes& given, boxes_view<const float> anchors,
                       const regression_targets<float>& targets, const box_selection& selection,
                       const regression_loss_params& params, threading policy) {
  const auto deltas = detail::boxes_in(given, "regression_loss", "deltas");
  detail::regression_call<bfloat16, float> call{"regression_loss", deltas, targets, selection,
                                                params};
  call.anchors = anchors;
  return detail::run_regression_loss(call, policy);
}

template <class Boxes, if_bfloat16<coordinate_of<Boxes>>>
double regression_loss_and_grad(const Boxes& given, boxes_view<const float> anchors,
                                const regression_targets<float>& targets,
                                const box_selection& selection, boxes_view<bfloat16> grad,
                                const regression_loss_params& params, threading policy) {
  const auto deltas = detail::boxes_in(given, "regression_loss_and_grad", "deltas");
  detail::regression_call<bfloat16, float> call{"regression_loss_and_grad", deltas, targets,
                                                selection, params};
  call.anchors = anchors;
  call.output = detail::loss_output::grad;
  call.grad = grad;
  return detail::run_regression_loss(call, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
