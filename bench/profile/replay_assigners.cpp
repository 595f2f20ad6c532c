// SPDX-License-Identifier: Apache-2.0
// Replays the assigners with as many boxes of one image on a pyramid of as many points; a name
// tells no levels.
#include "../support/pyramid.hpp"
#include "replay_inputs.hpp"
#include <vecdet/assigners.hpp>

#include <cmath>
#include <memory>

namespace {

using namespace vecdet;

struct operands : bench::assigner_scene {
  assigner_workspace workspace;

  operands(index_t boxes, index_t point_count, bool with_predictions)
      : assigner_scene(bench::pyramid_of_points(point_count), boxes,
                       8 * std::sqrt(static_cast<double>(point_count)), with_predictions) {}
};

profile::replay_call make(const profile::entry& e, execution policy) {
  if (e.function == "assign_fcos") {
    if (e.variant != "centers" || e.type != "f32" || e.shape.size() != 2) return {};
    const auto data = std::make_shared<operands>(e.shape[0], e.shape[1], false);
    return [=] {
      assign_fcos(boxes_view<const float>(data->points.anchors), data->points.levels, data->known(),
                  data->matches, {}, data->workspace, policy);
    };
  }
  const bool is_atss = e.function == "assign_atss";
  const index_t number =
      profile::number_after<index_t>(is_atss ? "k" : "top", e.variant).value_or(0);
  if (number < 1 || e.type != "f32" || e.shape.size() != 2) return {};
  const auto data = std::make_shared<operands>(e.shape[0], e.shape[1], !is_atss);
  if (is_atss) {
    return [=] {
      atss_params params;
      params.candidates = number;
      assign_atss(boxes_view<const float>(data->points.anchors), data->points.levels, data->known(),
                  data->matches, params, data->workspace, policy);
    };
  }
  return [=] {
    task_aligned_params params;
    params.top = number;
    assign_task_aligned(data->said(), data->where(), data->points.levels, data->known(),
                        data->matches, data->targets, params, data->workspace, policy);
  };
}

const profile::replay_registration registered[] = {
    {"assign_atss", make},
    {"assign_task_aligned", make},
    {"assign_fcos", make},
};

}  // namespace
