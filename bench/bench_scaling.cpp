// SPDX-License-Identifier: Apache-2.0
// Every kernel over five decades of size, on one thread with the best instruction set: the plot
// scaling.svg and the fitted exponents. A size is the quantity that a kernel's time is proportional
// to: logits, boxes, or pairs of boxes.
#include "support/implementations.hpp"
#include "support/operands.hpp"
#include "support/plots.hpp"
#include <vecdet/vecdet.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr threading sequential = threading::sequential;
constexpr index_t classes = 10;

line_plot& plot() {
  return plots()
      .try_emplace("scaling.svg", "Every kernel, float, one thread", "elements", "ms")
      .first->second;
}

/// `size` numbers around a mean.
std::vector<float> spread(index_t size, double mean, double deviation, std::uint64_t seed) {
  random_generator generator(seed);
  std::vector<float> numbers(static_cast<std::size_t>(size));
  for (float& x : numbers) x = static_cast<float>(mean + deviation * generator.normal());
  return numbers;
}

/// Some boxes and related data; one in 50 is foreground.
struct box_data {
  std::vector<float> first, second, deltas, out, each;
  std::vector<index_t> labels;

  explicit box_data(index_t boxes)
      : first(clustered_detections(boxes).boxes),
        second(first),
        deltas(spread(4 * boxes, 0, 0.2, 2)),
        out(first.size()),
        each(static_cast<std::size_t>(boxes)) {
    random_generator generator(3);
    for (float& x : second) x += static_cast<float>(generator.uniform(0, 9));
    for (index_t i = 0; i < boxes; ++i) labels.push_back(i % 50 == 7 ? i % classes : -1);
  }
  boxes_view<const float> a() const { return first; }
  boxes_view<const float> d() const { return deltas; }
};

/// Logits of a head of ten classes, and its boxes.
struct head_data {
  std::vector<float> logits, targets, grad, deltas, anchors;
  std::vector<index_t> labels;
  index_t rows;
  filter_topk_workspace topk;
  postprocess_workspace detections;

  explicit head_data(index_t size)
      : logits(spread(size, -5.2, 1, 1)),
        targets(logits.size()),
        grad(logits.size()),
        deltas(spread(4 * size / classes, 0, 0.2, 2)),
        anchors(clustered_detections(size / classes).boxes),
        rows(size / classes) {
    for (index_t i = 0; i < rows; ++i) labels.push_back(i % 50 == 7 ? i % classes : -1);
  }
  matrix_view<const float> x() const { return {logits.data(), rows, classes}; }
  matrix_view<const float> t() const { return {targets.data(), rows, classes}; }
  matrix_view<float> g() { return {grad.data(), rows, classes}; }
};

/// A matrix of 100 columns of IoUs.
struct pair_data {
  std::vector<float> rows, cols, out;

  explicit pair_data(index_t pairs)
      : rows(clustered_detections(pairs / 100).boxes),
        cols(clustered_detections(100).boxes),
        out(static_cast<std::size_t>(pairs)) {}
};

struct detection_data : nms_operands<float> {
  explicit detection_data(index_t count) : nms_operands(clustered_detections(count)) {}
};

/// The data of the current size.
template <class Data>
std::shared_ptr<Data> data_of(index_t size) {
  static index_t current_size;
  static std::weak_ptr<Data> current;
  auto data = current.lock();
  if (data == nullptr || current_size != size) {
    data = std::make_shared<Data>(size);
    current = data;
    current_size = size;
  }
  return data;
}

template <class Data, class Call>
void register_scaling(const std::string& function, index_t smallest, const Call& call) {
  for (index_t size = smallest; size <= 100000 * smallest; size *= 10) {
    const std::string problem = function + "/scaling/f32/" + std::to_string(size);
    const double elements = static_cast<double>(size);
    register_implementation(problem, isa_name(detected_isa()), 1, {elements, 4 * elements},
                            [=](benchmark::State& state) {
                              const auto data = data_of<Data>(size);
                              set_isa(detected_isa());
                              plotted_loop(state, plot(), function, elements,
                                           [&] { benchmark::DoNotOptimize(call(*data)); });
                            });
  }
}

void register_losses() {
  register_scaling<head_data>("sigmoid_focal_loss_and_grad", 100, [](head_data& d) {
    return sigmoid_focal_loss_and_grad(d.x(), d.labels, d.g(), {}, sequential);
  });
  register_scaling<head_data>("sigmoid_focal_loss_and_grad(dense)", 100, [](head_data& d) {
    return sigmoid_focal_loss_and_grad(d.x(), d.t(), d.g(), {}, sequential);
  });
  register_scaling<box_data>("smooth_l1_loss_and_grad", 10, [](box_data& d) {
    return smooth_l1_loss_and_grad(d.d(), d.first, box_selection::all(), d.out, {}, sequential);
  });
  register_scaling<box_data>("iou_loss_and_grad(giou)", 10, [](box_data& d) {
    return iou_loss_and_grad(d.a(), d.second, d.out, iou_kind::giou, {}, sequential);
  });
  register_scaling<box_data>("iou_loss_and_grad(ciou)", 10, [](box_data& d) {
    return iou_loss_and_grad(d.a(), d.second, d.out, iou_kind::ciou, {}, sequential);
  });
  register_scaling<box_data>("regression_loss_and_grad", 10, [](box_data& d) {
    return regression_loss_and_grad(d.d(), d.first, d.second, d.labels, d.out, {}, sequential);
  });
}

void register_boxes() {
  register_scaling<box_data>("encode_boxes", 10, [](box_data& d) {
    encode_boxes(d.a(), d.second, d.out, {}, sequential);
    return d.out.data();
  });
  register_scaling<box_data>("decode_boxes", 10, [](box_data& d) {
    decode_boxes(d.d(), d.first, image_size::height_width(800, 800), d.out, {}, sequential);
    return d.out.data();
  });
  register_scaling<box_data>("decode_distances", 10, [](box_data& d) {
    decode_distances(d.d(), d.first, image_size::height_width(800, 800), d.out, {}, sequential);
    return d.out.data();
  });
  register_scaling<box_data>("convert_boxes", 10, [](box_data& d) {
    convert_boxes(d.a(), box_format::xyxy, box_format::cxcywh, d.out, sequential);
    return d.out.data();
  });
  register_scaling<pair_data>("pairwise_iou", 100, [](pair_data& d) {
    pairwise_iou(boxes_view<const float>(d.rows), d.cols,
                 matrix_view<float>(d.out.data(), static_cast<index_t>(d.rows.size() / 4), 100), {},
                 sequential);
    return d.out.data();
  });
  register_scaling<box_data>("elementwise_iou", 10, [](box_data& d) {
    elementwise_iou(d.a(), d.second, d.each, {}, sequential);
    return d.each.data();
  });
}

void register_detections() {
  register_scaling<detection_data>("nms", 10, [](detection_data& d) {
    return nms(d.b(), d.s(), nms_params{}, d.workspace, sequential);
  });
  register_scaling<detection_data>("batched_nms", 10, [](detection_data& d) {
    return batched_nms(d.b(), d.s(), d.by_class(), nms_params{}, d.workspace, sequential);
  });
  register_scaling<detection_data>("soft_nms", 10, [](detection_data& d) {
    return soft_nms(d.b(), d.s(), d.by_class(), soft_nms_params{}, d.soft_workspace, sequential);
  });
  register_scaling<head_data>("filter_topk", 100, [](head_data& d) {
    return filter_topk(d.x(), 0.05, 1000, d.topk, sequential);
  });
  register_scaling<head_data>("postprocess", 100, [](head_data& d) {
    const image_size size = image_size::height_width(800, 800);
    return postprocess(head_outputs<float>{d.x(), d.deltas, {}}, boxes_view<const float>(d.anchors),
                       {}, vector_view<const image_size>(&size, 1), postprocess_params::retinanet(),
                       d.detections, sequential);
  });
}

const bool registered = [] {
  register_losses();
  register_boxes();
  register_detections();
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
