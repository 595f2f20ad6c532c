// SPDX-License-Identifier: Apache-2.0
// Replays IoU of ground truth and anchors, or of anchors and boxes predicted from them.
#include "replay_inputs.hpp"
#include <vecdet/iou.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vecdet;

const std::map<std::string, iou_params> variants = {
    {"torchvision", {iou_kind::iou, empty_iou::nan}},
    {"detectron2", {iou_kind::iou, empty_iou::zero}},
    {"giou", {iou_kind::giou, empty_iou::nan}},
    {"diou", {iou_kind::diou, empty_iou::nan}},
    {"ciou", {iou_kind::ciou, empty_iou::nan}},
};

template <class T>
struct operands {
  std::vector<T> a, b, out;
};

/// The shorter list is ground truth.
template <class T>
profile::replay_call make_pairwise_call(const profile::entry& e, execution policy) {
  const index_t rows = e.shape[0], cols = e.shape[1];
  const auto data = std::make_shared<operands<T>>();
  const auto boxes = [&](index_t count, bool truth) {
    return bench::converted<T>(truth ? bench::built_in_picture(count).boxes
                                     : profile::anchors(count));
  };
  data->a = boxes(rows, rows <= cols);
  data->b = boxes(cols, rows > cols);
  data->out.resize(static_cast<std::size_t>(rows * cols));
  const matrix_view<T> out(data->out.data(), rows, cols);
  const iou_params params = variants.at(e.variant);
  return [=] { pairwise_iou(boxes_view<const T>(data->a), data->b, out, params, policy); };
}

template <class T>
profile::replay_call make_elementwise_call(const profile::entry& e, execution policy) {
  const auto data = std::make_shared<operands<T>>();
  const std::vector<float> anchors = profile::anchors(e.shape[0]);
  data->a = bench::converted<T>(anchors);
  data->b = bench::converted<T>(bench::predicted_boxes(anchors));
  data->out.resize(static_cast<std::size_t>(e.shape[0]));
  if (e.variant.compare(0, 4, "soa_") == 0) {
    data->a = bench::as_planes(data->a);
    data->b = bench::as_planes(data->b);
    const iou_params params = variants.at(e.variant.substr(4));
    return [=] {
      elementwise_iou(bench::planes(data->a), bench::planes(data->b), data->out, params, policy);
    };
  }
  const iou_params params = variants.at(e.variant);
  return [=] { elementwise_iou(boxes_view<const T>(data->a), data->b, data->out, params, policy); };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  const bool is_pairwise = e.function == "pairwise_iou";
  const bool is_soa = !is_pairwise && e.variant.compare(0, 4, "soa_") == 0;
  if (variants.count(is_soa ? e.variant.substr(4) : e.variant) == 0 ||
      e.shape.size() != (is_pairwise ? 2u : 1u))
    return {};
  return profile::for_type(e.type, [&](auto number) {
    using type = decltype(number);
    return is_pairwise ? make_pairwise_call<type>(e, policy)
                       : make_elementwise_call<type>(e, policy);
  });
}

const profile::replay_registration registered[] = {
    {"pairwise_iou", make},
    {"elementwise_iou", make},
};

}  // namespace
