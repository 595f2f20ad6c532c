// SPDX-License-Identifier: Apache-2.0
// The function of fcos_loss.hpp: its parts in order. The assigner comes first. It checks the
// points, the radius and the regions before any gradient is written.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/fcos_loss.hpp>
#include <vecdet/impl/assign_fcos.hpp>
#include <vecdet/impl/box_coding.hpp>
#include <vecdet/impl/detector_loss.hpp>
#include <vecdet/impl/head_boxes.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/soft_target_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// FCOS's centre-ness of a point in a box, computed in double and rounded to float.
inline float centerness_of(const float* anchor, const float* box) {
  const auto number = [](float x) { return static_cast<double>(x); };
  const auto ratio = [&](int axis) {
    const double centre = (number(anchor[axis]) + number(anchor[axis + 2])) / 2;
    const double low = centre - number(box[axis]), high = number(box[axis + 2]) - centre;
    return quotient(std::min(low, high), std::max(low, high));
  };
  return static_cast<float>(square_root(rounded(ratio(0) * ratio(1))));
}

template <class T>
class fcos_loss_call {
  static_assert(std::is_same<T, float>::value || std::is_same<T, bfloat16>::value,
                "this function takes float or vecdet::bfloat16");

 public:
  fcos_loss_call(const fcos_head<T>& head, const boxes_view<const float>& anchors,
                 const ground_truth& truth, const fcos_loss_params& params,
                 fcos_loss_buffers& buffers, threading policy)
      : head_(head),
        anchors_(anchors),
        truth_(truth),
        params_(params),
        buffers_(buffers),
        policy_(policy),
        images_(head.logits.images()),
        total_(images_ * head.logits.anchors_per_image()),
        parts_(total_, smallest_part) {}

  fcos_losses run() {
    check_heads();
    check_memory();
    check_truth_and_params();
    const profile::scope timing([&] { return problem(); });
    fcos_losses losses;
    assign();
    losses.foreground = first_matched_[parts_.count];
    const double scale = scale_of_foreground(params_.scale, losses.foreground, 1);
    losses.centerness = center(losses.foreground, scale);
    losses.regression = regress(scale);
    losses.classification = classify(scale);
    return losses;
  }

 private:
  static constexpr const char* function = "fcos_loss_and_grad";
  static constexpr index_t smallest_part = 4096;  // anchors: some microseconds

  void check_heads() const {
    const auto check_like_logits = [&](const char* name, const auto& view, index_t classes) {
      check_head(function, name, view, "head.logits", head_.logits, classes);
    };
    check(head_.logits.anchors() == 1, function, "head.logits.anchors()", head_.logits.anchors(),
          "1");
    check_like_logits("head.distances", head_.distances, 4);
    check_like_logits("head.centerness", head_.centerness, 1);
    check_like_logits("head.logits_grad", head_.logits_grad, head_.logits.classes());
    check_like_logits("head.distances_grad", head_.distances_grad, 4);
    check_like_logits("head.centerness_grad", head_.centerness_grad, 1);
  }

  void check_memory() const {
    const auto check_grad = [&](const char* name, const head_view<T>& grad, const void* of) {
      const auto check_input = [&](const char* input, const head_view<const T>& in) {
        check_levels_apart(function, name, grad, input, in, &in == of);
      };
      check_levels_apart(function, name, grad);
      check_input("head.logits", head_.logits);
      check_input("head.distances", head_.distances);
      check_input("head.centerness", head_.centerness);
      check_levels_apart(function, name, grad, "anchors", anchors_);
      check_apart_from_truth(function, name, grad, truth_);
    };
    check_grad("head.logits_grad", head_.logits_grad, &head_.logits);
    check_grad("head.distances_grad", head_.distances_grad, &head_.distances);
    check_grad("head.centerness_grad", head_.centerness_grad, &head_.centerness);
    check_levels_apart(function, "head.distances_grad", head_.distances_grad, "head.logits_grad",
                       head_.logits_grad);
    check_levels_apart(function, "head.centerness_grad", head_.centerness_grad, "head.logits_grad",
                       head_.logits_grad);
    check_levels_apart(function, "head.centerness_grad", head_.centerness_grad,
                       "head.distances_grad", head_.distances_grad);
  }

  void check_truth_and_params() const {
    check_size(function, "anchors.size()", anchors_.size(), head_.logits.anchors_per_image(),
               "the anchors of one image of the head");
    check_size(function, "the number of truth's images", image_count(truth_), images_,
               "the number of the head's images");
    check_classified(function, truth_, head_.logits.classes());
    look_at_boxes(function, "truth.boxes", truth_.boxes);
    check_focusing(function, params_.alpha, params_.gamma);
    const box_format anchors = params_.coder.anchors;
    check(anchors == box_format::xyxy, function, "params.coder.anchors",
          anchors == box_format::cxcywh ? "cxcywh" : "xywh", "xyxy");
    check(params_.epsilon >= 0 && fits_float(params_.epsilon), function, "params.epsilon",
          params_.epsilon, "a finite float, 0 or more");
    check(fits_float(params_.scale), function, "params.scale", params_.scale, "a finite float");
  }

  profile::problem problem() const {
    const index_t classes = head_.logits.classes();
    return {function,
            levels_variant(head_.logits.layout()),
            dtype_name<T>(),
            {images_, anchors_.size(), classes},
            isa_name(active_isa()),
            policy_.threads(),
            total_ * (2 * classes + 5) * index_t{sizeof(T)},
            0};
  }

  /// Computes matches and labels, and counts the matched anchors.
  void assign() {
    buffers_.levels.clear();
    for (const auto& level : head_.logits.levels())
      buffers_.levels.push_back({level.height, level.width});
    index_t* const matches = grown(buffers_.matches, total_);
    index_t* const labels = grown(buffers_.labels, total_);
    fcos_assigner_params assigner;
    assigner.radius = params_.radius;
    run_assign_fcos(function, anchors_, buffers_.levels, truth_, {matches, total_}, assigner,
                    workspace_access::buffers(buffers_.assigner), policy_);
    first_matched_[0] = 0;
    for_each_chunk(policy_, parts_, [&](index_t part, index_t first, index_t last) {
      index_t matched = 0;
      for (index_t i = first; i < last; ++i) {
        labels[i] = matches[i] < 0 ? matches[i] : class_of(truth_, matches[i]);
        matched += static_cast<index_t>(matches[i] >= 0);
      }
      first_matched_[part + 1] = matched;
    });
    for (index_t part = 0; part < parts_.count; ++part)
      first_matched_[part + 1] += first_matched_[part];
  }

  /// Calls use(match, how many matched anchors come before, index in the image, element of `head`)
  /// for all anchors of the batch. `head` has one class and one anchor per location.
  template <class Head, class Use>
  void for_each_anchor(const head_view<Head>& head, const Use& use) const {
    const index_t* const matches = buffers_.matches.data();
    for_each_chunk(policy_, parts_, [&](index_t part, index_t first, index_t last) {
      index_t k = first_matched_[part];
      for_each_stretch(head, first, last, [&](const level_stretch& s) {
        const level_steps steps(head, s.level);
        Head* const from = head.levels()[s.level].data + s.image * steps.image;
        for (index_t i = s.begin; i < s.end; ++i) {
          const index_t match = matches[s.first_label + (i - s.begin)];
          use(match, k, s.first_anchor + (i - s.begin), from[i * steps.location]);
          k += static_cast<index_t>(match >= 0);
        }
      });
    });
  }

  double center(index_t foreground, double scale) {
    float* const logits = grown(buffers_.centerness, foreground);
    float* const targets = grown(buffers_.targets, foreground);
    float* const grad = grown(buffers_.grad, foreground);
    grown(buffers_.zeros, foreground);
    for_each_anchor(head_.centerness,
                    [&](index_t match, index_t k, index_t anchor, const T& logit) {
                      if (match < 0) return;
                      logits[k] = static_cast<float>(logit);
                      targets[k] = centerness_of(anchors_[anchor], truth_.boxes[match]);
                    });
    bce_params params;
    params.scale = scale;
    const scored_labels scored{vector_view<const index_t>(buffers_.zeros.data(), foreground),
                               {targets, foreground}};
    const double loss = bce_loss_and_grad(matrix_view<const float>(logits, foreground, 1), scored,
                                          matrix_view<float>(grad, foreground, 1), params, policy_);
    for_each_anchor(head_.centerness_grad, [&](index_t match, index_t k, index_t, T& to) {
      to = T(match < 0 ? 0.0f : grad[k]);
    });
    return loss;
  }

  /// Decodes boxes from distances, computes their GIoU losses, and propagates the gradient back to
  /// the distances.
  double regress(double scale) const {
    const vector_view<const index_t> matches(buffers_.matches.data(), total_);
    const box_selection matched(matches);
    const isa target = active_isa();
    const auto decode = coding_kernels<float>::decode_distances(target);
    const auto loss = kernels<iou_loss_kernels<float>>(target).run;
    const box_coding_args<float> coding = coding_args<float>(params_.coder);
    const level_boxes_loss<const T, T, float> levels(target, head_.distances, head_.distances_grad,
                                                     matched, {}, {});
    using block = typename level_boxes_loss<const T, T, float>::block;
    const auto compute = [&](const loss_boxes<T, float>& of) {
      alignas(64) float boxes[4 * most_level_boxes], grad[4 * most_level_boxes];
      for (index_t i = 0; i < 4 * of.count; ++i) boxes[i] = static_cast<float>(of.in[i]);
      box_coding_args<float> args = coding;
      args.in = args.out = boxes;
      args.anchors = of.anchors;
      decode(args, 0, of.count);
      const double sum = loss({boxes, of.targets, nullptr, scale, params_.epsilon, iou_kind::giou,
                               loss_output::grad, grad, nullptr},
                              0, of.count);
      for (index_t i = 0; i < of.count; ++i) {
        for (index_t k = 0; k < 4; ++k) {
          const float* const anchor = of.anchors + 4 * i;
          const float size = params_.coder.by_size ? anchor[k % 2 + 2] - anchor[k % 2] : 1.0f;
          of.grad[4 * i + k] = T((k < 2 ? -size : size) * grad[4 * i + k]);
        }
      }
      return sum;
    };
    return scaled(scale, levels.run_selected(
                             policy_,
                             [&](block& to, index_t k, index_t anchor, index_t label) {
                               std::copy(anchors_[anchor], anchors_[anchor] + 4,
                                         to.anchors + 4 * k);
                               const float* const box = truth_.boxes[matches[label]];
                               std::copy(box, box + 4, to.targets + 4 * k);
                             },
                             compute));
  }

  double classify(double scale) const {
    focal_loss_params params;
    params.alpha = params_.alpha;
    params.gamma = params_.gamma;
    params.scale = scale;
    return sigmoid_focal_loss_and_grad(head_.logits,
                                       vector_view<const index_t>(buffers_.labels.data(), total_),
                                       head_.logits_grad, {}, params, policy_);
  }

  const fcos_head<T>& head_;
  const boxes_view<const float>& anchors_;
  const ground_truth& truth_;
  const fcos_loss_params& params_;
  fcos_loss_buffers& buffers_;
  threading policy_;
  index_t images_, total_;
  chunking parts_;  ///< of all anchors
  /// How many matched anchors come before each part; at the end, all.
  index_t first_matched_[chunking::max_count + 1];
};

}  // namespace detail

template <class T>
fcos_losses fcos_loss_and_grad(const fcos_head<T>& head, boxes_view<const float> anchors,
                               const ground_truth& truth, const fcos_loss_params& params,
                               fcos_loss_workspace& workspace, threading policy) {
  return detail::fcos_loss_call<T>(head, anchors, truth, params,
                                   detail::workspace_access::buffers(workspace), policy)
      .run();
}

}  // namespace VECDET_ABI
}  // namespace vecdet
