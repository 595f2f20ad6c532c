// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include "detections.hpp"
#include <vecdet/postprocess_detr.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct detr_calls {
  placed<index_t> labels;
  placed_matrix<T> logits;
  placed_boxes<T> boxes;
  placed<image_size> images;
  placed_class_lists lists, lists_without_last;
  postprocess_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length, 4}, {2, 3, 1 + length}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 20}; }

  detr_calls(operands& make, const problem& p)
      : labels(make.labels(p.shape[0] * p.shape[1], p.shape[2])),
        logits(make.logits<T>(labels, p.shape[2])),
        boxes(make.numbers<T>(4 * p.shape[0] * p.shape[1], 0, 1)),
        images(make.images(p.shape[0])),
        lists(make.class_lists(p.shape[2])),
        lists_without_last(make.class_lists(p.shape[2] - 1)) {}

  void list(call_list& c) {
    add(c, "softmax", postprocess_detr_params::detr());
    add(c, "sigmoid", postprocess_detr_params::rt_detr());
  }
  void add(call_list& c, const std::string& variant, postprocess_detr_params params) {
    const accesses inputs = reads(logits, boxes, images);
    add(c, variant, params, inputs);
    const placed_class_lists& own = params.softmax ? lists_without_last : lists;
    own.give_limits(params);
    add(c, variant + "/by_class", params, inputs.reads(own));
  }
  void add(call_list& c, const std::string& name, const postprocess_detr_params& params,
           const accesses& inputs) {
    c.add("postprocess_detr/" + name, inputs, [this, params](threading policy) {
      return parts(postprocess_detr(detr_outputs<T>{logits.in(), boxes.in()}, images.in(), params,
                                    workspace, policy));
    });
  }
};

const registered_family registered = calls_of<detr_calls, float, bfloat16>("postprocess_detr");

}  // namespace
}  // namespace vecdet::test
