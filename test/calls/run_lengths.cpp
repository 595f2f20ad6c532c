// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/reference/run_lengths.hpp>
#include <vecdet/run_lengths.hpp>

#include <string>
#include <tuple>
#include <vector>

namespace vecdet::test {
namespace {

auto parts(const run_lengths_view& runs) {
  return std::make_tuple(vector_view<const index_t>(runs.offsets),
                         vector_view<const std::uint32_t>(runs.counts));
}

/// Pictures with a disc each, row by row.
std::vector<std::uint8_t> discs(index_t count, const grid_size& size) {
  random_generator random(9);
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  std::vector<std::uint8_t> pixels;
  for (index_t i = 0; i < count; ++i) {
    const double x = random.uniform(0, width), y = random.uniform(0, height);
    const double radius = random.uniform(0.05, 0.3) * std::max(width, height);
    for (index_t k = 0; k < size.height * size.width; ++k) {
      const double u = static_cast<double>(k % size.width) - x;
      const double v = static_cast<double>(k / size.width) - y;
      pixels.push_back(u * u + v * v < radius * radius ? 1 : 0);
    }
  }
  return pixels;
}

/// Run lengths in placed memory, and their strings.
struct placed_runs {
  placed<grid_size> sizes;
  placed<index_t> offsets;
  placed<std::uint32_t> counts;
  placed<char> text;
  placed<index_t> text_offsets;

  // By the reference, because the profiler would record calls of the functions.
  placed_runs(operands& make, index_t count, const grid_size& size) {
    const std::vector<std::uint8_t> pixels = discs(count, size);
    std::vector<index_t> begins{0}, text_begins{0};
    std::vector<std::uint32_t> all;
    std::string strings;
    for (index_t i = 0; i < count; ++i) {
      const std::uint8_t* const picture = pixels.data() + i * size.height * size.width;
      const std::vector<std::uint32_t> own = reference::run_lengths(
          size, [&](index_t x, index_t y) { return picture[y * size.width + x] != 0; });
      all.insert(all.end(), own.begin(), own.end());
      strings += reference::run_length_string(own);
      begins.push_back(static_cast<index_t>(all.size()));
      text_begins.push_back(static_cast<index_t>(strings.size()));
    }
    sizes = make.copy(std::vector<grid_size>(static_cast<std::size_t>(count), size));
    offsets = make.copy(begins);
    counts = make.copy(all);
    text = make.copy(std::vector<char>(strings.begin(), strings.end()));
    text_offsets = make.copy(text_begins);
  }
  run_lengths_view view() const { return {sizes.in(), offsets.in(), counts.in()}; }
};

/// Shapes are masks x height x width of the pictures.
template <class Count>
struct run_lengths_calls {
  index_t count;
  grid_size size;
  placed<std::uint8_t> pixels, bits, decoded;
  placed<index_t> corners, begins, bit_begins, areas;
  placed_boxes<index_t> boxes;
  placed<double> points;
  placed<index_t> point_offsets;
  placed_boxes<double> rectangles;
  placed_runs runs;
  run_lengths_workspace workspace;
  masks_workspace decoding;

  static std::vector<shape> sweep(index_t length) { return {{2, 5, length}, {2, length, 3}}; }
  static shape sized(index_t rows) { return {4, rows / 50 + 20, 70}; }
  static bool takes(const problem& p) {
    return p.shape[0] < 1000 && p.shape[1] < 1 << 13 && p.shape[2] < 1 << 13;
  }

  run_lengths_calls(operands& make, const problem& p)
      : count(p.shape[0]),
        size{p.shape[1], p.shape[2]},
        pixels(make.copy(discs(count, size))),
        decoded(make.room<std::uint8_t>(count * size.height * size.width)),
        areas(make.room<index_t>(count)),
        boxes(make.room<index_t>(4 * count)),
        runs(make, count, size) {
    const index_t row_bytes = (size.width + 7) / 8;
    std::vector<index_t> box, byte_offsets{0}, bit_offsets{0}, polygon_offsets{0};
    std::vector<double> xy, sides;
    for (index_t i = 0; i < count; ++i) {
      box.insert(box.end(), {0, 0, size.width, size.height});
      byte_offsets.push_back((i + 1) * size.height * size.width);
      bit_offsets.push_back((i + 1) * size.height * row_bytes);
      polygon_offsets.push_back(4 * (i + 1));
      const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
      const double left = static_cast<double>(i) / 8 * w;
      xy.insert(xy.end(), {left, 0.2 * h, 0.9 * w, 0.1 * h, 1.2 * w, 0.8 * h, 0.1 * w, 0.7 * h});
      sides.insert(sides.end(), {left, 0.25 * h, 0.75 * w, 0.9 * h});
    }
    corners = make.copy(box);
    begins = make.copy(byte_offsets);
    bit_begins = make.copy(bit_offsets);
    point_offsets = make.copy(polygon_offsets);
    points = make.copy(xy);
    rectangles = make.copy(sides);
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(bit_offsets.back()));
    for (index_t row = 0; row < count * size.height; ++row)
      for (index_t x = 0; x < size.width; ++x)
        if (pixels.data()[row * size.width + x] != 0)
          packed[static_cast<std::size_t>(row * row_bytes + x / 8)] |=
              static_cast<std::uint8_t>(1 << x % 8);
    bits = make.copy(packed);
  }

  template <class T>
  byte_pictures<T> rows(T* data) const {
    return {data, count, size, size.height * size.width, size.width, 1};
  }
  template <class T>
  byte_pictures<T> columns(T* data) const {
    return {data, count, size, size.height * size.width, 1, size.height};
  }

  void list(call_list& c) {
    const vector_view<const grid_size> one(&size, 1);
    const auto masks = [this](bool packed) {
      return masks_view{boxes_view<const index_t>(corners.data(), count),
                        packed ? bit_begins.in() : begins.in(), packed ? bits.in() : pixels.in(),
                        packed ? mask_pixels::bits : mask_pixels::bytes};
    };
    c.add("encode_masks/bits", reads(corners, bit_begins, bits),
          [this, masks, one](threading policy) {
            return parts(encode_masks(masks(true), one, workspace, policy));
          });
    c.add("encode_masks/bytes", reads(corners, begins, pixels),
          [this, masks, one](threading policy) {
            return parts(encode_masks(masks(false), one, workspace, policy));
          });
    c.add("encode_masks/rows", reads(pixels), [this](threading policy) {
      return parts(encode_masks(rows<const std::uint8_t>(pixels.data()), workspace, policy));
    });
    c.add("encode_masks/columns", reads(pixels), [this](threading policy) {
      return parts(encode_masks(columns<const std::uint8_t>(pixels.data()), workspace, policy));
    });
    const accesses all = reads(runs.sizes, runs.offsets, runs.counts);
    for (const mask_pixels kind : {mask_pixels::bits, mask_pixels::bytes})
      c.add(kind == mask_pixels::bits ? "decode_masks/bits" : "decode_masks/bytes", all,
            [this, kind](threading policy) {
              return vector_view<const std::uint8_t>(
                  decode_masks(runs.view(), kind, decoding, policy).pixels);
            });
    c.add("decode_masks/rows", all.writes(decoded), [this](threading policy) {
      decode_masks(runs.view(), rows<std::uint8_t>(decoded.data()), policy);
    });
    c.add("decode_masks/columns", all.writes(decoded), [this](threading policy) {
      decode_masks(runs.view(), columns<std::uint8_t>(decoded.data()), policy);
    });
    c.add("mask_areas/", all.writes(areas),
          [this](threading) { mask_areas(runs.view(), areas.out()); });
    c.add("mask_boxes/", all.writes(boxes),
          [this](threading) { mask_boxes(runs.view(), boxes.out()); });
    c.add("merge_masks/", all, [this](threading) {
      return parts(merge_masks(runs.view(), mask_merging::any, workspace));
    });
    c.add("merge_masks//every", all, [this](threading) {
      return parts(merge_masks(runs.view(), mask_merging::every, workspace));
    });
    c.add("run_lengths_to_strings/", all, [this](threading) {
      const run_length_strings strings = run_lengths_to_strings(runs.view(), workspace);
      return std::make_tuple(vector_view<const index_t>(strings.offsets),
                             vector_view<const char>(strings.text));
    });
    c.add("run_lengths_from_strings/", reads(runs.sizes, runs.text, runs.text_offsets),
          [this](threading) {
            return parts(run_lengths_from_strings({runs.text_offsets.in(), runs.text.in()},
                                                  runs.sizes.in(), workspace));
          });
    c.add("run_lengths_from_polygons/", reads(points, point_offsets), [this, one](threading) {
      return parts(run_lengths_from_polygons(points.in(), point_offsets.in(), one, workspace));
    });
    c.add("mask_polygons/", all, [this](threading) {
      const mask_polygons_view found = mask_polygons(runs.view(), workspace);
      return std::make_tuple(vector_view<const index_t>(found.mask_offsets),
                             vector_view<const index_t>(found.offsets),
                             vector_view<const double>(found.points));
    });
    c.add("run_lengths_from_boxes/", reads(rectangles), [this, one](threading) {
      return parts(run_lengths_from_boxes(rectangles.in(), one, workspace));
    });
  }
};

/// Shapes are masks of both lists x height x width of the pictures.
template <class Count>
struct overlap_calls {
  placed_runs a, b;
  placed<std::uint8_t> is_crowd;
  placed_matrix<double> ious;
  run_lengths_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, 3, 5, length}}; }
  static shape sized(index_t rows) { return {5, 4, rows / 50 + 20, 70}; }
  static bool takes(const problem& p) {
    return p.shape[0] < 1000 && p.shape[1] < 1000 && p.shape[2] < 1 << 13 && p.shape[3] < 1 << 13;
  }

  overlap_calls(operands& make, const problem& p)
      : a(make, p.shape[0], {p.shape[2], p.shape[3]}),
        b(make, p.shape[1], {p.shape[2], p.shape[3]}),
        is_crowd(make.copy(std::vector<std::uint8_t>(static_cast<std::size_t>(p.shape[1]), 1))),
        ious(make.matrix<double>(p.shape[0], p.shape[1])) {}

  void list(call_list& c) {
    const accesses both = reads(a.sizes, a.offsets, a.counts, b.sizes, b.offsets, b.counts);
    c.add("mask_iou/", both.writes(ious), [this](threading policy) {
      mask_iou(a.view(), b.view(), mask_overlap::iou, {}, ious.out(), workspace, policy);
    });
    c.add("mask_iou//smaller_area", both.writes(ious), [this](threading policy) {
      mask_iou(a.view(), b.view(), mask_overlap::smaller_area, {}, ious.out(), workspace, policy);
    });
    c.add("mask_iou//crowds", both.reads(is_crowd).writes(ious), [this](threading policy) {
      mask_iou(a.view(), b.view(), mask_overlap::iou, is_crowd.in(), ious.out(), workspace, policy);
    });
  }
};

const registered_family registered[] = {
    calls_of<run_lengths_calls, std::uint32_t>("run_lengths"),
    calls_of<overlap_calls, std::uint32_t>("mask_overlaps"),
};

}  // namespace
}  // namespace vecdet::test
