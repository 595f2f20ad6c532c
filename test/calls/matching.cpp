// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/matching.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct matching_calls {
  index_t images, arrays;  ///< arrays: bytes of results per anchor in a recorded call
  placed_boxes<T> anchors, regions, deltas;
  placed_truth known;
  placed<index_t> region_offsets, matches, labels, foreground;
  placed<T> ious;
  anchor_index index;
  match_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, 7, length}}; }
  static shape sized(index_t rows) { return {3, 50, rows}; }

  matching_calls(operands& make, const problem& p)
      : images(p.shape[0]),
        arrays(std::llround((p.bytes - 16.0 * static_cast<double>(p.shape[2])) /
                            static_cast<double>(images * p.shape[2]))),
        anchors(make.boxes<T>(p.shape[2])),
        regions(make.boxes<T>(images)),
        deltas(make.room<T>(4 * images * p.shape[2])),
        known(make.truth(images, p.shape[1], 0, 80)),
        region_offsets(make.offsets(images, images)),
        matches(make.room<index_t>(images * p.shape[2])),
        labels(make.room<index_t>(images * p.shape[2])),
        foreground(make.room<index_t>(images)),
        ious(make.room<T>(images * p.shape[2])),
        index(anchors, threading::sequential) {}

  /// The results of a recorded call, deduced from its bytes.
  match_results recorded_results() {
    match_results out;
    if (p_all() || arrays % 8 == 4) out.best_ious = ious;
    if (p_all() || arrays >= 8) out.matches = matches;
    if (p_all() || arrays >= 16) out.labels = labels;
    return out;
  }
  bool p_all() const { return arrays <= 0; }

  void list(call_list& c) {
    // The anchors are copied into an index before results are written.
    const accesses inputs = reads(known).writes(matches, labels, ious);
    c.add("match_anchors/boxes", inputs, [this](threading policy) {
      return match_anchors(anchors.in(), known.view(), recorded_results(), {}, workspace, policy);
    });
    c.add("match_anchors/indexed", inputs, [this](threading policy) {
      return match_anchors(index, known.view(), recorded_results(), {}, workspace, policy);
    });
    add(c, "/rpn", matcher_params::rpn());
    add(c, "/roi", matcher_params::roi());
    matcher_params ssd = matcher_params::ssd();
    add(c, "/ssd", ssd);
    ssd.ignore_matched = true;
    add(c, "/ignore_matched", ssd);
  }

  void add(call_list& c, const std::string& options, const matcher_params& params) {
    const accesses arrays_of =
        reads(known, regions, region_offsets).writes(matches, labels, ious, deltas, foreground);
    const auto call = [this, params](const auto& from, threading policy) {
      ground_truth truth = known.view();
      truth.regions = regions;
      truth.region_offsets = region_offsets;
      const match_results out{matches, labels, ious, deltas, foreground};
      return match_anchors(from, truth, out, params, workspace, policy);
    };
    c.add("match_anchors/boxes" + options, arrays_of,
          [this, call](threading policy) { return call(anchors.in(), policy); });
    c.add("match_anchors/indexed" + options, arrays_of,
          [this, call](threading policy) { return call(index, policy); });
  }
};

const registered_family registered = calls_of<matching_calls, float>("matching");

}  // namespace
}  // namespace vecdet::test
