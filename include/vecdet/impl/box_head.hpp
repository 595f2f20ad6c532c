// SPDX-License-Identifier: Apache-2.0
// The function of box_head.hpp. Proposals take the place of anchors, separately for each image.
#pragma once

#include <vecdet/box_head.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/impl/postprocess.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// SSD's postprocessing without a limit on the candidates per class.
inline postprocess_params as_postprocess(const box_head_params& params) {
  postprocess_params dense;
  dense.detector = dense_detector::ssd;
  dense.score_threshold = params.score_threshold;
  dense.max_candidates = no_limit;
  dense.iou_threshold = params.iou_threshold;
  dense.max_detections = params.max_detections;
  dense.coder = params.coder;
  dense.min_size = params.min_size;
  return dense;
}

template <class T>
void check_box_head(const box_head_outputs<T>& outputs, index_t proposals,
                    vector_view<const index_t> offsets, index_t images,
                    const postprocess_params& params) {
  constexpr const char* function = "postprocess_box_head";
  const index_t rows = outputs.logits.rows(), cols = outputs.logits.cols();
  check_size(function, "outputs.logits.rows()", rows, proposals, "the number of proposals");
  check_size(function, "outputs.deltas.size()", outputs.deltas.size(), rows * cols,
             "proposals x classes");
  check_size(function, "image_offsets.size()", offsets.size(), images + 1,
             "the number of images + 1");
  check_offsets(function, "image_offsets", offsets, proposals, "the number of proposals");
  check(cols == 0 || rows <= (index_t{1} << 32) / cols, function, "outputs.logits.rows()", rows,
        "at most 2^32 logits");
  check_postprocess_params(function, params);
}

}  // namespace detail

template <class T>
detections_view postprocess_box_head(const box_head_outputs<T>& outputs,
                                     boxes_view<const float> proposals,
                                     vector_view<const index_t> image_offsets,
                                     const image_sizes_view& image_sizes,
                                     const box_head_params& params,
                                     postprocess_workspace& workspace, threading policy) {
  detail::postprocess_buffers& buffers = detail::workspace_access::buffers(workspace);
  const index_t images = image_sizes.is_same_for_all()
                             ? std::max(index_t{0}, image_offsets.size() - 1)
                             : image_sizes.size();
  const postprocess_params dense = detail::as_postprocess(params);
  detail::check_box_head(outputs, proposals.size(), image_offsets, images, dense);
  detail::check_image_sizes("postprocess_box_head", image_sizes);
  const isa target = active_isa();
  const matrix_view<const T>& logits = outputs.logits;
  const profile::scope timing([&] {
    return profile::problem{"postprocess_box_head",
                            nullptr,
                            dtype_name<T>(),
                            {profile::rounded_count(proposals.size()), logits.cols()},
                            isa_name(target),
                            policy.threads(),
                            logits.size() * index_t{sizeof(T)}};
  });
  if (static_cast<index_t>(buffers.images.size()) < images)
    buffers.images.resize(static_cast<std::size_t>(images));
  const detail::score_limits limits(dense, logits.cols(), buffers.class_limits);
  detail::for_each_chunk(
      policy, detail::chunking(images, 1), [&](index_t, index_t first, index_t last) {
        for (index_t i = first; i < last; ++i) {
          const index_t begin = image_offsets[i], count = image_offsets[i + 1] - begin;
          head_outputs<T> per_image;
          per_image.logits =
              matrix_view<const T>(logits.row(begin), count, logits.cols(), logits.stride());
          per_image.deltas = boxes_view<const T>(outputs.deltas.data() + 4 * begin * logits.cols(),
                                                 count * logits.cols());
          const detail::image_postprocess<T> call(
              target, per_image, boxes_view<const float>(proposals.data() + 4 * begin, count), {},
              dense, limits, true);
          call.collect(0, image_sizes[i], buffers.images[static_cast<std::size_t>(i)],
                       threading::sequential);
        }
      });
  return detail::best_detections(buffers, images, dense, target, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
