// SPDX-License-Identifier: Apache-2.0
// Replays the whole losses of FCOS and SSD on a batch of pictures like those that the other replays
// have. A problem's name tells neither the levels nor the ground truth.
#include "replay_inputs.hpp"
#include <vecdet/fcos_loss.hpp>
#include <vecdet/ssd_loss.hpp>

#include <memory>
#include <string>
#include <vector>

#include <bench/support/pyramid.hpp>

namespace {

using namespace vecdet;

/// A head whose levels lie one after the other, and its gradient.
struct head_numbers {
  std::vector<float> numbers, grad;
  std::vector<head_level<const float>> inputs;
  std::vector<head_level<float>> outputs;
  index_t images, columns;
  head_layout layout;

  head_numbers(const std::vector<float>& values, const std::vector<grid_size>& levels,
               index_t image_count, index_t column_count, head_layout how)
      : numbers(values), grad(values), images(image_count), columns(column_count), layout(how) {
    index_t first = 0;
    for (const grid_size& level : levels) {
      inputs.push_back({numbers.data() + first, level.height, level.width});
      outputs.push_back({grad.data() + first, level.height, level.width});
      first += images * columns * level.height * level.width;
    }
  }
  head_view<const float> in() const { return {inputs, images, 1, columns, layout}; }
  head_view<float> out() const { return {outputs, images, 1, columns, layout}; }
};

struct fcos_operands {
  bench::pyramid points;
  profile::pictures known;
  head_numbers logits, distances, centerness;
  fcos_loss_workspace workspace;

  fcos_operands(index_t images, index_t count, index_t classes, head_layout layout)
      : points(bench::pyramid_of_points(count)),
        known(images, 0, classes),
        logits(bench::head_logits<float>(profile::labels_like_training(images * count, classes),
                                         classes),
               points.levels, images, classes, layout),
        distances(std::vector<float>(static_cast<std::size_t>(4 * images * count), 1.5f),
                  points.levels, images, 4, layout),
        centerness(std::vector<float>(static_cast<std::size_t>(images * count), 0.5f),
                   points.levels, images, 1, layout) {}
};

profile::replay_call make_fcos(const profile::entry& e, execution policy) {
  if (e.type != "f32" || e.shape.size() != 3 || (e.variant != "levels" && e.variant != "nchw"))
    return {};
  const auto d =
      std::make_shared<fcos_operands>(e.shape[0], e.shape[1], e.shape[2],
                                      e.variant == "nchw" ? head_layout::nchw : head_layout::nhwc);
  return [=] {
    fcos_loss_and_grad<float>({d->logits.in(), d->distances.in(), d->centerness.in(),
                               d->logits.out(), d->distances.out(), d->centerness.out()},
                              boxes_view<const float>(d->points.anchors), d->known.truth, {},
                              d->workspace, policy);
  };
}

struct ssd_operands {
  profile::pictures known;
  std::vector<float> logits, deltas, logits_grad, deltas_grad;
  anchor_index index;
  ssd_loss_workspace workspace;

  ssd_operands(index_t images, index_t count, index_t classes)
      : known(images, 1, classes - 1),
        logits(bench::head_logits<float>(profile::labels_like_training(images * count, classes),
                                         classes)),
        deltas(bench::head_deltas<float>(images * count)),
        logits_grad(logits.size()),
        deltas_grad(deltas.size()),
        index(profile::anchors(count)) {}
};

profile::replay_call make_ssd(const profile::entry& e, execution policy) {
  if (e.type != "f32" || e.shape.size() != 3 || e.variant != "smooth_l1" || e.shape[2] < 2)
    return {};
  const index_t rows = e.shape[0] * e.shape[1], classes = e.shape[2];
  const auto d = std::make_shared<ssd_operands>(e.shape[0], e.shape[1], classes);
  return [=] {
    ssd_loss_and_grad({{d->logits.data(), rows, classes},
                       {d->deltas.data(), rows},
                       {d->logits_grad.data(), rows, classes},
                       {d->deltas_grad.data(), rows}},
                      d->index, d->known.truth, {}, d->workspace, policy);
  };
}

const profile::replay_registration registered[] = {
    {"fcos_loss_and_grad", make_fcos},
    {"ssd_loss_and_grad", make_ssd},
};

}  // namespace
