// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/box_coding.hpp>

namespace vecdet::test {
namespace {

const image_size image = image_size::height_width(400, 500);

/// Codes of type T for boxes of type Box.
template <class T, class Box>
struct box_coding_calls {
  static constexpr bool is_mixed = !std::is_same<T, Box>::value;
  placed_boxes<T> deltas, distances, codes;
  placed_boxes<Box> anchors, boxes, out;
  const std::string prefix = is_mixed ? "float_" : "";

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  box_coding_calls(operands& make, const problem& p)
      : deltas(make.deltas<T>(p.shape[0])),
        distances(make.numbers<T>(4 * p.shape[0], 0, 2)),
        codes(make.room<T>(4 * p.shape[0])),
        anchors(make.boxes<Box>(p.shape[0])),
        boxes(make.boxes_near<Box>(p.shape[0])),
        out(make.room<Box>(4 * p.shape[0])) {}

  accesses decodes(const placed_boxes<T>& from) {
    const accesses arrays = reads(from, anchors).writes(out);
    return is_mixed ? arrays : arrays.may_overwrite(from);
  }

  void list(call_list& c) {
    add_decoding(c, "boxes", "clip", {});
    add_decoding(c, "boxes/ssd", "clip/ssd", coder_params::ssd());
    add_distances(c, "by_size", "clip", {});
    add_distances(c, "by_size/centres", "clip/centres", {true, box_format::cxcywh});
    add_distances(c, "pixels", "pixels_clip", {false, box_format::xyxy});
    if constexpr (!is_mixed) {
      add_encoding(c);
      add_planes(c);
    }
  }

  void add_decoding(call_list& c, const std::string& variant, const std::string& clipped,
                    const coder_params& params) {
    c.add("decode_boxes/" + prefix + variant, decodes(deltas), [this, params](threading policy) {
      decode_boxes(deltas.in(), anchors, out.out(), params, policy);
    });
    c.add("decode_boxes/" + prefix + clipped, decodes(deltas), [this, params](threading policy) {
      decode_boxes(deltas.in(), anchors, image, out.out(), params, policy);
    });
  }
  void add_distances(call_list& c, const std::string& variant, const std::string& clipped,
                     const distance_params& params) {
    c.add("decode_distances/" + prefix + variant, decodes(distances),
          [this, params](threading policy) {
            decode_distances(distances.in(), anchors, out.out(), params, policy);
          });
    c.add("decode_distances/" + prefix + clipped, decodes(distances),
          [this, params](threading policy) {
            decode_distances(distances.in(), anchors, image, out.out(), params, policy);
          });
    if constexpr (!is_mixed) {
      c.add("encode_distances/" + variant, reads(boxes, anchors).writes(codes).may_overwrite(boxes),
            [this, params](threading policy) {
              encode_distances(boxes.in(), anchors, codes, params, policy);
            });
    }
  }
  void add_encoding(call_list& c) {
    const accesses arrays = reads(boxes, anchors).writes(codes).may_overwrite(boxes);
    coder_params box_head;
    box_head.weight_x = box_head.weight_y = 10;
    box_head.weight_w = box_head.weight_h = 5;
    c.add("encode_boxes/weights1", arrays,
          [this](threading policy) { encode_boxes(boxes.in(), anchors, codes, {}, policy); });
    c.add("encode_boxes/boxes", arrays, [this, box_head](threading policy) {
      encode_boxes(boxes.in(), anchors, codes, box_head, policy);
    });
    c.add("encode_boxes/boxes/ssd", arrays, [this](threading policy) {
      encode_boxes(boxes.in(), anchors, codes, coder_params::ssd(), policy);
    });
  }
  void add_planes(call_list& c) {
    c.add("encode_boxes/soa_boxes", reads(boxes, anchors).writes(codes).may_overwrite(boxes),
          [this](threading policy) {
            encode_boxes(boxes.in_planes(), anchors.in_planes(), codes.out_planes(), {}, policy);
          });
    c.add("decode_boxes/soa_boxes", decodes(deltas), [this](threading policy) {
      decode_boxes(deltas.in_planes(), anchors.in_planes(), out.out_planes(), {}, policy);
    });
    c.add("decode_boxes/soa_clip", decodes(deltas), [this](threading policy) {
      decode_boxes(deltas.in_planes(), anchors.in_planes(), image, out.out_planes(), {}, policy);
    });
  }
};

/// The same for a batch of images.
template <class T, class Box>
struct batch_calls {
  static constexpr bool is_mixed = !std::is_same<T, Box>::value;
  placed_boxes<T> deltas;
  placed_boxes<Box> anchors, out;
  placed<image_size> images;

  static std::vector<shape> sweep(index_t length) { return {{2, length}}; }
  static shape sized(index_t rows) { return {2, (rows + 1) / 2}; }

  batch_calls(operands& make, const problem& p)
      : deltas(make.deltas<T>(p.shape[0] * p.shape[1])),
        anchors(make.boxes<Box>(p.shape[1])),
        out(make.room<Box>(4 * p.shape[0] * p.shape[1])),
        images(make.images(p.shape[0])) {}

  void list(call_list& c) {
    accesses arrays = reads(deltas, anchors).writes(out);  // images are not checked
    if (!is_mixed) arrays = arrays.may_overwrite(deltas);
    c.add(is_mixed ? "decode_boxes/float_clip_batch" : "decode_boxes/clip_batch", arrays,
          [this](threading policy) {
            decode_boxes(deltas.in(), anchors, images.in(), out.out(), {}, policy);
          });
    if constexpr (!is_mixed) {
      c.add("decode_boxes/soa_clip_batch", arrays, [this](threading policy) {
        decode_boxes(deltas.in_planes(), anchors.in_planes(), images.in(), out.out_planes(), {},
                     policy);
      });
    }
  }
};

template <class T>
using one_image = box_coding_calls<T, T>;
template <class T>
using one_image_mixed = box_coding_calls<T, float>;
template <class T>
using batch = batch_calls<T, T>;
template <class T>
using batch_mixed = batch_calls<T, float>;
const registered_family registered[] = {
    calls_of<one_image, float, bfloat16, double>("box_coding"),
    calls_of<one_image_mixed, bfloat16>("box_coding/float"),
    calls_of<batch, float, bfloat16, double>("box_coding/batch"),
    calls_of<batch_mixed, bfloat16>("box_coding/batch_float"),
};

}  // namespace
}  // namespace vecdet::test
