// SPDX-License-Identifier: Apache-2.0
// Where memory runs out: every allocation of a call fails once. The call throws std::bad_alloc, or
// does without; its workspace serves later calls as if nothing had been.
#include "support/allocations.hpp"
#include <vecdet/vecdet.hpp>

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// run(workspace) returns what the call gives.
template <class Workspace, class Run>
void check_every_allocation(const std::string& name, const Run& run) {
  CAPTURE(name);
  Workspace untroubled;
  const auto expected = run(untroubled);
  std::int64_t failed = 0;
  for (bool has_failed = true; has_failed; ++failed) {
    CAPTURE(failed);
    Workspace workspace;
    auto given = expected;
    try {
      const failing_allocation next(failed);
      given = run(workspace);
      has_failed = false;
    } catch (const std::bad_alloc&) {
    }
    CHECK(given == expected);
    CHECK(run(workspace) == expected);
    CHECK(run(workspace) == expected);
    REQUIRE(failed < 1000);
  }
  CHECK(failed > 1);
}

std::vector<index_t> copied(const vector_view<const index_t>& view) {
  return {view.begin(), view.end()};
}

}  // namespace

TEST_CASE("allocation failure: workspaces serve on") {
  const index_t count = 3000, classes = 8;
  std::vector<float> corners, scores, logits;
  std::vector<int> ids;
  std::uint32_t state = 1;
  const auto below = [&](std::uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>((state >> 8) % end);
  };
  for (index_t i = 0; i < count; ++i) {
    const float x = below(1000), y = below(1000);
    for (const float number : {x, y, x + 20 + below(50), y + 20 + below(50)})
      corners.push_back(number);
    scores.push_back(below(1000) / 1000);
    ids.push_back(static_cast<int>(below(20)));
  }
  for (index_t i = 0; i < count * classes; ++i) logits.push_back(below(1000) / 100 - 8);
  const boxes_view<const float> boxes(corners);
  const vector_view<const float> all_scores(scores);

  for (const execution policy : {execution::sequential, execution::parallel}) {
    check_every_allocation<nms_workspace>("nms", [&](nms_workspace& workspace) {
      return copied(nms(boxes, all_scores, nms_params{}, workspace, policy));
    });
    check_every_allocation<nms_workspace>("batched_nms", [&](nms_workspace& workspace) {
      nms_groups groups;
      groups.classes = ids;
      return copied(batched_nms(boxes, all_scores, groups, nms_params{}, workspace, policy));
    });
    check_every_allocation<filter_topk_workspace>(
        "filter_topk", [&](filter_topk_workspace& workspace) {
          const matrix_view<const float> matrix(logits.data(), count, classes);
          return copied(filter_topk(matrix, 0.6, 700, workspace, policy).elements);
        });
    check_every_allocation<postprocess_workspace>(
        "postprocess", [&](postprocess_workspace& workspace) {
          head_outputs<float> head;
          head.logits = matrix_view<const float>(logits.data(), count, classes);
          const std::vector<index_t> levels{count / 2};
          const std::vector<image_size> images{image_size::height_width(800, 800),
                                               image_size::height_width(900, 700)};
          const std::vector<float> zeros(static_cast<std::size_t>(4 * count), 0.0f);
          head.deltas = zeros;
          const auto found =
              postprocess(head, boxes_view<const float>(corners.data(), count / 2), levels, images,
                          postprocess_params::retinanet(), workspace, policy);
          return std::vector<float>(found.scores.begin(), found.scores.end());
        });
    check_every_allocation<match_workspace>("match_anchors", [&](match_workspace& workspace) {
      std::vector<index_t> matches(static_cast<std::size_t>(count));
      ground_truth truth;
      truth.boxes = boxes_view<const float>(corners.data(), 40);
      match_results results;
      results.matches = matches;
      match_anchors(boxes, truth, results, matcher_params{}, workspace, policy);
      return matches;
    });
    check_every_allocation<retinanet_loss_workspace>(
        "retinanet_loss", [&](retinanet_loss_workspace& workspace) {
          std::vector<float> x = logits, deltas(static_cast<std::size_t>(4 * count), 0.5f);
          std::vector<float> x_grad(x.size()), deltas_grad(deltas.size());
          const std::vector<head_level<const float>> at{{x.data(), count, 1}};
          const std::vector<head_level<const float>> by{{deltas.data(), count, 1}};
          const std::vector<head_level<float>> at_grad{{x_grad.data(), count, 1}};
          const std::vector<head_level<float>> by_grad{{deltas_grad.data(), count, 1}};
          const head_layout nhwc = head_layout::nhwc;
          const retinanet_head<float> head{{at, 1, 1, classes, nhwc},
                                           {by, 1, 1, 4, nhwc},
                                           {at_grad, 1, 1, classes, nhwc},
                                           {by_grad, 1, 1, 4, nhwc}};
          ground_truth truth;
          truth.boxes = boxes_view<const float>(corners.data(), 40);
          retinanet_loss_and_grad(head, anchor_index(boxes), truth, {}, workspace, policy);
          x_grad.insert(x_grad.end(), deltas_grad.begin(), deltas_grad.end());
          return x_grad;
        });
    check_every_allocation<ssd_loss_workspace>("ssd_loss", [&](ssd_loss_workspace& workspace) {
      const std::vector<float> deltas(static_cast<std::size_t>(4 * count), 0.5f);
      std::vector<float> x_grad(logits.size()), deltas_grad(deltas.size());
      const std::vector<index_t> classes_of(40, 3);
      ground_truth truth;
      truth.boxes = boxes_view<const float>(corners.data(), 40);
      truth.classes = classes_of;
      ssd_loss_and_grad({{logits.data(), count, classes},
                         {deltas.data(), count},
                         {x_grad.data(), count, classes},
                         {deltas_grad.data(), count}},
                        anchor_index(boxes), truth, {}, workspace, policy);
      x_grad.insert(x_grad.end(), deltas_grad.begin(), deltas_grad.end());
      return x_grad;
    });
    check_every_allocation<fcos_loss_workspace>("fcos_loss", [&](fcos_loss_workspace& workspace) {
      std::vector<float> grid;
      for (index_t i = 0; i < count; ++i) {
        const auto x = static_cast<float>(8 * (i % 60)), y = static_cast<float>(8 * (i / 60));
        grid.insert(grid.end(), {x, y, x + 8, y + 8});
      }
      const std::vector<float> distances(grid.size(), 1.5f), centers(scores);
      std::vector<float> x_grad(logits.size()), d_grad(grid.size()), c_grad(centers.size());
      const std::vector<head_level<const float>> x{{logits.data(), 50, 60}};
      const std::vector<head_level<const float>> d{{distances.data(), 50, 60}};
      const std::vector<head_level<const float>> c{{centers.data(), 50, 60}};
      const std::vector<head_level<float>> to_x{{x_grad.data(), 50, 60}};
      const std::vector<head_level<float>> to_d{{d_grad.data(), 50, 60}};
      const std::vector<head_level<float>> to_c{{c_grad.data(), 50, 60}};
      const head_layout nchw = head_layout::nchw;
      const std::vector<index_t> classes_of(40, 3);
      ground_truth truth;
      truth.boxes = boxes_view<const float>(corners.data(), 40);
      truth.classes = classes_of;
      fcos_loss_and_grad<float>({{x, 1, 1, classes, nchw},
                                 {d, 1, 1, 4, nchw},
                                 {c, 1, 1, 1, nchw},
                                 {to_x, 1, 1, classes, nchw},
                                 {to_d, 1, 1, 4, nchw},
                                 {to_c, 1, 1, 1, nchw}},
                                boxes_view<const float>(grid), truth, {}, workspace, policy);
      x_grad.insert(x_grad.end(), d_grad.begin(), d_grad.end());
      x_grad.insert(x_grad.end(), c_grad.begin(), c_grad.end());
      return x_grad;
    });
    check_every_allocation<filter_topk_workspace>(
        "filter_topk of levels", [&](filter_topk_workspace& workspace) {
          const std::vector<head_level<const float>> levels{{logits.data(), count, 1}};
          const head_view<const float> head(levels, 1, 1, classes, head_layout::nchw);
          return copied(filter_topk(head, 0.6, 700, workspace, policy).elements);
        });
    check_every_allocation<softmax_cross_entropy_workspace>(
        "softmax_cross_entropy", [&](softmax_cross_entropy_workspace& workspace) {
          std::vector<float> grad(logits.size());
          std::vector<int> labels(static_cast<std::size_t>(count));
          for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i % 50 == 0 ? 3 : 0;
          softmax_cross_entropy_loss_and_grad(
              matrix_view<const float>(logits.data(), count, classes), labels,
              hard_negative_mining{}, matrix_view<float>(grad.data(), count, classes), {},
              workspace, policy);
          return grad;
        });
    check_every_allocation<roi_align_workspace>("roi_align", [&](roi_align_workspace& workspace) {
      roi_boxes<float> rois;
      rois.boxes = boxes_view<const float>(corners.data(), 60);
      roi_align_params params;
      params.spatial_scale = 0.03;
      std::vector<float> map = logits, out(60 * 4 * 49);
      map.resize(4 * 40 * 40);
      const feature_layout nchw = feature_layout::nchw;
      const feature_view<float> of_map(map.data(), 1, 4, 40, 40, nchw);
      const feature_view<float> bins(out.data(), 60, 4, 7, 7, nchw);
      roi_align(of_map, rois, bins, params, workspace, policy);
      roi_align_grad(bins, rois, of_map, params, workspace, policy);
      out.insert(out.end(), map.begin(), map.end());
      return out;
    });
    check_every_allocation<postprocess_workspace>(
        "postprocess_box_head", [&](postprocess_workspace& workspace) {
          const std::vector<float> deltas(static_cast<std::size_t>(4 * 200 * classes), 0.1f);
          const std::vector<index_t> offsets{0, 90, 200};
          const std::vector<image_size> sizes(2, image_size::height_width(800, 800));
          const auto found =
              postprocess_box_head(box_head_outputs<float>{{logits.data(), 200, classes}, deltas},
                                   boxes_view<const float>(corners.data(), 200), offsets,
                                   vector_view<const image_size>(sizes), {}, workspace, policy);
          return std::vector<float>(found.scores.begin(), found.scores.end());
        });
    check_every_allocation<balanced_sample_workspace>(
        "sample_balanced", [&](balanced_sample_workspace& workspace) {
          const std::vector<index_t> offsets{0, count};
          balanced_sample_params params;
          params.background = 0;
          return copied(sample_balanced(ids, offsets, params, workspace, policy).indices);
        });
    check_every_allocation<assigner_workspace>("assign_atss", [&](assigner_workspace& workspace) {
      const std::vector<grid_size> levels{{50, 60}};
      std::vector<float> anchors;
      for (index_t i = 0; i < count; ++i) {
        const auto x = static_cast<float>(20 * (i % 60)), y = static_cast<float>(20 * (i / 60));
        anchors.insert(anchors.end(), {x, y, x + 80, y + 80});
      }
      ground_truth truth;
      truth.boxes = boxes_view<const float>(corners.data(), 40);
      std::vector<index_t> matches(static_cast<std::size_t>(count));
      assign_atss(boxes_view<const float>(anchors), levels, truth, matches, {}, workspace, policy);
      return matches;
    });
  }
}
