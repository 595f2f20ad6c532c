// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/set_loss.hpp>

namespace vecdet::test {
namespace {

/// Shapes are images x queries x classes.
template <class T>
struct set_loss_calls {
  index_t images, queries, classes;
  placed<index_t> labels;
  placed_matrix<T> logits, logits_grad;
  placed_boxes<T> boxes, boxes_grad;
  placed_truth known;
  placed<index_t> matches;
  set_loss_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length, 3}, {2, 7, 1 + length}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 20}; }
  static bool takes(const problem& p) { return p.shape[2] >= 2; }

  set_loss_calls(operands& make, const problem& p)
      : images(p.shape[0]),
        queries(p.shape[1]),
        classes(p.shape[2]),
        labels(make.labels(images * queries, classes)),
        logits(make.logits<T>(labels, classes)),
        logits_grad(make.matrix<T>(images * queries, classes)),
        boxes(make.numbers<T>(4 * images * queries, 0.05, 0.95)),
        boxes_grad(make.room<T>(4 * images * queries)),
        known(truth(make)),
        matches(make.copy(spread_matches())) {}

  index_t boxes_per_image() const { return std::min(queries, index_t{7}); }
  placed_truth truth(operands& make) const {
    const index_t count = images * boxes_per_image();
    std::vector<index_t> ids;
    for (index_t k = 0; k < count; ++k) ids.push_back(k * 7 % (classes - 1));
    return {make.numbers<float>(4 * count, 0.05, 0.95), make.copy(ids),
            make.offsets(images, count)};
  }
  std::vector<index_t> spread_matches() const {
    std::vector<index_t> to;
    for (index_t image = 0; image < images; ++image)
      for (index_t k = 0; k < boxes_per_image(); ++k)
        to.push_back(k == 5 ? -1 : k * queries / boxes_per_image());
    return to;
  }

  void list(call_list& c) {
    add(c, "varifocal", set_loss_params::rt_detr());
    add(c, "focal", set_loss_params::deformable_detr());
    add(c, "cross_entropy", set_loss_params::detr());
  }
  void add(call_list& c, const std::string& variant, const set_loss_params& params) {
    c.add(
        "set_loss_and_grad/" + variant,
        reads(logits, boxes, known, matches).writes(logits_grad, boxes_grad),
        [this, params](threading policy) {
          const set_loss_layer<T> layer{
              {logits.in(), boxes.in()}, matches.in(), logits_grad.out(), boxes_grad.out()};
          set_losses losses;
          set_loss_and_grad<T>({&layer, 1}, known.view(), {&losses, 1}, params, workspace, policy);
          return std::make_tuple(losses.classification, losses.l1, losses.giou);
        });
  }
};

const registered_family registered = calls_of<set_loss_calls, float, bfloat16>("set_loss");

}  // namespace
}  // namespace vecdet::test
