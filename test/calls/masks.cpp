// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/masks.hpp>
#include <vecdet/paste_masks.hpp>

#include <string>

namespace vecdet::test {
namespace {

/// Shapes are objects x prototypes x height x width of the prototypes x the side of the picture.
template <class T>
struct masks_calls {
  static constexpr index_t images = 2;
  index_t objects, channels, height, width, side;
  placed<T> prototypes;
  placed_matrix<float> coefficients;
  placed_boxes<float> boxes;
  placed<index_t> image_offsets;
  std::vector<grid_size> one_size, sizes;
  masks_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{3, 5, 4, length, 2 * length + 1}, {2, length, 5, 7, 20}};
  }
  static shape sized(index_t rows) { return {rows / 100 + 4, 9, rows / 50 + 20, 37, 150}; }
  static bool takes(const problem& p) { return p.shape[4] <= 1 << 20; }

  /// A recorded number is rounded; the exact one is that of the coefficients and boxes in the
  /// bytes.
  static index_t objects_of(const problem& p) {
    problem without = p;
    without.bytes -= static_cast<double>(p.shape[1] * p.shape[2] * p.shape[3]) * sizeof(T);
    return without.exact_count(p.shape[0],
                               static_cast<std::size_t>(p.shape[1] + 4) * sizeof(float));
  }

  masks_calls(operands& make, const problem& p)
      : objects(objects_of(p)),
        channels(p.shape[1]),
        height(p.shape[2]),
        width(p.shape[3]),
        side(p.shape[4]),
        prototypes(make.numbers<T>(images * channels * height * width, -1, 1)),
        coefficients(make.matrix<float>(objects, channels, -1, 1)),
        boxes(make.rois<float>(objects, 80, 80)),
        image_offsets(make.copy(std::vector<index_t>{0, objects / 3, objects})),
        one_size{{side, side}},
        sizes{{side, side}, {side / 2 + 1, side}} {
    for (float& x : boxes) x *= static_cast<float>(side) / 80;
  }

  void list(call_list& c) {
    add(c, "native", mask_rule::native);
    add(c, "upsampled", mask_rule::upsampled);
    add(c, "cropped", mask_rule::cropped);
  }

  void add(call_list& c, const std::string& variant, mask_rule rule) {
    prototype_masks_params params;
    params.rule = rule;
    const std::string name = "masks_from_prototypes/" + variant;
    c.add(name, reads(prototypes, coefficients, boxes), [this, params](threading policy) {
      const feature_view<const T> maps(prototypes.data(), 1, channels, height, width,
                                       feature_layout::nchw);
      return masks_from_prototypes(maps, coefficients.in(), boxes.in(), {}, one_size, params,
                                   workspace, policy);
    });
    params.pixels = mask_pixels::bytes;
    c.add(name + "/bytes_of_a_batch", reads(prototypes, coefficients, boxes, image_offsets),
          [this, params](threading policy) {
            const feature_view<const T> maps(prototypes.data(), images, channels, height, width,
                                             feature_layout::nchw);
            return masks_from_prototypes(maps, coefficients.in(), boxes.in(), image_offsets.in(),
                                         sizes, params, workspace, policy);
          });
  }
};

/// Shapes are objects x height x width of the maps x height x width of the picture.
template <class T>
struct paste_calls {
  index_t objects, height, width;
  grid_size picture;
  placed<T> maps;
  placed_boxes<float> boxes;
  placed<index_t> image_offsets;
  std::vector<grid_size> one_size, sizes;
  masks_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{2, 3, length, 9, 2 * length + 1}, {2, length, 5, length + 7, 20}};
  }
  static shape sized(index_t rows) { return {rows / 100 + 4, 14, 14, 90, 150}; }
  static bool takes(const problem& p) { return p.shape[3] <= 1 << 20 && p.shape[4] <= 1 << 20; }

  static index_t objects_of(const problem& p) {
    return p.exact_count(p.shape[0], static_cast<std::size_t>(p.shape[1] * p.shape[2]) * sizeof(T) +
                                         4 * sizeof(float));
  }

  paste_calls(operands& make, const problem& p) : paste_calls(make, p, objects_of(p)) {}
  paste_calls(operands& make, const problem& p, index_t count)
      : objects(count),
        height(p.shape[1]),
        width(p.shape[2]),
        picture{p.shape[3], p.shape[4]},
        maps(make.numbers<T>(objects * height * width, 0, 1)),
        boxes(make.rois<float>(objects, 80, 80)),
        image_offsets(make.copy(std::vector<index_t>{0, objects / 3, objects})),
        one_size{picture},
        sizes{picture, {picture.height / 2 + 1, picture.width}} {
    for (index_t i = 0; i < 4 * objects; ++i)
      boxes[i] *= static_cast<float>(i % 2 == 0 ? picture.width : picture.height) / 80;
  }

  feature_view<const T> view() const {
    return {maps.data(), objects, 1, height, width, feature_layout::nchw};
  }

  void list(call_list& c) {
    c.add("paste_masks/", reads(maps, boxes), [this](threading policy) {
      return paste_masks(view(), boxes.in(), {}, one_size, {}, workspace, policy);
    });
    c.add("paste_masks//bytes_of_a_batch", reads(maps, boxes, image_offsets),
          [this](threading policy) {
            paste_masks_params params;
            params.threshold = 0.25;
            params.pixels = mask_pixels::bytes;
            return paste_masks(view(), boxes.in(), image_offsets.in(), sizes, params, workspace,
                               policy);
          });
  }
};

/// The same shapes.
template <class T>
struct soft_paste_calls : paste_calls<T> {
  placed<float> pictures;

  static index_t objects_of(const problem& p) {
    return p.exact_count(p.shape[0],
                         static_cast<std::size_t>(p.shape[1] * p.shape[2]) * sizeof(T) +
                             static_cast<std::size_t>(4 + p.shape[3] * p.shape[4]) * sizeof(float));
  }

  soft_paste_calls(operands& make, const problem& p)
      : paste_calls<T>(make, p, objects_of(p)),
        pictures(make.room<float>(this->objects * this->picture.height * this->picture.width)) {}

  void list(call_list& c) {
    c.add("paste_soft_masks/", reads(this->maps, this->boxes).writes(pictures),
          [this](threading policy) {
            paste_soft_masks(
                this->view(), this->boxes.in(),
                feature_view<float>(pictures.data(), this->objects, 1, this->picture.height,
                                    this->picture.width, feature_layout::nchw),
                this->workspace, policy);
          });
  }
};

const registered_family softly = calls_of<soft_paste_calls, float, bfloat16>("paste_soft_masks");
const registered_family pasted = calls_of<paste_calls, float, bfloat16>("paste_masks");
const registered_family registered = calls_of<masks_calls, float, bfloat16>("masks");

}  // namespace
}  // namespace vecdet::test
