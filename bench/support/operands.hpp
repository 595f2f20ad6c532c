// SPDX-License-Identifier: Apache-2.0
// The operands of a family's functions, in benchmarks and in replays of a profile.
#pragma once

#include "scene.hpp"
#include <vecdet/nms.hpp>
#include <vecdet/soft_nms.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace vecdet::bench {

/// Deltas of a head and their targets, and the labels that select the foreground.
template <class T>
struct smooth_l1_operands {
  std::vector<T> predictions, targets, out;
  std::vector<index_t> labels, foreground;

  explicit smooth_l1_operands(std::vector<index_t> labels_of_boxes)
      : predictions(head_deltas<T>(static_cast<index_t>(labels_of_boxes.size()), 3)),
        targets(head_deltas<T>(static_cast<index_t>(labels_of_boxes.size()), 4)),
        out(predictions.size()),
        labels(std::move(labels_of_boxes)),
        foreground(foreground_indices(labels)) {}
};

/// Boxes predicted near their targets.
template <class T>
struct iou_loss_operands {
  std::vector<T> predicted, targets, grad, loss;

  explicit iou_loss_operands(const std::vector<float>& target_boxes)
      : predicted(converted<T>(predicted_boxes(target_boxes))),
        targets(converted<T>(target_boxes)),
        grad(targets.size()),
        loss(targets.size() / 4) {}
};

/// Boxes to suppress, and the workspaces that calls reuse.
template <class T>
struct nms_operands {
  std::vector<T> boxes, scores;
  std::vector<index_t> classes;
  nms_workspace workspace;
  soft_nms_workspace<compute_type<T>> soft_workspace;

  explicit nms_operands(const detections& found)
      : boxes(converted<T>(found.boxes)),
        scores(converted<T>(found.scores)),
        classes(found.classes) {}

  boxes_view<const T> b() const { return boxes; }
  vector_view<const T> s() const { return scores; }
  nms_groups by_class() const { return {classes}; }
};

}  // namespace vecdet::bench
