// SPDX-License-Identifier: Apache-2.0
// Replays RetinaNet's whole loss: a head of one level, channels last, of a batch of pictures like
// those that the other replays have. A problem's name tells neither the levels nor the ground
// truth.
#include "replay_inputs.hpp"
#include <vecdet/retinanet_loss.hpp>

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vecdet;

struct operands {
  std::vector<float> anchors, logits, deltas, logits_grad, deltas_grad;
  std::vector<head_level<const float>> logit_levels, delta_levels;
  std::vector<head_level<float>> logit_grad_levels, delta_grad_levels;
  anchor_index index;
  retinanet_head<float> head;
  profile::pictures known;
  retinanet_loss_workspace workspace;

  operands(index_t images, index_t count, index_t class_count)
      : anchors(profile::anchors(count)),
        logits(bench::head_logits<float>(profile::labels_like_training(images * count, class_count),
                                         class_count)),
        deltas(bench::head_deltas<float>(images * count)),
        logits_grad(logits.size()),
        deltas_grad(deltas.size()),
        logit_levels{{logits.data(), count, 1}},
        delta_levels{{deltas.data(), count, 1}},
        logit_grad_levels{{logits_grad.data(), count, 1}},
        delta_grad_levels{{deltas_grad.data(), count, 1}},
        index(anchors),
        head{view(logit_levels, images, class_count), view(delta_levels, images, 4),
             view(logit_grad_levels, images, class_count), view(delta_grad_levels, images, 4)},
        known(images, 0, class_count) {}

 private:
  template <class T>
  static head_view<T> view(const std::vector<head_level<T>>& levels, index_t images,
                           index_t classes) {
    return {levels, images, 1, classes, head_layout::nhwc};
  }
};

profile::replay_call make(const profile::entry& e, execution policy) {
  // Without images, anchors or classes a shape ends early.
  if (e.type != "f32" || e.shape.size() != 3) return {};
  retinanet_loss_params params;
  if (e.variant == "giou") {
    params.loss = box_loss::giou;
  } else if (e.variant == "diou") {
    params.loss = box_loss::diou;
  } else if (e.variant == "ciou") {
    params.loss = box_loss::ciou;
  } else if (e.variant != "smooth_l1") {
    return {};
  }
  const auto data = std::make_shared<operands>(e.shape[0], e.shape[1], e.shape[2]);
  return [=] {
    retinanet_loss_and_grad(data->head, data->index, data->known.truth, params, data->workspace,
                            policy);
  };
}

const profile::replay_registration registered[] = {{"retinanet_loss_and_grad", make}};

}  // namespace
