// SPDX-License-Identifier: Apache-2.0
// Replays functions of a head's levels: one level of one anchor, whose locations are all anchors of
// an image. A problem's name tells neither levels nor anchors at a location.
#include "replay_levels.hpp"

#include "replay_inputs.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/smooth_l1.hpp>
#include <vecdet/soft_target_loss.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vecdet {
namespace profile {
namespace {

/// What follows "levels_" or "nchw_": a loss or a detector, of functions that have several.
std::string kind_of(const std::string& variant) {
  const std::size_t at = variant.find('_');
  return at == std::string::npos ? "" : variant.substr(at + 1);
}

const std::map<std::string, box_loss> box_losses{{"smooth_l1", box_loss::smooth_l1},
                                                 {"giou", box_loss::giou},
                                                 {"diou", box_loss::diou},
                                                 {"ciou", box_loss::ciou}};

bool is_known_kind(const entry& e) {
  const std::string kind = kind_of(e.variant);
  if (e.function == "regression_loss_and_grad") return box_losses.count(kind) != 0;
  if (e.function == "iou_loss_and_grad") return iou_kinds.count(kind) != 0;
  if (e.function == "postprocess") return kind == "retinanet" || kind == "fcos" || kind == "rpn";
  return kind.empty();
}

template <class T>
struct tensor {
  std::vector<T> numbers;
  head_level<const T> input;
  head_level<T> output;
  index_t images, columns;
  head_layout layout;

  tensor(std::vector<T> values, index_t image_count, index_t column_count, head_layout how)
      : numbers(std::move(values)), images(image_count), columns(column_count), layout(how) {
    const index_t per_image = std::max<index_t>(1, images * columns);
    const index_t locations = static_cast<index_t>(numbers.size()) / per_image;
    input = {numbers.data(), locations, 1};
    output = {numbers.data(), locations, 1};
  }
  tensor(const tensor&) = delete;
  tensor& operator=(const tensor&) = delete;

  head_view<const T> in() const { return {{&input, 1}, images, 1, columns, layout}; }
  head_view<T> out() const { return {{&output, 1}, images, 1, columns, layout}; }
};

template <class T>
struct boxes_operands {
  tensor<T> deltas, grad;
  std::vector<float> anchors, all_anchors, decoded;
  std::vector<T> targets;
  std::vector<index_t> labels;

  boxes_operands(index_t images, index_t count, head_layout layout)
      : deltas(bench::head_deltas<T>(images * count), images, 4, layout),
        grad(bench::head_deltas<T>(images * count), images, 4, layout),
        anchors(profile::anchors(count)),
        all_anchors(profile::anchors(images * count)),
        decoded(all_anchors.size()),
        targets(bench::converted<T>(all_anchors)),
        labels(labels_like_training(images * count, 1)) {}
};

template <class T>
replay_call boxes_call(const entry& e, head_layout layout, execution policy) {
  const auto d = std::make_shared<boxes_operands<T>>(e.shape[0], e.shape[1], layout);
  if constexpr (!std::is_same<T, double>::value) {
    const boxes_view<const float> anchors(d->anchors);
    if (e.function == "decode_boxes") {
      return [=] {
        decode_boxes(d->deltas.in(), anchors, {}, boxes_view<float>(d->decoded), {}, policy);
      };
    }
    if (e.function == "decode_distances") {
      return [=] {
        decode_distances(d->deltas.in(), anchors, {}, boxes_view<float>(d->decoded), {}, policy);
      };
    }
    if (e.function == "regression_loss_and_grad") {
      regression_loss_params params;
      params.loss = box_losses.at(kind_of(e.variant));
      return [=] {
        regression_loss_and_grad(d->deltas.in(), anchors, boxes_view<const float>(d->all_anchors),
                                 d->labels, d->grad.out(), {}, params, policy);
      };
    }
  }
  const boxes_view<const T> targets(d->targets);
  if (e.function == "smooth_l1_loss_and_grad") {
    return [=] {
      smooth_l1_loss_and_grad(d->deltas.in(), targets, d->labels, d->grad.out(), {}, {}, policy);
    };
  }
  const box_selection all = box_selection::all();
  if (e.function == "iou_loss_and_grad") {
    const auto kind = iou_kinds.find(kind_of(e.variant));
    if (kind == iou_kinds.end()) return {};
    return [=, kind = kind->second] {
      iou_loss_and_grad(d->deltas.in(), targets, all, d->grad.out(), kind, {}, {}, policy);
    };
  }
  return {};
}

template <class T>
struct logits_operands {
  std::vector<index_t> labels;
  tensor<T> logits, grad, deltas, centerness;
  std::vector<float> scores, anchors;
  std::vector<image_size> sizes;
  filter_topk_workspace topk;
  postprocess_workspace workspace;

  logits_operands(index_t images, index_t count, index_t classes, head_layout layout)
      : labels(labels_like_training(images * count, classes)),
        logits(bench::head_logits<T>(labels, classes), images, classes, layout),
        grad(bench::head_logits<T>(labels, classes), images, classes, layout),
        deltas(bench::head_deltas<T>(images * count), images, 4, layout),
        centerness(std::vector<T>(labels.size(), T(0.0f)), images, 1, layout),
        scores(labels.size(), 0.5f),
        anchors(profile::anchors(count)),
        sizes(static_cast<std::size_t>(images), image_size::height_width(800, 800)) {}
};

template <class T>
replay_call logits_call(const entry& e, head_layout layout, execution policy) {
  const bool is_loss = e.shape.size() == 2;  // rows and classes
  const auto d = std::make_shared<logits_operands<T>>(
      is_loss ? 1 : e.shape[0], e.shape[is_loss ? 0 : 1], e.shape.back(), layout);
  if (is_loss) {
    const scored_labels targets{d->labels, d->scores};
    if (e.function == "quality_focal_loss_and_grad")
      return [=] {
        quality_focal_loss_and_grad(d->logits.in(), targets, d->grad.out(), {}, {}, policy);
      };
    if (e.function == "varifocal_loss_and_grad")
      return
          [=] { varifocal_loss_and_grad(d->logits.in(), targets, d->grad.out(), {}, {}, policy); };
    if (e.function == "bce_loss_and_grad")
      return [=] { bce_loss_and_grad(d->logits.in(), targets, d->grad.out(), {}, {}, policy); };
    return {};
  }
  if constexpr (!std::is_same<T, double>::value) {
    if (e.function == "filter_topk")
      return [=] { filter_topk(d->logits.in(), 0.05, 1000, d->topk, policy); };
    if (e.function == "postprocess") {
      head_level_outputs<T> outputs;
      outputs.logits = d->logits.in();
      outputs.deltas = d->deltas.in();
      const bool is_fcos = kind_of(e.variant) == "fcos", is_rpn = kind_of(e.variant) == "rpn";
      if (is_rpn && e.shape.back() != 1) return {};
      if (is_fcos) outputs.centerness = d->centerness.in();
      return [=] {
        postprocess(outputs, boxes_view<const float>(d->anchors),
                    vector_view<const image_size>(d->sizes),
                    is_fcos  ? postprocess_params::fcos()
                    : is_rpn ? postprocess_params::rpn()
                             : postprocess_params::retinanet(),
                    d->workspace, policy);
      };
    }
  }
  return {};
}

}  // namespace

bool takes_levels(const entry& e) {
  const std::string layout = e.variant.substr(0, e.variant.find('_'));
  return layout == "levels" || layout == "nchw";
}

replay_call make_levels_call(const entry& e, execution policy) {
  const head_layout layout = e.variant[0] == 'l' ? head_layout::nhwc : head_layout::nchw;
  const bool is_of_boxes = e.function.find("decode_") == 0 ||
                           e.function.find("regression_loss") == 0 ||
                           e.function.find("smooth_l1") == 0 ||
                           e.function.find("iou_loss_and_grad") != std::string::npos;
  if (!is_known_kind(e) || e.shape.size() < 2 || e.shape.size() > (is_of_boxes ? 2u : 3u))
    return {};
  return for_type(e.type, [&](auto number) {
    using T = decltype(number);
    return is_of_boxes ? boxes_call<T>(e, layout, policy) : logits_call<T>(e, layout, policy);
  });
}

}  // namespace profile
}  // namespace vecdet
