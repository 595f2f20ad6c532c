// SPDX-License-Identifier: Apache-2.0
// Samples the anchors or proposals that a two-stage detector trains on: a fixed number per image,
// drawn at random without replacement. At most a given share of them is positive.
//
// Girshick: "Fast R-CNN", arXiv 1504.08083, section 2.3; Ren et al.: "Faster R-CNN", arXiv
// 1506.01497, section 3.1.3; torchvision's BalancedPositiveNegativeSampler. An image with P
// positives and N negatives contributes
//
//   positives  min(P, floor(size x positive_share))
//   negatives  min(N, size - positives)
//
// Both are drawn by Knuth's algorithm S (The Art of Computer Programming, volume 2, 3.4.2), so all
// subsets are equally likely. The random numbers (SplitMix64) depend only on the seed and the
// image's index, so the sample is the same on any number of threads and on every machine. Use a
// different seed for every training step.
//
// Labels are matches or classes. The parameters define `background` and `ignore`; every other label
// is positive. Throws std::invalid_argument, and leaves the workspace unchanged, if size is
// negative, positive_share is outside [0, 1], or image_offsets do not ascend from 0 to the number
// of labels.
#pragma once

#include <vecdet/impl/balanced_sample_buffers.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// Usual values: for an RPN, 256 with half of them positive; for a box head, 512 with a quarter of
/// them positive.
struct balanced_sample_params {
  index_t size = 256;                    ///< sample size per image; 0 or more
  double positive_share = 0.5;           ///< greatest share of positives; in [0, 1]
  std::uint64_t seed = 0;                ///< the same seed gives the same sample
  index_t background = -1, ignore = -2;  ///< labels, as in the focal loss
};

/// The sample of image k is [offsets[k], offsets[k + 1]) of `indices`, which index the labels. The
/// first positives[k] of them are positives, the rest negatives. Both parts ascend. The memory
/// belongs to the workspace and is valid until its next use.
struct balanced_sample {
  vector_view<const index_t> indices;
  vector_view<const index_t> offsets;
  vector_view<const index_t> positives;  ///< one per image
};

/// Scratch memory for sampling. It grows to the needs of the largest call and is reused. Only one
/// call at a time may use it.
class balanced_sample_workspace {
  friend detail::workspace_access;
  detail::balanced_sample_buffers buffers_;
};

/// Draws the sample of each image. The labels of image k are
/// [image_offsets[k], image_offsets[k + 1]).
balanced_sample sample_balanced(labels_view labels, vector_view<const index_t> image_offsets,
                                const balanced_sample_params& params,
                                balanced_sample_workspace& workspace,
                                threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/balanced_sample.hpp>
