// SPDX-License-Identifier: Apache-2.0
// The function of ssd_loss.hpp: checks all arguments, so that errors name this function, then runs
// the parts in order.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/detector_loss.hpp>
#include <vecdet/impl/matcher_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/ssd_loss.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

class ssd_loss_call {
 public:
  ssd_loss_call(const ssd_head& head, const anchor_index& anchors, const ground_truth& truth,
                const ssd_loss_params& params, ssd_loss_buffers& buffers, threading policy)
      : head_(head),
        anchors_(anchors),
        truth_(truth),
        params_(params),
        buffers_(buffers),
        policy_(policy),
        images_(image_count(truth)),
        rows_(head.logits.rows()) {}

  ssd_losses run() {
    check_sizes();
    check_memory();
    check_truth_and_params();
    if (images_ == 0) return {};
    const profile::scope timing([&] { return problem(); });
    ssd_losses losses;
    losses.foreground = match();
    const double scale = scale_of_foreground(params_.scale, losses.foreground, 1);
    losses.regression = regress(scale);
    losses.classification = classify(scale);
    return losses;
  }

 private:
  static constexpr const char* function = "ssd_loss_and_grad";

  void check_sizes() const {
    check(head_.logits.cols() >= 1, function, "head.logits.cols()", head_.logits.cols(),
          "the background and the classes");
    check_size(function, "head.logits.rows()", rows_, images_ * anchors_.size(),
               "truth's images x anchors");
    const auto check_rows = [&](const char* argument, index_t size) {
      check_size(function, argument, size, rows_, "the rows of head.logits");
    };
    check_rows("head.deltas.size()", head_.deltas.size());
    check_rows("head.deltas_grad.size()", head_.deltas_grad.size());
    check_rows("head.logits_grad.rows()", head_.logits_grad.rows());
    check_size(function, "head.logits_grad.cols()", head_.logits_grad.cols(), head_.logits.cols(),
               "the columns of head.logits");
  }

  void check_memory() const {
    const auto check_grad = [&](const char* name, const address_range& grad) {
      check_apart(function, name, grad, "head.logits", head_.logits);
      for_each_memory_of(truth_, [&](const char* truth_name, const address_range& memory) {
        check_apart(function, name, grad, truth_name, memory);
      });
    };
    check_grad("head.logits_grad", head_.logits_grad);
    check_grad("head.deltas_grad", head_.deltas_grad);
    check_apart(function, "head.logits_grad", head_.logits_grad, "head.deltas", head_.deltas);
    check_apart_or_same(function, "head.deltas_grad", head_.deltas_grad, "head.deltas",
                        head_.deltas);
    check_apart(function, "head.deltas_grad", head_.deltas_grad, "head.logits_grad",
                head_.logits_grad);
  }

  void check_truth_and_params() const {
    const index_t classes = head_.logits.cols();
    check_matched_truth(function, truth_, images_);
    check_classified(function, truth_, classes, 1);
    const matcher_params& matcher = params_.matcher;
    check_matcher(function, "params.matcher", matcher);
    check_corner_coder(function, "params.matcher.coder", matcher.coder);
    check(matcher.ignore < 0 || matcher.ignore >= classes, function, "params.matcher.ignore",
          matcher.ignore, "a value that is not a column of head.logits");
    check(params_.negatives_per_foreground >= 0, function, "params.negatives_per_foreground",
          params_.negatives_per_foreground, "0 or more");
    check(params_.beta >= 0 && fits_float(params_.beta), function, "params.beta", params_.beta,
          "a finite float, 0 or more");
    check(fits_float(params_.scale), function, "params.scale", params_.scale, "a finite float");
  }

  profile::problem problem() const {
    return {function,
            "smooth_l1",
            dtype_name<float>(),
            {images_, anchors_.size(), head_.logits.cols()},
            isa_name(active_isa()),
            policy_.threads(),
            (2 * head_.logits.size() + 4 * rows_) * index_t{sizeof(float)},
            0};
  }

  index_t match() {
    match_results results;
    results.matches = {grown(buffers_.matches, rows_), rows_};
    results.labels = {grown(buffers_.labels, rows_), rows_};
    matcher_params matcher = params_.matcher;
    matcher.background = 0;
    return match_anchors(anchors_, truth_, results, matcher, buffers_.matching, policy_);
  }

  /// Treats the boxes as a level in channels last with one anchor per location.
  double regress(double scale) const {
    const head_level<const float> deltas{head_.deltas.data(), anchors_.size(), 1};
    const head_level<float> grad{head_.deltas_grad.data(), anchors_.size(), 1};
    const head_view<const float> in({&deltas, 1}, images_, 1, 4, head_layout::nhwc);
    const head_view<float> out({&grad, 1}, images_, 1, 4, head_layout::nhwc);
    regression_loss_params params;
    params.beta = params_.beta;
    params.scale = scale;
    params.coder = params_.matcher.coder;
    const vector_view<const index_t> matches(buffers_.matches.data(), rows_);
    const regression_targets<float> targets(truth_.boxes, matches);
    const box_selection matched(matches);
    return level_regression_call<const float, float>("regression_loss_and_grad", in, targets,
                                                     matched, out, {}, params)
        .run_selected(indexed_anchors(anchors_), policy_);
  }

  double classify(double scale) const {
    softmax_cross_entropy_params params;
    params.scale = scale;
    params.ignore = params_.matcher.ignore;
    hard_negative_mining mining;
    mining.images = images_;
    mining.negatives_per_foreground = params_.negatives_per_foreground;
    softmax_cross_entropy_call call{"softmax_cross_entropy_loss_and_grad", head_.logits,
                                    vector_view<const index_t>(buffers_.labels.data(), rows_),
                                    params};
    call.mining = &mining;
    call.output = loss_output::grad;
    call.grad = head_.logits_grad;
    return call.run_mined(buffers_.mining, policy_);
  }

  const ssd_head& head_;
  const anchor_index& anchors_;
  const ground_truth& truth_;
  const ssd_loss_params& params_;
  ssd_loss_buffers& buffers_;
  threading policy_;
  index_t images_, rows_;
};

}  // namespace detail

inline ssd_losses ssd_loss_and_grad(const ssd_head& head, const anchor_index& anchors,
                                    const ground_truth& truth, const ssd_loss_params& params,
                                    ssd_loss_workspace& workspace, threading policy) {
  return detail::ssd_loss_call(head, anchors, truth, params,
                               detail::workspace_access::buffers(workspace), policy)
      .run();
}

}  // namespace VECDET_ABI
}  // namespace vecdet
