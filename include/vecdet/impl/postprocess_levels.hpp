// SPDX-License-Identifier: Apache-2.0
// Postprocessing of a head's levels in place: finds candidates in the logits and reads only their
// deltas.
#pragma once

#include <vecdet/impl/head_boxes.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/impl/postprocess.hpp>

#include <cstddef>
#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T>
void check_postprocess(const head_level_outputs<T>& outputs, index_t anchors,
                       const image_sizes_view& image_sizes, const postprocess_params& params) {
  constexpr const char* function = "postprocess";
  check(params.detector != dense_detector::ssd, function, "params.detector", "ssd",
        "retinanet, fcos or rpn, whose levels have the same number of anchors per location");
  check_postprocess_params(function, params);
  const head_view<const T>& logits = outputs.logits;
  check(params.detector != dense_detector::rpn || logits.classes() == 1, function,
        "outputs.logits.classes()", logits.classes(), "1 for an RPN");
  check_head(function, "outputs.deltas", outputs.deltas, "outputs.logits", logits, 4);
  if (params.detector == dense_detector::fcos) {
    check_head(function, "outputs.centerness", outputs.centerness, "outputs.logits", logits, 1);
  } else {
    check(outputs.centerness.levels().empty(), function, "outputs.centerness.levels().size()",
          outputs.centerness.levels().size(), "0, because only FCOS has it");
  }
  check_size(function, "anchors.size()", anchors, logits.anchors_per_image(),
             "the anchors of one image of the head");
  if (!image_sizes.is_same_for_all())
    check_size(function, "image_sizes.size()", image_sizes.size(), logits.images(),
               "the images of the head");
  check_class_lists(function, params, logits.classes(), logits.size() > 0);
}

template <class T>
class levels_postprocess {
 public:
  levels_postprocess(isa target, const head_level_outputs<T>& outputs,
                     const boxes_view<const float>& anchors, const postprocess_params& params,
                     const score_limits& limits)
      : target_(target), outputs_(outputs), anchors_(anchors), params_(params), limits_(limits) {}

  /// Finds the candidates of one image, level by level.
  void collect(index_t image, const image_size& size, postprocess_buffers::candidates& out,
               threading policy) const {
    out.count = 0;
    out.levels.clear();
    if (params_.max_candidates == 0) return;
    const head_view<const T>& logits = outputs_.logits;
    const index_t classes = logits.classes();
    index_t first_anchor = 0;
    for (index_t l = 0; l < logits.levels().size(); ++l) {
      if (searches_elements(params_.detector)) {
        const index_t found = append_level_best(
            target_, logits, image, l, search_threshold(limits_.threshold, score_kind::logits),
            params_.max_candidates, 0, 0, out.search, policy, limits_.class_limits);
        add_found(out, found);
      } else if (logits.locations(l) * logits.anchors() * classes > 0) {
        add_found(out, find_centered(image, l, out.search, policy));
      }
      out.levels.push_back({first_anchor, out.count});
      first_anchor += logits.locations(l) * logits.anchors();
    }
    const bool is_rpn = params_.detector == dense_detector::rpn;
    decode_candidates(target_, params_, out, size, policy, [&](index_t level, index_t first) {
      const level_boxes<const T> deltas(outputs_.deltas, image, level);
      return [this, level, first, deltas, classes, is_rpn](index_t element) {
        const index_t anchor = element / classes;
        return candidate_source<T>{anchors_[first + anchor], deltas[anchor], deltas.step(),
                                   is_rpn ? level : element % classes};
      };
    });
  }

 private:
  /// Finds FCOS's candidates and returns their number.
  index_t find_centered(index_t image, index_t level, filter_topk_buffers& buffers,
                        threading policy) const {
    const head_view<const T>&logits = outputs_.logits, &centerness = outputs_.centerness;
    const level_steps centre(centerness, level);
    const T* const centres = centerness.levels()[level].data + image * centre.image;
    const auto& kernels = detail::kernels<filter_topk_kernels<T>>(target_);
    const index_t limit = params_.max_candidates;
    const auto search = [&](index_t items, index_t elements, index_t more, const auto& run) {
      const chunking chunks = search_chunks(items, elements, policy, smallest_centered);
      const index_t capacity = filter_topk_capacity(limit, chunks.size * elements) + more;
      return append_best(
          target_, buffers, chunks, elements, capacity, limit, 0, 0, policy,
          [&](index_t first, index_t last, std::uint64_t* records, std::uint64_t* spare) {
            return run(capacity, first, last, records, spare);
          });
    };
    if (logits.layout() == head_layout::nhwc) {
      const matrix_view<const T> rows = level_rows(logits, image, level);
      row_search_args<T> args{};
      args.logits = rows.data();
      args.cols = rows.cols();
      args.stride = rows.stride();
      args.kind = row_score::centerness;
      args.centerness = centres;
      args.centerness_step = centre.anchor;
      args.score_threshold = limits_.threshold;
      args.class_limits = limits_.class_limits;
      args.limit = limit;
      return search(rows.rows(), rows.cols(), rows.cols(), [&](index_t capacity, auto... range) {
        row_search_args<T> chunk_args = args;
        chunk_args.capacity = capacity;
        return kernels.search_rows(chunk_args, range...);
      });
    } else {
      auto args = plane_args(logits, image, level);
      args.centerness = centres;
      args.centerness_step = centre.anchor;
      args.score_threshold = limits_.threshold;
      args.class_limits = limits_.class_limits;
      args.limit = limit;
      return search(logits.locations(level), logits.anchors() * logits.classes(), 0,
                    [&](index_t capacity, auto... range) {
                      plane_search_args<T> chunk_args = args;
                      chunk_args.capacity = capacity;
                      return kernels.search_planes(chunk_args, range...);
                    });
    }
  }

  const isa target_;
  const head_level_outputs<T>& outputs_;
  const boxes_view<const float>& anchors_;
  const postprocess_params& params_;
  const score_limits limits_;
};

}  // namespace detail

template <class T>
detections_view postprocess(const head_level_outputs<T>& outputs, boxes_view<const float> anchors,
                            const image_sizes_view& image_sizes, const postprocess_params& params,
                            postprocess_workspace& workspace, threading policy) {
  detail::check_postprocess(outputs, anchors.size(), image_sizes, params);
  detail::check_image_sizes("postprocess", image_sizes);
  detail::look_at_logits("postprocess", "outputs.logits", outputs.logits);
  const isa target = active_isa();
  const profile::scope timing([&] {
    const bool is_nhwc = outputs.logits.layout() == head_layout::nhwc;
    return profile::problem{
        "postprocess",
        params.detector == dense_detector::fcos  ? is_nhwc ? "levels_fcos" : "nchw_fcos"
        : params.detector == dense_detector::rpn ? is_nhwc ? "levels_rpn" : "nchw_rpn"
        : is_nhwc                                ? "levels_retinanet"
                                                 : "nchw_retinanet",
        dtype_name<T>(),
        {outputs.logits.images(), anchors.size(), outputs.logits.classes()},
        isa_name(target),
        policy.threads(),
        outputs.logits.size() * index_t{sizeof(T)}};
  });
  detail::postprocess_buffers& buffers = detail::workspace_access::buffers(workspace);
  const detail::score_limits limits(
      params, outputs.logits.size() > 0 ? outputs.logits.classes() : 0, buffers.class_limits);
  return detail::run_postprocess(
      detail::levels_postprocess<T>(target, outputs, anchors, params, limits), image_sizes,
      outputs.logits.images(), target, params, buffers, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
