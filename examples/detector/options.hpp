// SPDX-License-Identifier: Apache-2.0
// The user's choices for a model and its training. Independent of libtorch.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace detector {

/// The location of a data set.
struct dataset_source {
  /// COCO annotations (*.json), or a list of VOC (*.txt). The list is in ImageSets/Main, next to
  /// Annotations and JPEGImages.
  std::string annotations;
  /// The folder of COCO's pictures; VOC has a fixed one.
  std::string pictures;
};

struct canvas_size {
  int width = 320, height = 256;
};

struct augmentation {
  double horizontal_flip = 0, vertical_flip = 0;  ///< probabilities
  double smallest_scale = 1, largest_scale = 1;   ///< relative to the largest that fits
};

enum class backbone_kind { resnet18, resnet50, resnext50_32x4d };
enum class norm_kind { frozen, group };

const char* name_of(backbone_kind kind);
const char* name_of(norm_kind kind);

struct model_config {
  backbone_kind backbone = backbone_kind::resnet18;
  /// The normalisation of backbone and heads. Frozen: batch normalisation has constant statistics,
  /// which come with a trained backbone; the heads have none.
  norm_kind norm = norm_kind::group;
  std::int64_t channels = 256;  ///< of the pyramid and the heads
  std::int64_t classes = 0;
  double anchor_size = 32;         ///< side in pixels of the smallest anchors, those of stride 8
  double prior = 0.01;             ///< score of every class before training
  std::int64_t frozen_stages = 0;  ///< stages of the backbone that are not trained; 1: the stem

  /// Everything that determines the set of weights, as one line.
  std::string text() const;
};

enum class loss_kind {
  torch,      ///< libtorch's operators, as in torchvision
  operators,  ///< vecdet::match_anchors and vecdet::ops, on logits permuted and joined
  vecdet,     ///< vecdet::retinanet_loss_and_grad, on the head's own layout
};

const char* name_of(loss_kind kind);

/// The library that computes the network's 3x3 convolutions with stride 1 and one group.
enum class convolution_kind {
  torch,   ///< ATen, as for all other convolutions
  vecdet,  ///< vecdet::ops::conv3x3, which leaves to ATen those for which ATen is faster
};

const char* name_of(convolution_kind kind);

/// What turns the network's outputs into detections.
enum class postprocessing_kind {
  torch,   ///< libtorch's operators, as in torchvision
  vecdet,  ///< vecdet::ops::postprocess
};

const char* name_of(postprocessing_kind kind);

/// How the network is computed.
struct precision_options {
  bool channels_last = false;
  bool bfloat16 = false;  ///< by autocast
};

struct loader_params {
  canvas_size canvas;
  bool training = true;  ///< shuffled and augmented, every batch full
  augmentation changes;
  std::size_t batch_size = 8;
  std::size_t threads = 2;
  std::uint64_t seed = 0;
  /// Data parallel: of each global batch of batch_size x ranks pictures, this rank takes its
  /// rank-th batch_size.
  std::size_t rank = 0, ranks = 1;
};

enum class optimiser_kind { sgd, adamw };
enum class schedule_kind { constant, cosine, steps };

struct optimisation {
  optimiser_kind optimiser = optimiser_kind::adamw;
  double rate = 4e-4;             ///< after the warm-up
  double weight_decay = 1e-4;     ///< applies only to convolutions' weights
  double momentum = 0.9;          ///< of SGD
  std::int64_t warmup_steps = 0;  ///< steps of linear growth from a thousandth of the rate
  schedule_kind schedule = schedule_kind::cosine;
  std::vector<double> drops = {2.0 / 3, 8.0 / 9};  ///< of `steps`: the rate then drops tenfold

  /// The rate of step number `step` (from 0) of `steps`.
  double rate_at(std::int64_t step, std::int64_t steps) const {
    double factor = 1;
    const double part = steps > 0 ? static_cast<double>(step) / static_cast<double>(steps) : 0;
    if (schedule == schedule_kind::cosine) factor = 0.5 * (1 + std::cos(std::acos(-1.0) * part));
    if (schedule == schedule_kind::steps)
      for (const double drop : drops)
        if (part >= drop) factor *= 0.1;
    if (step < warmup_steps)
      factor *= 0.001 + 0.999 * static_cast<double>(step) / static_cast<double>(warmup_steps);
    return rate * factor;
  }
};

struct training_options {
  dataset_source train, test;  ///< an empty test means no evaluation
  std::string folder;          ///< for checkpoints and the log; created if missing
  model_config model;          ///< its classes come from the data set
  loader_params loading;
  optimisation optimiser;
  loss_kind loss = loss_kind::vecdet;
  convolution_kind convolutions = convolution_kind::vecdet;
  /// Of several processes: 1 to average gradients in every step; otherwise each process steps on
  /// its own, and weights and the optimiser's state are averaged every so many steps.
  std::int64_t average_steps = 1;
  std::int64_t epochs = 14;
  std::int64_t evaluate_every = 1;    ///< epochs between evaluations
  std::int64_t checkpoint_steps = 0;  ///< additional checkpoints every so many steps; 0: none
  double target_ap50 = 0;             ///< training ends once it is reached; 0: never
  bool resume = false;                ///< continues from the folder's checkpoint
  precision_options precision;
};

}  // namespace detector
