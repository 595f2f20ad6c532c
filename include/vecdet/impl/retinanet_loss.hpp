// SPDX-License-Identifier: Apache-2.0
// The function of retinanet_loss.hpp: checks all arguments, so that errors name this function, then
// runs the parts in order.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/detector_loss.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/impl/matcher_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/retinanet_loss.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T>
class retinanet_loss_call {
  static_assert(std::is_same<T, float>::value || std::is_same<T, bfloat16>::value,
                "this function takes float or vecdet::bfloat16");

 public:
  retinanet_loss_call(const retinanet_head<T>& head, const anchor_index& anchors,
                      const ground_truth& truth, const retinanet_loss_params& params,
                      retinanet_loss_buffers& buffers, threading policy)
      : head_(head),
        anchors_(anchors),
        truth_(truth),
        params_(params),
        buffers_(buffers),
        policy_(policy),
        images_(head.logits.images()),
        anchors_per_image_(head.logits.anchors_per_image()),
        total_(images_ * anchors_per_image_) {}

  retinanet_losses run() {
    check_head_and_memory();
    check_truth_and_params();
    if (images_ == 0) return {};
    const profile::scope timing([&] { return problem(); });
    retinanet_losses losses;
    losses.foreground = match();
    losses.regression = regress();
    losses.classification = classify();
    return losses;
  }

 private:
  static constexpr const char* function = "retinanet_loss_and_grad";

  void check_head_and_memory() const {
    const auto check_like_logits = [&](const char* name, const auto& view, index_t classes) {
      check_head(function, name, view, "head.logits", head_.logits, classes);
    };
    check_like_logits("head.deltas", head_.deltas, 4);
    check_like_logits("head.logits_grad", head_.logits_grad, head_.logits.classes());
    check_like_logits("head.deltas_grad", head_.deltas_grad, 4);
    const auto check_grad = [&](const char* name, const head_view<T>& grad, bool is_of_logits) {
      check_levels_apart(function, name, grad);
      check_levels_apart(function, name, grad, "head.logits", head_.logits, is_of_logits);
      check_levels_apart(function, name, grad, "head.deltas", head_.deltas, !is_of_logits);
      check_apart_from_truth(function, name, grad, truth_);
    };
    check_grad("head.logits_grad", head_.logits_grad, true);
    check_grad("head.deltas_grad", head_.deltas_grad, false);
    check_levels_apart(function, "head.deltas_grad", head_.deltas_grad, "head.logits_grad",
                       head_.logits_grad);
  }

  void check_truth_and_params() const {
    check_size(function, "anchors.size()", anchors_.size(), anchors_per_image_,
               "the anchors of one image of the head");
    check_matched_truth(function, truth_, images_);
    check_classified(function, truth_, head_.logits.classes());
    const matcher_params& matcher = params_.matcher;
    check_matcher(function, "params.matcher", matcher);
    check_corner_coder(function, "params.matcher.coder", matcher.coder);
    check(matcher.ignore != matcher.background, function, "params.matcher.ignore", matcher.ignore,
          "a value other than params.matcher.background");
    check_focusing(function, params_.alpha, params_.gamma);
    check(params_.beta >= 0 && fits_float(params_.beta), function, "params.beta", params_.beta,
          "a finite float, 0 or more");
    check(fits_float(params_.scale), function, "params.scale", params_.scale, "a finite float");
  }

  profile::problem problem() const {
    const index_t elements = total_ * head_.logits.classes();
    return {function,
            box_loss_name(params_.loss),
            dtype_name<T>(),
            {images_, anchors_per_image_, head_.logits.classes()},
            isa_name(active_isa()),
            policy_.threads(),
            (2 * elements + 4 * total_) * index_t{sizeof(T)},
            0};
  }

  index_t match() {
    match_results results;
    results.matches = {grown(buffers_.matches, total_), total_};
    results.labels = {grown(buffers_.labels, total_), total_};
    index_t* const foreground = grown(buffers_.foreground, images_);
    results.foreground = {foreground, images_};
    const index_t matched =
        match_anchors(anchors_, truth_, results, params_.matcher, buffers_.matching, policy_);
    // The losses of each image are divided by its own foreground.
    float* const scales = grown(buffers_.scales, images_);
    for (index_t n = 0; n < images_; ++n)
      scales[n] = static_cast<float>(scale_of_foreground(params_.scale, foreground[n], images_));
    return matched;
  }

  double regress() const {
    regression_loss_params params;
    params.loss = params_.loss;
    params.beta = params_.beta;
    params.coder = params_.matcher.coder;
    const regression_targets<float> targets(truth_.boxes, {buffers_.matches.data(), total_});
    const box_selection matched(vector_view<const index_t>(buffers_.matches.data(), total_));
    const vector_view<const float> scales(buffers_.scales.data(), images_);
    return level_regression_call<const T, T>("regression_loss_and_grad", head_.deltas, targets,
                                             matched, head_.deltas_grad, scales, params)
        .run_selected(indexed_anchors(anchors_), policy_);
  }

  double classify() const {
    focal_loss_params params;
    params.alpha = params_.alpha;
    params.gamma = params_.gamma;
    params.background = params_.matcher.background;
    params.ignore = params_.matcher.ignore;
    return sigmoid_focal_loss_and_grad(
        head_.logits, vector_view<const index_t>(buffers_.labels.data(), total_), head_.logits_grad,
        vector_view<const float>(buffers_.scales.data(), images_), params, policy_);
  }

  const retinanet_head<T>& head_;
  const anchor_index& anchors_;
  const ground_truth& truth_;
  const retinanet_loss_params& params_;
  retinanet_loss_buffers& buffers_;
  threading policy_;
  index_t images_, anchors_per_image_, total_;
};

}  // namespace detail

template <class T>
retinanet_losses retinanet_loss_and_grad(const retinanet_head<T>& head, const anchor_index& anchors,
                                         const ground_truth& truth,
                                         const retinanet_loss_params& params,
                                         retinanet_loss_workspace& workspace, threading policy) {
  return detail::retinanet_loss_call<T>(head, anchors, truth, params,
                                        detail::workspace_access::buffers(workspace), policy)
      .run();
}

}  // namespace VECDET_ABI
}  // namespace vecdet
