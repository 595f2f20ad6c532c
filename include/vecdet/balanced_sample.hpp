// SPDX-License-Identifier: Apache-2.0
// The anchors or proposals of each image that a two-stage detector learns from: a fixed number, at
// most a given share of them positive, drawn at random without replacement.
//
// Girshick: "Fast R-CNN", arXiv 1504.08083, section 2.3; Ren et al.: "Faster R-CNN", arXiv
// 1506.01497, section 3.1.3; torchvision's BalancedPositiveNegativeSampler. Of an image with P
// positives and N negatives,
//
//   positives  min(P, floor(size x positive_share))
//   negatives  min(N, size - positives)
//
// each drawn by Knuth's algorithm S (The Art of Computer Programming, volume 2, 3.4.2), every
// subset as likely as any other. The random numbers (SplitMix64) depend on the seed and the image's
// number alone: the sample is the same for any number of threads, and on every machine. Give every
// step another seed.
//
// Labels are those of a matcher, or classes: `background` and `ignore` are said in the parameters,
// everything else is positive. Throws std::invalid_argument, before the workspace changes, where
// size is negative, positive_share is outside [0, 1], or image_offsets do not ascend from 0 to the
// number of labels.
#pragma once

#include <vecdet/impl/balanced_sample_buffers.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// RPN: 256, half of them positive; the box head: 512, a quarter.
struct balanced_sample_params {
  index_t size = 256;           ///< of each image; 0 or more
  double positive_share = 0.5;  ///< at most; in [0, 1]
  std::uint64_t seed = 0;
  index_t background = -1, ignore = -2;
};

/// Image k's sample is [offsets[k], offsets[k + 1]) of `indices`, which are indices of the labels:
/// the first positives[k] of them are positives, the others negatives, each ascending. The memory
/// is the workspace's, until its next use.
struct balanced_sample {
  vector_view<const index_t> indices;
  vector_view<const index_t> offsets;
  vector_view<const index_t> positives;  ///< one an image
};

/// Memory that sampling works in. It grows to what the calls need and is reused. One call at a
/// time.
class balanced_sample_workspace {
  friend detail::workspace_access;
  detail::balanced_sample_buffers buffers_;
};

/// The sample of each image. Image k's labels are [image_offsets[k], image_offsets[k + 1]).
balanced_sample sample_balanced(labels_view labels, vector_view<const index_t> image_offsets,
                                const balanced_sample_params& params,
                                balanced_sample_workspace& workspace,
                                execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/balanced_sample.hpp>
