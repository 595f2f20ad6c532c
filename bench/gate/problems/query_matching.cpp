// SPDX-License-Identifier: Apache-2.0
// Matching and losses of two images of 100 queries and 7 boxes, with 20 classes.
#include "../../plain/query_matching.hpp"

#include "../../plain/set_loss.hpp"
#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/query_matching.hpp>
#include <vecdet/set_loss.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

constexpr std::int64_t images = 2, queries = 100, boxes = 7, classes = 20, rows = images * queries;

struct decoder_layer {
  std::vector<float> logits, predicted, truth, logits_grad, boxes_grad;
  std::vector<std::int64_t> labels, offsets, matches;

  decoder_layer()
      : logits(normal<float>(rows * classes, -4.0f, 1.5f, 1)),
        predicted(uniform<float>(4 * rows, 0.1f, 0.8f, 2)),
        truth(uniform<float>(4 * images * boxes, 0.1f, 0.8f, 3)),
        logits_grad(logits.size()),
        boxes_grad(predicted.size()) {
    for (std::int64_t k = 0; k < images * boxes; ++k) {
      labels.push_back(7 * k % (classes - 1));
      matches.push_back(k % boxes * 13);
    }
    for (std::int64_t i = 0; i <= images; ++i) offsets.push_back(i * boxes);
  }
  detr_outputs<float> outputs() const { return {{logits.data(), rows, classes}, predicted}; }
  ground_truth known() const {
    ground_truth of;
    of.boxes = boxes_view<const float>(truth);
    of.classes = labels;
    of.image_offsets = offsets;
    return of;
  }
};

void run_matching(decoder_layer& d) {
  const detr_outputs<float> layer = d.outputs();
  match_queries<float>({&layer, 1}, d.known(), d.matches, {}, own<query_match_workspace>(),
                       sequential);
}

double run_loss(decoder_layer& d) {
  const set_loss_layer<float> layer{d.outputs(),
                                    d.matches,
                                    {d.logits_grad.data(), rows, classes},
                                    boxes_view<float>(d.boxes_grad)};
  set_losses losses;
  set_loss_and_grad<float>({&layer, 1}, d.known(), {&losses, 1}, {}, own<set_loss_workspace>(),
                           sequential);
  return losses.total();
}

const problems added{
    {"match_queries/focal/f32/2x100x7", make<decoder_layer>(), VECDET_GATE_CALL(run_matching(d)),
     VECDET_GATE_CALL(bench::native::plain_match_queries(
         d.logits.data(), d.predicted.data(), images, queries, classes, d.truth.data(),
         d.labels.data(), boxes, d.matches.data()))},
    {"set_loss_and_grad/varifocal/f32/2x100x20", make<decoder_layer>(),
     VECDET_GATE_CALL(run_loss(d)),
     VECDET_GATE_CALL(bench::native::plain_set_loss(
         d.logits.data(), d.predicted.data(), images, queries, classes, d.truth.data(),
         d.labels.data(), boxes, d.matches.data(), d.logits_grad.data(), d.boxes_grad.data()))},
};

}  // namespace
}  // namespace vecdet::gate
