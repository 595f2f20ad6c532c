// SPDX-License-Identifier: Apache-2.0
// The function of retinanet_loss.hpp: the parts in their order. Few anchors are matched, so that
// their deltas are gathered from wherever the head has them, and their gradients go back.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/box_selection.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/retinanet_loss.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Anchor i of a batch in a head of four numbers an anchor.
template <class T>
class head_deltas {
 public:
  explicit head_deltas(const head_view<T>& head)
      : head_(head), anchors_of_image_(head.anchors_of_image()) {}

  /// Where number 0 of the anchor lies, and how far from each other its four numbers.
  struct place {
    T* first;
    index_t step;
  };
  place operator[](index_t i) const {
    const index_t image = i / anchors_of_image_, anchors = head_.anchors();
    index_t at = i % anchors_of_image_, level = 0;
    for (; at >= head_.locations(level) * anchors; ++level) at -= head_.locations(level) * anchors;
    const index_t locations = head_.locations(level);
    T* const of_image = head_.levels()[level].data + image * locations * anchors * 4;
    if (head_.layout() == head_layout::nhwc) return {of_image + 4 * at, 1};
    return {of_image + at % anchors * 4 * locations + at / anchors, locations};
  }

 private:
  const head_view<T>& head_;
  index_t anchors_of_image_;
};

template <class T>
class retinanet_loss_call {
  static_assert(std::is_same<T, float>::value || std::is_same<T, bfloat16>::value,
                "this function takes float or vecdet::bfloat16");

 public:
  retinanet_loss_call(const retinanet_head<T>& head, const anchor_index& anchors,
                      const ground_truth& truth, const retinanet_loss_params& params,
                      retinanet_loss_buffers& buffers, execution policy)
      : head_(head),
        anchors_(anchors),
        truth_(truth),
        params_(params),
        ws_(buffers),
        policy_(policy),
        images_(head.logits.images()),
        anchors_of_image_(head.logits.anchors_of_image()),
        total_(images_ * anchors_of_image_) {}

  retinanet_losses run() {
    check_arguments();
    if (images_ == 0) return {};
    const profile::scope timing([&] { return problem(); });
    retinanet_losses losses;
    losses.foreground = match();
    gather(losses.foreground);
    losses.regression = regress(losses.foreground);
    losses.classification = classify();
    scatter(losses.foreground);
    return losses;
  }

 private:
  static constexpr const char* function = "retinanet_loss_and_grad";

  void check_arguments() const {
    const auto check_like_logits = [&](const char* name, const auto& view, index_t classes) {
      check_head(function, name, view, "head.logits", head_.logits, classes);
    };
    check_like_logits("head.deltas", head_.deltas, 4);
    check_like_logits("head.logits_grad", head_.logits_grad, head_.logits.classes());
    check_like_logits("head.deltas_grad", head_.deltas_grad, 4);
    check(anchors_.size() == anchors_of_image_, function, "anchors.size()", anchors_.size(),
          "the anchors of one image of the head");
    const index_t truth_images = truth_.image_offsets.empty() ? 1 : truth_.image_offsets.size() - 1;
    check(truth_images == images_, function, "the images of truth", truth_images,
          "the images of the head");
    check(fits_float(params_.scale), function, "params.scale", params_.scale, "a finite float");
    for (index_t k = 0; k < truth_.classes.size(); ++k) {
      const index_t id = truth_.classes[k];
      check_element(id >= 0 && id < head_.logits.classes(), function, "truth.classes", k, id,
                    "0 to the classes of head.logits - 1");
    }
  }

  profile::problem problem() const {
    static constexpr const char* names[] = {"smooth_l1", "giou", "diou", "ciou"};
    const index_t elements = total_ * head_.logits.classes();
    return {function,
            names[static_cast<int>(params_.loss)],
            dtype_name<T>(),
            {images_, anchors_of_image_, head_.logits.classes()},
            isa_name(active_isa()),
            policy_.threads(),
            (2 * elements + 4 * total_) * index_t{sizeof(T)},
            0};
  }

  index_t match() {
    match_results results;
    ws_.matches.resize(static_cast<std::size_t>(total_));
    ws_.labels.resize(static_cast<std::size_t>(total_));
    ws_.foreground.resize(static_cast<std::size_t>(images_));
    results.matches = ws_.matches;
    results.labels = ws_.labels;
    results.foreground = ws_.foreground;
    const index_t foreground =
        match_anchors(anchors_, truth_, results, params_.matcher, ws_.matching, policy_);
    // Each image divides by its own foreground.
    float* const scales = grown(ws_.scales, images_);
    for (index_t n = 0; n < images_; ++n) {
      const double divisor =
          static_cast<double>(std::max(index_t{1}, ws_.foreground[static_cast<std::size_t>(n)])) *
          static_cast<double>(images_);
      scales[n] = static_cast<float>(params_.scale / divisor);
    }
    return foreground;
  }

  /// Lists the matched anchors, and what regression needs of them.
  void gather(index_t foreground) {
    index_t* const list = grown(ws_.list, foreground);
    float* const deltas = grown(ws_.deltas, 4 * foreground);
    float* const anchors = grown(ws_.anchors, 4 * foreground);
    float* const targets = grown(ws_.targets, 4 * foreground);
    float* const weights = grown(ws_.weights, foreground);
    const chunking chunks(total_, 8192);
    index_t begin[chunking::max_count + 1] = {};
    for_each_chunk(policy_, chunks, [&](index_t chunk, index_t first, index_t last) {
      begin[chunk + 1] = std::count_if(ws_.matches.begin() + first, ws_.matches.begin() + last,
                                       [](index_t match) { return match >= 0; });
    });
    for (index_t c = 0; c < chunks.count; ++c) begin[c + 1] += begin[c];
    const head_deltas<const T> of_head(head_.deltas);
    const auto& blocks = workspace_access::buffers(anchors_).blocks;
    for_each_chunk(policy_, chunks, [&](index_t chunk, index_t first, index_t last) {
      index_t k = begin[chunk];
      for (index_t i = first; i < last; ++i) {
        const index_t match = ws_.matches[static_cast<std::size_t>(i)];
        if (match < 0) continue;
        const index_t image = i / anchors_of_image_, anchor = i % anchors_of_image_;
        const box_rows& rows = blocks[static_cast<std::size_t>(anchor / block_anchors)];
        const float* const from[4] = {rows.x1, rows.y1, rows.x2, rows.y2};
        const auto delta = of_head[i];
        for (int j = 0; j < 4; ++j) {
          deltas[4 * k + j] = static_cast<float>(delta.first[j * delta.step]);
          anchors[4 * k + j] = from[j][anchor % block_anchors];
          targets[4 * k + j] = truth_.boxes[match][j];
        }
        weights[k] = ws_.scales[static_cast<std::size_t>(image)];
        list[k++] = i;
      }
    });
  }

  double regress(index_t foreground) {
    regression_loss_params params;
    params.loss = params_.loss;
    params.beta = params_.beta;
    params.coder = params_.matcher.coder;
    params.box_weights = vector_view<const float>(ws_.weights.data(), foreground);
    float* const grad = grown(ws_.grad, 4 * foreground);
    return regression_loss_and_grad(boxes_view<const float>(ws_.deltas.data(), foreground),
                                    boxes_view<const float>(ws_.anchors.data(), foreground),
                                    boxes_view<const float>(ws_.targets.data(), foreground),
                                    box_selection::all(), boxes_view<float>(grad, foreground),
                                    params, policy_);
  }

  double classify() {
    focal_loss_params params;
    params.alpha = params_.alpha;
    params.gamma = params_.gamma;
    params.background = params_.matcher.background;
    params.ignore = params_.matcher.ignore;
    return sigmoid_focal_loss_and_grad(
        head_.logits, vector_view<const index_t>(ws_.labels.data(), total_), head_.logits_grad,
        vector_view<const float>(ws_.scales.data(), images_), params, policy_);
  }

  /// Zeros, but for the matched anchors.
  void scatter(index_t foreground) {
    for (const head_level<T>& level : head_.deltas_grad.levels()) {
      const index_t size = images_ * level.height * level.width * head_.deltas.anchors() * 4;
      for_each_chunk(policy_, chunking(size, 65536), [&](index_t, index_t first, index_t last) {
        std::fill(level.data + first, level.data + last, T(0.0f));
      });
    }
    const head_deltas<T> of_head(head_.deltas_grad);
    for_each_chunk(policy_, chunking(foreground, smallest_box_chunk),
                   [&](index_t, index_t first, index_t last) {
                     for (index_t k = first; k < last; ++k) {
                       const auto to = of_head[ws_.list[static_cast<std::size_t>(k)]];
                       for (index_t j = 0; j < 4; ++j)
                         to.first[j * to.step] =
                             static_cast<T>(ws_.grad[static_cast<std::size_t>(4 * k + j)]);
                     }
                   });
  }

  const retinanet_head<T>& head_;
  const anchor_index& anchors_;
  const ground_truth& truth_;
  const retinanet_loss_params& params_;
  retinanet_loss_buffers& ws_;
  execution policy_;
  index_t images_, anchors_of_image_, total_;
};

}  // namespace detail

template <class T>
retinanet_losses retinanet_loss_and_grad(const retinanet_head<T>& head, const anchor_index& anchors,
                                         const ground_truth& truth,
                                         const retinanet_loss_params& params,
                                         retinanet_loss_workspace& workspace, execution policy) {
  return detail::retinanet_loss_call<T>(head, anchors, truth, params,
                                        detail::workspace_access::buffers(workspace), policy)
      .run();
}

}  // namespace VECDET_ABI
}  // namespace vecdet
