// SPDX-License-Identifier: Apache-2.0
// The whole losses of FCOS on the 13,343 points of 800 x 800, in both layouts, and of SSD300:
// assigning or matching, all losses and all gradients, compared with the plain loops of their
// parts. SSD's deltas have weights of 1, as in the plain loop.
#include "plain/assigners.hpp"
#include "plain/focal_loss.hpp"
#include "plain/matching.hpp"
#include "plain/regression_loss.hpp"
#include "plain/softmax.hpp"
#include "support/implementations.hpp"
#include "support/pyramid.hpp"
#include "support/scene.hpp"
#include <vecdet/fcos_loss.hpp>
#include <vecdet/ssd_loss.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t class_count = 91;

/// Divides by the number of matched anchors, as the losses do.
double mean_over_foreground(const std::vector<index_t>& matches, double loss,
                            std::initializer_list<std::vector<float>*> grads) {
  const auto foreground =
      std::count_if(matches.begin(), matches.end(), [](index_t match) { return match >= 0; });
  const float scale = 1.0f / static_cast<float>(std::max<std::ptrdiff_t>(1, foreground));
  for (std::vector<float>* grad : grads)
    for (float& g : *grad) g *= scale;
  return loss * static_cast<double>(scale);
}

/// The concatenated levels of a head, for one image in either layout, and their gradient.
struct level_numbers {
  std::vector<float> numbers, grad;
  std::vector<head_level<const float>> inputs;
  std::vector<head_level<float>> outputs;
  index_t columns;
  head_layout layout;

  level_numbers(const std::vector<float>& values, const std::vector<grid_size>& levels,
                index_t column_count, head_layout how)
      : numbers(values), grad(values.size()), columns(column_count), layout(how) {
    index_t first = 0;
    for (const grid_size& level : levels) {
      inputs.push_back({numbers.data() + first, level.height, level.width});
      outputs.push_back({grad.data() + first, level.height, level.width});
      first += columns * level.height * level.width;
    }
  }
  head_view<const float> in() const { return {inputs, 1, 1, columns, layout}; }
  head_view<float> out() const { return {outputs, 1, 1, columns, layout}; }
};

struct fcos {
  const picture objects = built_in_picture();
  pyramid points = squares();
  level_numbers logits, distances, centerness;
  std::vector<plain_level> levels;
  std::vector<index_t> level_sizes, matches, labels;
  fcos_loss_workspace workspace;

  explicit fcos(head_layout layout)
      : logits(head_logits<float>(std::vector<index_t>(13343, -1), class_count), points.levels,
               class_count, layout),
        distances(positive(head_deltas<float>(13343)), points.levels, 4, layout),
        centerness(positive(std::vector<float>(13343, 0.5f)), points.levels, 1, layout) {
    for (std::size_t l = 0; l < points.levels.size(); ++l) {
      const index_t size = points.levels[l].height * points.levels[l].width;
      levels.push_back({logits.inputs[l].data, distances.inputs[l].data, centerness.inputs[l].data,
                        1, class_count, size});
      level_sizes.push_back(size);
    }
    matches.resize(static_cast<std::size_t>(points.size()));
    labels = matches;
  }

  /// A square around each point, with the stride as its side.
  static pyramid squares() {
    pyramid all;
    double stride = 8;
    for (const index_t side : {100, 50, 25, 13, 7}) {
      all.add(side, side, stride, 1);
      stride *= 2;
    }
    return all;
  }
  static std::vector<float> positive(std::vector<float> numbers) {
    for (float& x : numbers) x = 2 + 4 * x;
    return numbers;
  }

  double run(threading policy) {
    const ground_truth truth{objects.boxes, objects.classes};
    const fcos_losses losses =
        fcos_loss_and_grad<float>({logits.in(), distances.in(), centerness.in(), logits.out(),
                                   distances.out(), centerness.out()},
                                  points.boxes(), truth, {}, workspace, policy);
    return losses.classification + losses.regression + losses.centerness;
  }
  double run_plain() {
    const bool planes = logits.layout == head_layout::nchw;
    VECDET_PLAIN(plain_assign_fcos)
    (points.anchors.data(), level_sizes.data(), static_cast<index_t>(levels.size()),
     objects.boxes.data(), objects.size(), matches.data());
    for (std::size_t i = 0; i < matches.size(); ++i)
      labels[i] = matches[i] < 0 ? -1 : objects.classes[static_cast<std::size_t>(matches[i])];
    double loss = VECDET_PLAIN(plain_fcos_regression)(
        levels.data(), static_cast<index_t>(levels.size()), planes, points.anchors.data(),
        objects.boxes.data(), matches.data(), distances.grad.data(), centerness.grad.data());
    const index_t* level_labels = labels.data();
    float* grad = logits.grad.data();
    for (const plain_level& level : levels) {
      loss += planes ? VECDET_PLAIN(plain_focal_loss_planes)(level.logits, level_labels, grad, 1,
                                                             class_count, level.locations)
                     : VECDET_PLAIN(plain_focal_loss_labels)(level.logits, level_labels, grad,
                                                             level.locations, class_count);
      level_labels += level.locations;
      grad += level.locations * class_count;
    }
    return mean_over_foreground(matches, loss, {&logits.grad, &distances.grad, &centerness.grad});
  }
  std::vector<float> grads() const {
    std::vector<float> all = logits.grad;
    for (const auto* grad : {&distances.grad, &centerness.grad})
      all.insert(all.end(), grad->begin(), grad->end());
    return all;
  }
};

struct ssd {
  const picture objects = scaled(built_in_picture(), 300);
  std::vector<float> priors = corners_of_centres(ssd300_priors()), logits, deltas, logits_grad,
                     deltas_grad, ious;
  std::vector<index_t> matches, labels;
  anchor_index index{priors, threading::sequential};
  ssd_loss_workspace workspace;
  plain_match_memory plain_memory;

  index_t count() const { return index.size(); }

  ssd()
      : logits(head_logits<float>(std::vector<index_t>(8732, 0), class_count)),
        deltas(head_deltas<float>(8732)),
        logits_grad(logits.size()),
        deltas_grad(deltas.size()),
        ious(8732),
        matches(8732),
        labels(8732) {}

  double run(threading policy) {
    const ground_truth truth{objects.boxes, objects.classes};
    ssd_loss_params params;
    params.matcher.coder = {};
    const ssd_losses losses = ssd_loss_and_grad({{logits.data(), count(), class_count},
                                                 boxes_view<const float>(deltas),
                                                 {logits_grad.data(), count(), class_count},
                                                 boxes_view<float>(deltas_grad)},
                                                index, truth, params, workspace, policy);
    return losses.classification + losses.regression;
  }
  double run_plain() {
    VECDET_PLAIN(plain_match_ssd)
    (priors.data(), count(), objects.boxes.data(), objects.classes.data(), objects.size(),
     matches.data(), labels.data(), ious.data(), plain_memory);
    double loss = VECDET_PLAIN(plain_mined_softmax_cross_entropy)(
        logits.data(), labels.data(), logits_grad.data(), 1, count(), class_count);
    loss += VECDET_PLAIN(plain_regression_loss_matches<plain_loss::smooth_l1, plain_output::grad>)(
        deltas.data(), priors.data(), objects.boxes.data(), matches.data(), matches.data(),
        deltas_grad.data(), count(), 1.0f);
    return mean_over_foreground(matches, loss, {&logits_grad, &deltas_grad});
  }
  std::vector<float> grads() const {
    std::vector<float> all = logits_grad;
    all.insert(all.end(), deltas_grad.begin(), deltas_grad.end());
    return all;
  }
};

template <class Data, class Prepare>
void add(const std::string& problem, double rows, double columns, const Prepare& prepare) {
  // An element is a logit; everything is read once, and its gradient is written.
  register_with_plain(
      problem, {rows * class_count, 8 * rows * (class_count + columns)}, prepare,
      [](Data& data, threading policy) { return data.run(policy); },
      [](Data& data) { return data.run_plain(); }, [](Data& data) { return data.grads(); });
}

const bool registered = [] {
  add<fcos>("fcos_loss_and_grad/levels/f32/13343x91", 13343, 5,
            [] { return std::make_shared<fcos>(head_layout::nhwc); });
  add<fcos>("fcos_loss_and_grad/nchw/f32/13343x91", 13343, 5,
            [] { return std::make_shared<fcos>(head_layout::nchw); });
  add<ssd>("ssd_loss_and_grad/smooth_l1/f32/8732x91", 8732, 4,
           [] { return std::make_shared<ssd>(); });
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
