// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/anchors.hpp>
#include <vecdet/multiscale_roi_align.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct anchor_calls {
  placed<grid_size> levels;
  placed<double> strides;
  std::vector<anchor_shapes> retinanet{{{8, 10}, {0.5, 1, 2}}, {{30}, {1, 3}}};
  ssd_shapes ssd;
  placed_boxes<T> anchors, defaults, boxes;
  placed<T> points;
  placed<index_t> level_of;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  anchor_calls(operands& make, const problem& p)
      : levels(make.copy(std::vector<grid_size>{{1, p.shape[0]}, {2, 3}})),
        strides(make.copy(std::vector<double>{8, 16})),
        ssd(two_levels()),
        anchors(make.room<T>(4 * count_anchors(retinanet, levels))),
        defaults(make.room<T>(4 * count_anchors(ssd, levels))),
        boxes(make.boxes<T>(p.shape[0])),
        points(make.room<T>(2 * (p.shape[0] + 6))),
        level_of(make.room<index_t>(p.shape[0])) {}

  static ssd_shapes two_levels() {
    ssd_shapes shapes;
    shapes.ratios = {{2}, {2, 3}};
    shapes.scales = {0.1, 0.3, 0.5};
    shapes.steps = {8, 16};
    return shapes;
  }

  void list(call_list& c) {
    c.add("make_anchors/", reads(levels).writes(anchors), [this](threading policy) {
      make_anchors(retinanet, {40, 8 * levels[0].width}, levels.in(), anchors, policy);
      return count_anchors(retinanet, levels.in());
    });
    c.add("make_anchors/ssd", reads(levels).writes(defaults), [this](threading policy) {
      make_anchors(ssd, {300, 300}, levels.in(), defaults, policy);
      return count_anchors(ssd, levels.in());
    });
    c.add("make_points/", reads(levels, strides).writes(points),
          [this](threading) { make_points(levels.in(), strides.in(), points); });
    c.add("pyramid_levels/", reads(boxes).writes(level_of),
          [this](threading) { pyramid_levels(boxes.in(), level_of, 4, 0.25); });
  }
};

const registered_family registered = calls_of<anchor_calls, float>("anchors");

}  // namespace
}  // namespace vecdet::test
