// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/mask_bits.hpp>
#include <vecdet/mask_merging.hpp>
#include <vecdet/mask_nms.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace vecdet::test {
namespace {

/// Discs in placed memory, each in the rectangle around it. The first mask has its last pixel in
/// the picture's last row and column.
struct placed_masks {
  placed<index_t> boxes, offsets;
  placed<std::uint8_t> pixels;
  index_t count = 0;
  mask_pixels kind{};

  placed_masks(operands& make, index_t masks, const grid_size& size, mask_pixels stored,
               std::uint64_t seed)
      : count(masks), kind(stored) {
    random_generator random(seed);
    std::vector<index_t> box, begins{0};
    std::vector<std::uint8_t> all;
    for (index_t i = 0; i < masks; ++i) {
      const index_t longest = std::max(size.height, size.width);
      const index_t radius = 1 + random.below(longest / 3 + 1);
      const index_t x = i == 0 ? size.width - 1 : random.below(size.width);
      const index_t y = i == 0 ? size.height - 1 : random.below(size.height);
      const index_t x1 = std::max(x - radius, index_t{0}), y1 = std::max(y - radius, index_t{0});
      const index_t x2 = std::min(x + radius, size.width), y2 = std::min(y + radius, size.height);
      box.insert(box.end(), {x1, y1, x2, y2});
      for (index_t v = y1; v < y2; ++v)
        for (index_t u = x1; u < x2; ++u) {
          const bool is_set = (u - x) * (u - x) + (v - y) * (v - y) < radius * radius;
          const index_t at = u - x1;
          if (stored == mask_pixels::bytes || at % 8 == 0) all.push_back(0);
          if (is_set)
            all.back() |= static_cast<std::uint8_t>(stored == mask_pixels::bytes ? 1 : 1 << at % 8);
        }
      begins.push_back(static_cast<index_t>(all.size()));
    }
    boxes = make.copy(box);
    offsets = make.copy(begins);
    pixels = make.copy(all);
  }
  masks_view view() const {
    return {boxes_view<const index_t>(boxes.data(), count), offsets.in(), pixels.in(), kind};
  }
};

/// Shapes are masks x height x width of the picture.
template <class Count>
struct mask_bits_calls {
  placed_masks bits, bytes;
  placed<index_t> areas;
  placed_boxes<index_t> boxes;

  static std::vector<shape> sweep(index_t length) { return {{2, 5, length}, {2, length, 3}}; }
  static shape sized(index_t rows) { return {4, rows / 50 + 20, 70}; }
  static bool takes(const problem& p) {
    return p.shape[0] < 1000 && p.shape[1] > 0 && p.shape[1] < 1 << 13 && p.shape[2] > 0 &&
           p.shape[2] < 1 << 13;
  }

  mask_bits_calls(operands& make, const problem& p)
      : bits(make, p.shape[0], {p.shape[1], p.shape[2]}, mask_pixels::bits, 1),
        bytes(make, p.shape[0], {p.shape[1], p.shape[2]}, mask_pixels::bytes, 1),
        areas(make.room<index_t>(p.shape[0])),
        boxes(make.room<index_t>(4 * p.shape[0])) {}

  void list(call_list& c) {
    for (const bool packed : {true, false}) {
      const placed_masks& m = packed ? bits : bytes;
      const accesses all = reads(m.boxes, m.offsets, m.pixels);
      const std::string variant = packed ? "/bits" : "/bytes";
      c.add("mask_areas" + variant, all.writes(areas),
            [this, &m](threading policy) { mask_areas(m.view(), areas.out(), policy); });
      c.add("mask_boxes" + variant, all.writes(boxes),
            [this, &m](threading policy) { mask_boxes(m.view(), boxes.out(), policy); });
    }
  }
};

/// Shapes are masks of both lists x height x width of the picture.
template <class Count>
struct mask_pairs_calls {
  placed_masks bits, other_bits, bytes, other_bytes;
  placed<std::uint8_t> is_crowd;
  placed_matrix<double> overlaps, own_overlaps;
  mask_bits_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, 3, 5, length}}; }
  static shape sized(index_t rows) { return {5, 4, rows / 50 + 20, 70}; }
  static bool takes(const problem& p) {
    return p.shape[0] < 1000 && p.shape[1] < 1000 && p.shape[2] > 0 && p.shape[2] < 1 << 13 &&
           p.shape[3] > 0 && p.shape[3] < 1 << 13;
  }

  mask_pairs_calls(operands& make, const problem& p)
      : bits(make, p.shape[0], {p.shape[2], p.shape[3]}, mask_pixels::bits, 2),
        other_bits(make, p.shape[1], {p.shape[2], p.shape[3]}, mask_pixels::bits, 3),
        bytes(make, p.shape[0], {p.shape[2], p.shape[3]}, mask_pixels::bytes, 2),
        other_bytes(make, p.shape[1], {p.shape[2], p.shape[3]}, mask_pixels::bytes, 3),
        is_crowd(make.copy(std::vector<std::uint8_t>(static_cast<std::size_t>(p.shape[1]), 1))),
        overlaps(make.matrix<double>(p.shape[0], p.shape[1])),
        own_overlaps(make.matrix<double>(p.shape[0], p.shape[0])) {}

  void list(call_list& c) {
    for (const bool packed : {true, false}) {
      const placed_masks &a = packed ? bits : bytes, &b = packed ? other_bits : other_bytes;
      const std::string name = packed ? "mask_iou/bits" : "mask_iou/bytes";
      const accesses both = reads(a.boxes, a.offsets, a.pixels, b.boxes, b.offsets, b.pixels);
      c.add(name, both.writes(overlaps), [this, &a, &b](threading policy) {
        mask_iou(a.view(), b.view(), mask_overlap::iou, {}, overlaps.out(), workspace, policy);
      });
      c.add(name + "/crowds_of_smaller_area", both.reads(is_crowd).writes(overlaps),
            [this, &a, &b](threading policy) {
              mask_iou(a.view(), b.view(), mask_overlap::smaller_area, is_crowd.in(),
                       overlaps.out(), workspace, policy);
            });
      c.add(name + "/of_one_list", reads(a.boxes, a.offsets, a.pixels).writes(own_overlaps),
            [this, &a](threading policy) {
              mask_iou(a.view(), a.view(), mask_overlap::iou, {}, own_overlaps.out(), workspace,
                       policy);
            });
    }
  }
};

/// Shapes are masks x height x width of the picture.
template <class T>
struct mask_nms_calls {
  placed_masks bits, bytes;
  placed<T> scores;
  placed<index_t> classes;
  mask_nms_workspace workspace;
  mask_merging_workspace merging;

  static std::vector<shape> sweep(index_t length) { return {{9, 5, length}}; }
  static shape sized(index_t rows) { return {30, rows / 50 + 20, 70}; }
  static bool takes(const problem& p) { return mask_bits_calls<T>::takes(p); }

  mask_nms_calls(operands& make, const problem& p)
      : bits(make, p.shape[0], {p.shape[1], p.shape[2]}, mask_pixels::bits, 4),
        bytes(make, p.shape[0], {p.shape[1], p.shape[2]}, mask_pixels::bytes, 4) {
    std::vector<T> values;
    std::vector<index_t> own;
    for (index_t i = 0; i < p.shape[0]; ++i) {
      values.push_back(to<T>(static_cast<double>(i * 5 % 13) / 16));
      own.push_back(i % 3);
    }
    scores = make.copy(values);
    classes = make.copy(own);
  }

  void list(call_list& c) {
    for (const bool packed : {true, false}) {
      const placed_masks& m = packed ? bits : bytes;
      const std::string name = packed ? "mask_nms/bits" : "mask_nms/bytes";
      const accesses all = reads(m.boxes, m.offsets, m.pixels, scores);
      c.add(name, all, [this, &m](threading policy) {
        return mask_nms(m.view(), scores.in(), {}, nms_params(0.3), workspace, policy);
      });
      c.add(packed ? "group_masks/bits" : "group_masks/bytes", all, [this, &m](threading policy) {
        const mask_groups found =
            group_masks(m.view(), scores.in(), {}, mask_overlap::iou, 0.2, merging, policy);
        return std::make_tuple(found.members, found.offsets);
      });
      c.add(name + "/classes", all.reads(classes), [this, &m](threading policy) {
        nms_groups groups;
        groups.classes = classes.in();
        nms_params params(0.3);
        params.overlap = nms_overlap::smaller_area;
        return mask_nms(m.view(), scores.in(), groups, params, workspace, policy);
      });
    }
  }
};

const registered_family registered[] = {
    calls_of<mask_nms_calls, float, bfloat16, double>("mask_nms"),
    calls_of<mask_bits_calls, std::uint8_t>("mask_bits"),
    calls_of<mask_pairs_calls, std::uint8_t>("mask_pairs"),
};

}  // namespace
}  // namespace vecdet::test
