// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/box_ops.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct box_ops_calls {
  placed_boxes<T> boxes, out;
  placed<T> areas;
  placed<std::uint8_t> mask;
  placed<index_t> indices;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  box_ops_calls(operands& make, const problem& p)
      : boxes(make.boxes<T>(p.shape[0])),
        out(make.room<T>(4 * p.shape[0])),
        areas(make.room<T>(p.shape[0])),
        mask(make.room<std::uint8_t>(p.shape[0])),
        indices(make.room<index_t>(p.shape[0])) {}

  void list(call_list& c) {
    const accesses in_place = reads(boxes).writes(out).may_overwrite(boxes);
    add_conversion(c, "", box_format::xyxy, box_format::cxcywh);
    constexpr box_format formats[] = {box_format::xyxy, box_format::xywh, box_format::cxcywh};
    for (int from = 0; from < 3; ++from)
      for (int to = 0; to < 3; ++to)
        add_conversion(c, "/" + std::to_string(from) + std::to_string(to), formats[from],
                       formats[to]);
    c.add("clip_boxes/boxes", in_place, [this](threading policy) {
      clip_boxes(boxes.in(), image_size::height_width(800, 800), out.out(), policy);
    });
    c.add("split_boxes/boxes", reads(boxes).writes(out),
          [this](threading policy) { split_boxes(boxes.in(), out.out_planes(), policy); });
    c.add("join_boxes/boxes", reads(boxes).writes(out),
          [this](threading policy) { join_boxes(boxes.in_planes(), out.out(), policy); });
    c.add("box_areas/boxes", reads(boxes).writes(areas),
          [this](threading policy) { box_areas(boxes.in(), areas, policy); });
    c.add("large_box_mask/boxes", reads(boxes).writes(mask),
          [this](threading policy) { large_box_mask(boxes.in(), 16, mask, policy); });
    c.add("large_boxes/boxes", reads(boxes).writes(indices),
          [this](threading policy) { return large_boxes(boxes.in(), 16, indices, policy); });
  }

  void add_conversion(call_list& c, const std::string& options, box_format from, box_format to) {
    c.add("convert_boxes/boxes" + options, reads(boxes).writes(out).may_overwrite(boxes),
          [this, from, to](threading policy) {
            convert_boxes(boxes.in(), from, to, out.out(), policy);
          });
  }
};

template <class T>
struct split_calls {
  placed_matrix<T> detections;
  placed_boxes<T> boxes;
  placed<T> scores;
  placed<index_t> classes;

  static std::vector<shape> sweep(index_t length) { return {{length, 6}, {length, 7}}; }
  static shape sized(index_t rows) { return {rows, 6}; }
  static bool takes(const problem& p) { return p.shape[1] >= (p.variant == "classes" ? 6 : 5); }

  split_calls(operands& make, const problem& p)
      : detections(make.matrix<T>(p.shape[0], p.shape[1], 0, 90)),
        boxes(make.room<T>(4 * p.shape[0])),
        scores(make.room<T>(p.shape[0])),
        classes(make.room<index_t>(p.shape[0])) {
    for (T& number : detections) number = to<T>(std::floor(static_cast<double>(number)));
  }

  void list(call_list& c) {
    const accesses arrays = reads(detections).writes(boxes, scores);
    c.add("split_detections/boxes", arrays,
          [this](threading policy) { split_detections(detections.in(), boxes, scores, policy); });
    c.add("split_detections/classes", arrays.writes(classes), [this](threading policy) {
      split_detections(detections.in(), boxes, scores, classes, policy);
    });
  }
};

template <class T>
struct join_calls {
  placed_boxes<T> boxes;
  placed<T> scores;
  placed<index_t> classes;
  placed_matrix<T> detections;

  static std::vector<shape> sweep(index_t length) { return split_calls<T>::sweep(length); }
  static shape sized(index_t rows) { return split_calls<T>::sized(rows); }
  static bool takes(const problem& p) { return split_calls<T>::takes(p); }

  join_calls(operands& make, const problem& p)
      : boxes(make.boxes<T>(p.shape[0])),
        scores(make.numbers<T>(p.shape[0], 0, 1)),
        classes(make.labels(p.shape[0], 80)),
        detections(make.matrix<T>(p.shape[0], p.shape[1])) {}

  void list(call_list& c) {
    const accesses arrays = reads(boxes, scores).writes(detections);
    c.add("join_detections/boxes", arrays, [this](threading policy) {
      join_detections(boxes.in(), scores.in(), detections.out(), policy);
    });
    if (detections.cols < 6) return;
    c.add("join_detections/classes", arrays.reads(classes), [this](threading policy) {
      join_detections(boxes.in(), scores.in(), classes.in(), detections.out(), policy);
    });
  }
};

const registered_family registered[] = {
    calls_of<join_calls, float, bfloat16, double>("box_ops/join"),
    calls_of<box_ops_calls, float, bfloat16, double>("box_ops"),
    calls_of<split_calls, float, bfloat16, double>("box_ops/split"),
};

}  // namespace
}  // namespace vecdet::test
