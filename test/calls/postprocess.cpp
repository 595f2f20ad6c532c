// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include "detections.hpp"
#include <vecdet/box_head.hpp>
#include <vecdet/postprocess.hpp>

namespace vecdet::test {
namespace {

/// Level sizes as in a pyramid: each level has a quarter of the anchors of the one before.
std::vector<index_t> pyramid_sizes(index_t anchors) {
  std::vector<index_t> sizes;
  for (int level = 0; level < 4; ++level) {
    sizes.push_back(anchors * 3 / 4);
    anchors -= sizes.back();
  }
  sizes.push_back(anchors);
  return sizes;
}

template <class T>
struct dense_operands {
  placed<index_t> labels;
  placed_matrix<T> logits;
  placed_boxes<T> deltas, distances;
  placed<T> centerness;
  placed_boxes<float> anchors;
  placed<index_t> levels;
  placed<image_size> images;
  placed_class_lists lists, foreground_lists;
  postprocess_workspace workspace;

  dense_operands(operands& make, index_t image_count, index_t count, index_t classes)
      : labels(make.labels(image_count * count, classes)),
        logits(make.logits<T>(labels, classes)),
        deltas(make.deltas<T>(image_count * count)),
        distances(make.numbers<T>(4 * image_count * count, 0, 1)),
        centerness(make.numbers<T>(image_count * count, -3, 3)),
        anchors(make.boxes<float>(count)),
        levels(make.copy(pyramid_sizes(count))),
        images(make.images(image_count)),
        lists(make.class_lists(classes)),
        foreground_lists(make.class_lists(classes, 1)) {}

  void list(call_list& c) {
    add(c, "retinanet", postprocess_params::retinanet());
    add(c, "fcos", postprocess_params::fcos());
    if (logits.cols > 1) add(c, "ssd", postprocess_params::ssd());
    if (logits.cols == 1) add(c, "rpn", postprocess_params::rpn());
  }

  void add(call_list& c, const std::string& variant, postprocess_params params) {
    add(c, variant, params, reads());
    if (params.detector == dense_detector::rpn) return;
    const placed_class_lists& own =
        params.detector == dense_detector::ssd ? foreground_lists : lists;
    own.give(params);
    add(c, variant + "/by_class", params, reads(own));
  }
  void add(call_list& c, const std::string& name, const postprocess_params& params,
           const accesses& more_inputs) {
    const bool is_fcos = params.detector == dense_detector::fcos;
    const placed_boxes<T>& codes = is_fcos ? distances : deltas;
    accesses inputs = more_inputs.reads(logits, codes, anchors, images);
    if (is_fcos) inputs = inputs.reads(centerness);
    c.add("postprocess/" + name, inputs, [this, &codes, is_fcos, params](threading policy) {
      head_outputs<T> outputs{logits.in(), codes.in(), {}};
      if (is_fcos) outputs.centerness = centerness;
      const bool has_levels = params.detector != dense_detector::ssd;
      return parts(postprocess(outputs, anchors,
                               has_levels ? levels.in() : vector_view<const index_t>(), images.in(),
                               params, workspace, policy));
    });
  }
};

/// For a single image, a problem's shape has no dimension for images.
template <class T>
struct one_image : dense_operands<T> {
  static std::vector<shape> sweep(index_t length) {
    return {{3 + length % 5, length}, {length, 1}};
  }
  static shape sized(index_t rows) { return {rows, 21}; }
  one_image(operands& make, const problem& p)
      : dense_operands<T>(make, 1, p.shape[0], p.shape[1]) {}
};
template <class T>
struct one_image_rpn : one_image<T> {
  static shape sized(index_t rows) { return {rows, 1}; }
  static bool takes(const problem& p) { return p.shape[1] == 1; }
  using one_image<T>::one_image;
};
template <class T>
struct batch : dense_operands<T> {
  static std::vector<shape> sweep(index_t length) {
    return {{2, 3 + length % 5, length}, {2, length, 1}};
  }
  static shape sized(index_t rows) { return {3, (rows + 2) / 3, 21}; }
  batch(operands& make, const problem& p)
      : dense_operands<T>(make, p.shape[0], p.shape[1], p.shape[2]) {}
};
template <class T>
struct batch_rpn : batch<T> {
  static shape sized(index_t rows) { return {3, (rows + 2) / 3, 1}; }
  static bool takes(const problem& p) { return p.shape[2] == 1; }
  using batch<T>::batch;
};

template <class T>
struct level_calls {
  head_sizes sizes;
  placed<index_t> labels;
  struct head {
    placed_head<T> logits, deltas, distances, centerness;
  } nhwc, nchw;
  placed_boxes<float> anchors;
  placed<image_size> images;
  placed_class_lists lists;
  postprocess_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{2, 2 * (length + 6), 3}, {2, 2 * (length + 6), 1}};
  }
  static shape sized(index_t rows) { return {2, rows / 4 * 2, 20}; }

  level_calls(operands& make, const problem& p)
      : sizes(make.head(p.shape[0], p.shape[1])),
        labels(make.labels(p.shape[0] * p.shape[1], p.shape[2])),
        nhwc(make_head(make, p.shape[2], head_layout::nhwc)),
        nchw(make_head(make, p.shape[2], head_layout::nchw)),
        anchors(make.boxes<float>(p.shape[1])),
        images(make.images(p.shape[0])),
        lists(make.class_lists(p.shape[2])) {}

  head make_head(operands& make, index_t classes, head_layout layout) const {
    return {make.logits_head<T>(sizes, labels, classes, layout), make.deltas_head<T>(sizes, layout),
            make.head<T>(sizes, 4, layout, 0, 1), make.head<T>(sizes, 1, layout, -3, 3)};
  }

  void list(call_list& c) {
    add(c, "levels_", nhwc);
    add(c, "nchw_", nchw);
  }
  void add(call_list& c, const std::string& layout, const head& of) {
    add(c, layout + "retinanet", of, of.deltas, postprocess_params::retinanet());
    add(c, layout + "fcos", of, of.distances, postprocess_params::fcos());
    if (of.logits.columns == 1) add(c, layout + "rpn", of, of.deltas, postprocess_params::rpn());
  }
  void add(call_list& c, const std::string& variant, const head& of, const placed_head<T>& codes,
           postprocess_params params) {
    add(c, variant, of, codes, params, reads());
    if (params.detector == dense_detector::rpn) return;
    lists.give(params);
    add(c, variant + "/by_class", of, codes, params, reads(lists));
  }
  void add(call_list& c, const std::string& name, const head& of, const placed_head<T>& codes,
           const postprocess_params& params, const accesses& more_inputs) {
    const bool is_fcos = params.detector == dense_detector::fcos;
    accesses inputs = more_inputs.reads(of.logits, codes, anchors, images);
    if (is_fcos) inputs = inputs.reads(of.centerness);
    c.add("postprocess/" + name, inputs, [this, &of, &codes, is_fcos, params](threading policy) {
      head_level_outputs<T> outputs{of.logits.in(), codes.in()};
      if (is_fcos) outputs.centerness = of.centerness.in();
      return parts(postprocess(outputs, anchors, images.in(), params, workspace, policy));
    });
  }
};
template <class T>
struct rpn_level_calls : level_calls<T> {
  static shape sized(index_t rows) { return {2, rows / 4 * 2, 1}; }
  static bool takes(const problem& p) { return p.shape[2] == 1; }
  using level_calls<T>::level_calls;
};

template <class T>
struct box_head_calls {
  placed<index_t> labels;
  placed_matrix<T> logits;
  placed_boxes<T> deltas;
  placed_boxes<float> proposals;
  placed<index_t> offsets;
  placed<image_size> images;
  postprocess_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{1 + length % 5, length}, {length, 3}};
  }
  static shape sized(index_t rows) { return {rows > 3000 ? rows / 12 : rows, 20}; }

  box_head_calls(operands& make, const problem& p)
      : box_head_calls(make,
                       p.exact_count(p.shape[0], static_cast<std::size_t>(p.shape[1]) * sizeof(T)),
                       p.shape[1]) {}
  box_head_calls(operands& make, index_t rows, index_t classes)
      : labels(make.labels(rows, classes)),
        logits(make.logits<T>(labels, classes)),
        deltas(make.deltas<T>(rows * classes)),
        proposals(make.boxes<float>(rows)),
        offsets(make.copy(std::vector<index_t>{0, rows / 3, rows})),
        images(make.images(2)) {
    if (!make.in_training()) return;
    // Most rows are background.
    for (index_t i = 0; i < rows; ++i) logits[i * classes] = to<T>(labels[i] < 0 ? 4 : -4);
  }

  void list(call_list& c) {
    c.add("postprocess_box_head/", reads(logits, deltas, proposals, offsets, images),
          [this](threading policy) {
            return parts(postprocess_box_head(box_head_outputs<T>{logits.in(), deltas.in()},
                                              proposals, offsets, images.in(), {}, workspace,
                                              policy));
          });
  }
};

const registered_family registered[] = {
    calls_of<one_image, float, bfloat16>("postprocess"),
    calls_of<one_image_rpn, float, bfloat16>("postprocess/rpn"),
    calls_of<batch, float, bfloat16>("postprocess/batch"),
    calls_of<batch_rpn, float, bfloat16>("postprocess/batch_rpn"),
    calls_of<level_calls, float, bfloat16>("postprocess/levels"),
    calls_of<rpn_level_calls, float, bfloat16>("postprocess/rpn_levels"),
    calls_of<box_head_calls, float, bfloat16>("box_head"),
};

}  // namespace
}  // namespace vecdet::test
