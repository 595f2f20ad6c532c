// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/merging.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct merge_calls {
  placed_detections<T> found;
  merge_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows > 3000 ? rows / 12 : rows}; }

  merge_calls(operands& make, const problem& p)
      : found(make.detections<T>(p.exact_count(p.shape[0], 5 * sizeof(T)))) {}

  void list(call_list& c) {
    add(c, "greedy", merge_params::sahi_greedy_nmm());
    add(c, "transitive", merge_params::sahi_nmm());
  }
  void add(call_list& c, const std::string& variant, const merge_params& params) {
    const auto merge = [this, params](const nms_groups& groups, threading policy) {
      const auto merged =
          merge_boxes(found.boxes.in(), found.scores.in(), groups, params, workspace, policy);
      return std::make_tuple(merged.boxes, merged.scores, merged.members, merged.offsets);
    };
    c.add("merge_boxes/" + variant, reads(found.boxes, found.scores),
          [merge](threading policy) { return merge({}, policy); });
    c.add("merge_boxes/" + variant + "/classes", reads(found.boxes, found.scores, found.classes),
          [this, merge](threading policy) {
            const nms_groups groups{found.classes};
            return merge(groups, policy);
          });
  }
};

const registered_family registered = calls_of<merge_calls, float, bfloat16, double>("merge_boxes");

}  // namespace
}  // namespace vecdet::test
