// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/fcos_loss.hpp>
#include <vecdet/retinanet_loss.hpp>
#include <vecdet/ssd_loss.hpp>

namespace vecdet::test {
namespace {

const char* const losses[] = {"smooth_l1", "giou", "diou", "ciou"};
const box_loss loss_of[] = {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou};

template <class T>
struct retinanet_calls {
  head_sizes sizes;
  placed<index_t> labels;
  struct head {
    placed_head<T> logits, deltas, logits_grad, deltas_grad;
  } nhwc, nchw;
  placed_boxes<float> anchors;
  anchor_index index;
  placed_truth known;
  retinanet_loss_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, 2 * (length + 6), 3}}; }
  static shape sized(index_t rows) { return {2, rows / 4 * 2, 20}; }

  retinanet_calls(operands& make, const problem& p)
      : sizes(make.head(p.shape[0], p.shape[1])),
        labels(make.labels(p.shape[0] * p.shape[1], p.shape[2])),
        nhwc(make_head(make, p.shape[2], head_layout::nhwc)),
        nchw(make_head(make, p.shape[2], head_layout::nchw)),
        anchors(make.boxes<float>(p.shape[1])),
        index(anchors, threading::sequential),
        known(make.truth(p.shape[0], 8 * p.shape[0], 0, p.shape[2])) {}

  head make_head(operands& make, index_t classes, head_layout layout) const {
    return {make.logits_head<T>(sizes, labels, classes, layout), make.deltas_head<T>(sizes, layout),
            make.logits_head<T>(sizes, labels, classes, layout),
            make.deltas_head<T>(sizes, layout)};
  }

  void list(call_list& c) {
    for (std::size_t k = 0; k < 4; ++k) {
      add(c, losses[k], nhwc, loss_of[k]);
      add(c, losses[k] + std::string("/nchw"), nchw, loss_of[k]);
    }
  }
  void add(call_list& c, const std::string& variant, head& of, box_loss loss) {
    c.add("retinanet_loss_and_grad/" + variant,
          reads(of.logits, of.deltas, known)
              .writes(of.logits_grad, of.deltas_grad)
              .may_overwrite(of.logits, of.deltas),
          [this, &of, loss](threading policy) {
            retinanet_loss_params params;
            params.loss = loss;
            const retinanet_losses found = retinanet_loss_and_grad<T>(
                {of.logits.in(), of.deltas.in(), of.logits_grad.out(), of.deltas_grad.out()}, index,
                known.view(), params, workspace, policy);
            return std::make_tuple(found.classification, found.regression, found.foreground);
          });
  }
};

template <class T>
struct fcos_calls {
  bench::pyramid pyramid;
  placed<index_t> labels;
  struct head {
    placed_head<T> logits, distances, centerness, logits_grad, distances_grad, centerness_grad;
  } nhwc, nchw;
  placed_boxes<float> anchors;
  placed_truth known;
  fcos_loss_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, 4 * length, 3}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 20}; }

  fcos_calls(operands& make, const problem& p)
      : pyramid(make.pyramid(p.shape[1])),
        nhwc(make_head(make, p, head_layout::nhwc)),
        nchw(make_head(make, p, head_layout::nchw)),
        anchors(make.copy(pyramid.anchors)),
        known(make.truth(p.shape[0], 8 * p.shape[0], 0, p.shape[2],
                         8 * std::sqrt(static_cast<double>(p.shape[1])))) {}

  head make_head(operands& make, const problem& p, head_layout layout) const {
    const head_sizes sizes{p.shape[0], 1, pyramid.levels};
    return {make.head<T>(sizes, p.shape[2], layout, -6, 3),
            make.head<T>(sizes, 4, layout, 0.5, 3),
            make.head<T>(sizes, 1, layout, -2, 2),
            make.head<T>(sizes, p.shape[2], layout),
            make.head<T>(sizes, 4, layout),
            make.head<T>(sizes, 1, layout)};
  }

  void list(call_list& c) {
    add(c, "levels", nhwc);
    add(c, "nchw", nchw);
  }
  void add(call_list& c, const std::string& variant, head& of) {
    c.add("fcos_loss_and_grad/" + variant,
          reads(of.logits, of.distances, of.centerness, anchors, known)
              .writes(of.logits_grad, of.distances_grad, of.centerness_grad)
              .may_overwrite(of.logits, of.distances, of.centerness),
          [this, &of](threading policy) {
            const fcos_losses found = fcos_loss_and_grad<T>(
                {of.logits.in(), of.distances.in(), of.centerness.in(), of.logits_grad.out(),
                 of.distances_grad.out(), of.centerness_grad.out()},
                anchors, known.view(), {}, workspace, policy);
            return std::make_tuple(found.classification, found.regression, found.centerness,
                                   found.foreground);
          });
  }
};

template <class T>
struct ssd_calls {
  placed<index_t> labels;
  placed_matrix<T> logits, logits_grad;
  placed_boxes<T> deltas, deltas_grad, anchors;
  anchor_index index;
  placed_truth known;
  ssd_loss_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length + 6, 4}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 21}; }
  static bool takes(const problem& p) { return p.shape[2] >= 2; }

  ssd_calls(operands& make, const problem& p)
      : labels(make.labels(p.shape[0] * p.shape[1], p.shape[2])),
        logits(make.logits<T>(labels, p.shape[2])),
        logits_grad(make.matrix<T>(p.shape[0] * p.shape[1], p.shape[2])),
        deltas(make.deltas<T>(p.shape[0] * p.shape[1])),
        deltas_grad(make.room<T>(4 * p.shape[0] * p.shape[1])),
        anchors(make.boxes<T>(p.shape[1])),
        index(anchors, threading::sequential),
        known(make.truth(p.shape[0], 8 * p.shape[0], 1, p.shape[2] - 1)) {}

  void list(call_list& c) {
    c.add("ssd_loss_and_grad/smooth_l1",
          reads(logits, deltas, known).writes(deltas_grad, logits_grad).may_overwrite(deltas),
          [this](threading policy) {
            const ssd_losses found =
                ssd_loss_and_grad({logits.in(), deltas.in(), logits_grad.out(), deltas_grad.out()},
                                  index, known.view(), {}, workspace, policy);
            return std::make_tuple(found.classification, found.regression, found.foreground);
          });
  }
};

const registered_family registered[] = {
    calls_of<retinanet_calls, float, bfloat16>("retinanet_loss"),
    calls_of<fcos_calls, float, bfloat16>("fcos_loss"),
    calls_of<ssd_calls, float>("ssd_loss"),
};

}  // namespace
}  // namespace vecdet::test
