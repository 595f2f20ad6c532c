// SPDX-License-Identifier: Apache-2.0
// The functions of postprocess.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/box_ops.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/candidates.hpp>
#include <vecdet/impl/class_options.hpp>
#include <vecdet/letterbox_transform.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/postprocess.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// Whether each score depends on one element, not on a whole row.
inline bool searches_elements(dense_detector detector) {
  return detector == dense_detector::retinanet || detector == dense_detector::rpn;
}

inline const char* detector_name(dense_detector detector) noexcept {
  return detector == dense_detector::retinanet ? "retinanet"
         : detector == dense_detector::fcos    ? "fcos"
         : detector == dense_detector::ssd     ? "ssd"
                                               : "rpn";
}

/// Whether all levels are searched together, as in SSD.
inline bool searched_as_one(vector_view<const index_t> level_sizes,
                            const postprocess_params& params) {
  return level_sizes.empty() || params.detector == dense_detector::ssd;
}

inline void check_postprocess_params(const char* function, const postprocess_params& params) {
  check(is_within(params.score_threshold, 0, 1), function, "params.score_threshold",
        params.score_threshold, "a number in [0, 1]");
  check(is_within(params.iou_threshold, 0, 1), function, "params.iou_threshold",
        params.iou_threshold, "a number in [0, 1]");
  check(params.max_candidates >= 0, function, "params.max_candidates", params.max_candidates,
        "0 or more");
  check(params.max_detections >= 0, function, "params.max_detections", params.max_detections,
        "0 or more");
  check_min_size(function, "params.min_size", params.min_size);
  check_corner_coder(function, "params.coder", params.coder);
}

/// Throws unless the lists of classes fit logits with `cols` columns, or logits without elements.
inline void check_class_lists(const char* function, const postprocess_params& params, index_t cols,
                              bool has_logits) {
  if (params.detector == dense_detector::rpn) {
    const index_t given = std::max(
        {params.classes.size(), params.class_thresholds.size(), params.class_groups.size()});
    check(given == 0, function, "the size of params.classes, class_thresholds or class_groups",
          given, "0 for an RPN");
    return;
  }
  const bool is_ssd = params.detector == dense_detector::ssd;
  if (has_logits)
    check_optional_size(function, "params.class_groups.size()", params.class_groups.size(), cols,
                        "the columns of the logits");
  check_class_limits(function, params, is_ssd ? 1 : 0, has_logits ? cols - 1 : no_limit,
                     has_logits ? cols : params.class_thresholds.size());
}

/// What the search for candidates compares scores with.
struct score_limits {
  double threshold;           ///< the lowest one
  const float* class_limits;  ///< of logits if the detector's elements are searched; or null

  score_limits(const postprocess_params& params, index_t cols, std::vector<float>& buffer)
      : threshold(lowest_threshold(params)),
        class_limits(detail::class_limits(params, cols, buffer, [&](double score) {
          return searches_elements(params.detector) ? logit_limit(score)
                                                    : static_cast<float>(score);
        })) {}
};

inline void check_image_sizes(const char* function, const image_sizes_view& sizes) {
  for (index_t i = 0; i < sizes.size(); ++i) {
    for (const double side : {sizes[i].height, sizes[i].width}) {
      if (is_image_side(side)) continue;
      throw_invalid_argument(function,
                             sizes.is_same_for_all() ? "image_sizes" : element("image_sizes", i),
                             side, "a finite float above 0");
    }
  }
}

template <class T>
void check_postprocess(const head_outputs<T>& outputs, index_t anchors,
                       vector_view<const index_t> level_sizes, index_t images,
                       const postprocess_params& params) {
  constexpr const char* function = "postprocess";
  const index_t rows = outputs.logits.rows();
  if (anchors == 0 ? rows != 0 : rows % anchors != 0 || rows / anchors != images) {
    throw_invalid_argument(
        function, "outputs.logits.rows()", rows,
        std::to_string(images) + " x " + std::to_string(anchors) + ", images x anchors");
  }
  check_size(function, "outputs.deltas.size()", outputs.deltas.size(), rows,
             "the rows of the logits");
  const bool is_fcos = params.detector == dense_detector::fcos;
  check_size(function, "outputs.centerness.size()", outputs.centerness.size(), is_fcos ? rows : 0,
             is_fcos ? "the rows of the logits" : "because only FCOS has it");
  index_t sum = 0, largest = searched_as_one(level_sizes, params) ? anchors : 0;
  for (index_t level = 0; level < level_sizes.size(); ++level) {
    const index_t size = level_sizes[level];
    check_element(size >= 0, function, "level_sizes", level, size, "0 or more");
    sum = size < no_limit - sum ? sum + size : no_limit;
    largest = std::max(largest, size);
  }
  if (!level_sizes.empty())
    check_size(function, "the sum of level_sizes", sum, anchors, "the number of anchors");
  // The search by whole rows stores the indices of a level's elements in 32 bits.
  const index_t cols = outputs.logits.cols();
  check(params.detector != dense_detector::rpn || cols == 1 || rows == 0, function,
        "outputs.logits.cols()", cols, "1 for an RPN");
  check(searches_elements(params.detector) || cols == 0 || largest <= (index_t{1} << 32) / cols,
        function, "the number of anchors that are searched at once", largest,
        "at most 2^32 logits per image: on one level for FCOS, on all levels for SSD");
  check_postprocess_params(function, params);
  check_class_lists(function, params, cols, rows > 0);
}

inline float sigmoid_score(float logit) {
  return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit))));
}

/// Makes room for `more` candidates and returns the position of the first one.
inline index_t add_candidates(postprocess_buffers::candidates& out, index_t more) {
  const index_t first = out.count;
  out.count += more;
  grown(out.elements, grown_capacity(out.count));
  grown(out.scores, grown_capacity(out.count));
  return first;
}

/// Adds the first `found` elements that out.search has found in a level.
inline void add_found(postprocess_buffers::candidates& out, index_t found) {
  const index_t first = add_candidates(out, found);
  std::copy_n(out.search.elements.data(), found, out.elements.data() + first);
  std::copy_n(out.search.logits.data(), found, out.scores.data() + first);
}

/// Keeps at most `limit` of the records of each class, the best ones. Returns how many are left.
/// Records are in descending order; `counts` has an element for each class.
inline index_t limit_classes(std::uint64_t* records, index_t count, index_t classes, index_t limit,
                             index_t* counts) {
  std::fill(counts, counts + classes, index_t{0});
  index_t left = 0;
  for (index_t i = 0; i < count; ++i) {
    const std::uint64_t record = records[i];
    records[left] = record;
    left += counts[static_cast<index_t>(record & 0xffffffffu) % classes]++ < limit;
  }
  return left;
}

/// Adds at most `limit` of these elements of each class, the best ones.
inline void add_best_of_classes(postprocess_buffers::candidates& out, index_t found,
                                index_t classes, index_t limit, threading policy) {
  constexpr index_t smallest_chunk = 4096;
  const chunking chunks(found, smallest_chunk);
  const index_t* const elements = out.search.elements.data();
  const float* const scores = out.search.logits.data();
  // For each chunk and class, first how many elements there are, then how many come before.
  index_t* const per_class = grown(out.per_class, chunks.count * classes);
  for_each_chunk(policy, chunks, [&](index_t c, index_t first, index_t last) {
    index_t* const counts = per_class + c * classes;
    std::fill(counts, counts + classes, index_t{0});
    for (index_t i = first; i < last; ++i) ++counts[elements[i] % classes];
  });
  index_t* const kept_before = grown(out.kept_before, chunks.count + 1);
  std::fill(kept_before, kept_before + chunks.count + 1, index_t{0});
  for (index_t k = 0; k < classes; ++k) {
    index_t before = 0;
    for (index_t c = 0; c < chunks.count; ++c) {
      index_t& count = per_class[c * classes + k];
      const index_t after = before + count;
      kept_before[c + 1] += std::min(after, limit) - std::min(before, limit);
      count = before;
      before = after;
    }
  }
  for (index_t c = 0; c < chunks.count; ++c) kept_before[c + 1] += kept_before[c];
  const index_t at = add_candidates(out, kept_before[chunks.count]);
  for_each_chunk(policy, chunks, [&](index_t c, index_t first, index_t last) {
    index_t* const counts = per_class + c * classes;
    index_t to = at + kept_before[c];
    for (index_t i = first; i < last; ++i) {
      if (counts[elements[i] % classes]++ >= limit) continue;
      out.elements[static_cast<std::size_t>(to)] = elements[i];
      out.scores[static_cast<std::size_t>(to++)] = scores[i];
    }
  });
}

/// Where a candidate's numbers are.
template <class T>
struct candidate_source {
  const float* anchor;
  const T* deltas;  ///< four, `step` elements apart
  index_t step, label;
};

/// Decodes all candidates' boxes and removes those that are too small. source_in(level,
/// first anchor) makes a function that maps elements of the level to their candidate_source.
template <class SourceIn>
void decode_candidates(isa target, const postprocess_params& params,
                       postprocess_buffers::candidates& out, const image_size& size,
                       threading policy, const SourceIn& source_in) {
  grown(out.labels, grown_capacity(out.count));
  grown(out.boxes, grown_capacity(4 * out.count));
  grown(out.anchors, grown_capacity(4 * out.count));
  const bool is_fcos = params.detector == dense_detector::fcos;
  auto args = is_fcos ? coding_args<float>(distance_params{}) : coding_args<float>(params.coder);
  clip_to(args, size);
  float* const boxes = out.boxes.data();
  args.in = args.out = boxes;
  args.anchors = out.anchors.data();
  using coding = coding_kernels<float>;
  const auto decode = is_fcos ? coding::decode_distances(target) : coding::decode(target);
  const bool has_logits = searches_elements(params.detector);
  constexpr index_t smallest_chunk = 256;
  for_each_chunk(
      policy, chunking(out.count, smallest_chunk), [&](index_t, index_t first, index_t last) {
        index_t level = 0;
        for (index_t i = first; i < last; ++level) {
          const postprocess_buffers::level& own = out.levels[static_cast<std::size_t>(level)];
          const auto source_of = source_in(level, own.first_anchor);
          for (const index_t end = std::min(last, own.end); i < end; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const auto source = source_of(out.elements[at]);
            for (index_t k = 0; k < 4; ++k)
              boxes[4 * i + k] = static_cast<float>(source.deltas[k * source.step]);
            std::copy_n(source.anchor, 4, out.anchors.data() + 4 * i);
            out.labels[at] = source.label;
            if (has_logits) out.scores[at] = sigmoid_score(out.scores[at]);
          }
        }
        decode(args, first, last);
      });

  if (is_equal(params.min_size, 0)) return;
  float* const scores = out.scores.data();
  index_t* const labels = out.labels.data();
  index_t count = 0;
  visit_large_boxes(kernels<box_ops_kernels<float>>(target), boxes, params.min_size, 0, out.count,
                    [&](index_t i, bool is_large) {
                      std::copy_n(boxes + 4 * i, 4, boxes + 4 * count);
                      scores[count] = scores[i];
                      labels[count] = labels[i];
                      count += is_large;
                    });
  out.count = count;
}

// The least numbers of elements in a chunk of the search: about fifty microseconds of work.
inline constexpr index_t smallest_centered = 1 << 16, smallest_softmax = 1 << 14;

template <class T>
class image_postprocess {
 public:
  image_postprocess(isa target, const head_outputs<T>& outputs, boxes_view<const float> anchors,
                    vector_view<const index_t> level_sizes, const postprocess_params& params,
                    const score_limits& limits, bool deltas_per_class = false)
      : target_(target),
        outputs_(outputs),
        anchors_(anchors),
        level_sizes_(level_sizes),
        params_(params),
        limits_(limits),
        deltas_per_class_(deltas_per_class) {}

  /// Finds the candidates of one image, level by level.
  void collect(index_t image, const image_size& size, postprocess_buffers::candidates& out,
               threading policy) const {
    out.count = 0;
    out.levels.clear();
    if (params_.max_candidates == 0) return;
    const index_t whole[] = {anchors_.size()};
    const vector_view<const index_t> levels = searched_as_one(level_sizes_, params_)
                                                  ? vector_view<const index_t>(whole, 1)
                                                  : level_sizes_;
    index_t first_anchor = 0;
    for (index_t level = 0; level < levels.size(); ++level) {
      const index_t level_size = levels[level];
      const index_t first_row = image * anchors_.size() + first_anchor;
      if (searches_elements(params_.detector)) {
        const matrix_view<const T> logits(outputs_.logits.row(first_row), level_size,
                                          outputs_.logits.cols(), outputs_.logits.stride());
        const filter_topk_result found =
            run_filter_topk(target_, logits, limits_.threshold, params_.max_candidates, out.search,
                            policy, score_kind::logits, limits_.class_limits);
        add_found(out, found.elements.size());
      } else if (level_size > 0) {
        collect_by_row(out, first_row, level_size, policy);
      }
      out.levels.push_back({first_anchor, out.count});
      first_anchor += level_size;
    }
    const index_t cols = outputs_.logits.cols(), first_row = image * anchors_.size();
    const bool is_rpn = params_.detector == dense_detector::rpn;
    decode_candidates(target_, params_, out, size, policy, [&](index_t level, index_t first) {
      return [this, level, first, cols, first_row, is_rpn](index_t element) {
        const index_t anchor = first + element / cols;
        const index_t box =
            deltas_per_class_ ? (first_row + first) * cols + element : first_row + anchor;
        return candidate_source<T>{anchors_[anchor], outputs_.deltas[box], 1,
                                   is_rpn ? level : element % cols};
      };
    });
  }

 private:
  void collect_by_row(postprocess_buffers::candidates& out, index_t first_row, index_t level_size,
                      threading policy) const {
    const bool is_ssd = params_.detector == dense_detector::ssd;
    row_search_args<T> args{};
    args.cols = outputs_.logits.cols();
    args.stride = outputs_.logits.stride();
    args.logits = outputs_.logits.row(0);
    args.kind = is_ssd ? row_score::softmax : row_score::centerness;
    args.centerness = outputs_.centerness.data();
    args.centerness_step = 1;
    args.score_threshold = limits_.threshold;
    args.class_limits = limits_.class_limits;
    args.limit = is_ssd ? no_limit : params_.max_candidates;
    const chunking chunks =
        search_chunks(level_size, args.cols, policy, is_ssd ? smallest_softmax : smallest_centered);
    args.capacity = filter_topk_capacity(args.limit, chunks.size * args.cols) + args.cols;
    const auto search = kernels<filter_topk_kernels<T>>(target_).search_rows;
    // Each chunk drops what the limit per class drops in any case, so that less has to be merged.
    const bool limits_chunks = is_ssd && chunks.count > 1 && chunks.size > params_.max_candidates;
    index_t* const counts = grown(out.per_class, limits_chunks ? chunks.count * args.cols : 0);
    const index_t found = append_best(
        target_, out.search, chunks, args.cols, args.capacity, args.limit, 0, 0, policy,
        [&](index_t first, index_t last, std::uint64_t* records, std::uint64_t* spare) {
          const index_t count = search(args, first_row + first, first_row + last, records, spare);
          return limits_chunks ? limit_classes(records, count, args.cols, params_.max_candidates,
                                               counts + first / chunks.size * args.cols)
                               : count;
        });
    if (is_ssd && params_.max_candidates < level_size) {
      add_best_of_classes(out, found, args.cols, params_.max_candidates, policy);
    } else {
      add_found(out, found);
    }
  }

  const isa target_;
  const head_outputs<T>& outputs_;
  boxes_view<const float> anchors_;
  vector_view<const index_t> level_sizes_;
  const postprocess_params& params_;
  const score_limits limits_;
  bool deltas_per_class_;
};

/// The best candidates of each image after NMS.
inline detections_view best_detections(postprocess_buffers& buffers, index_t images,
                                       const postprocess_params& params, isa target,
                                       threading policy) {
  concatenate_candidates(buffers, images, policy);
  const vector_view<const index_t> kept =
      suppress_candidates(buffers, images, params.iou_threshold, params.max_detections, false,
                          params.class_groups, target, policy);
  gather_kept(buffers, images, kept);
  const index_t count = kept.size();
  return {{buffers.kept_boxes.data(), count},
          {buffers.kept_scores.data(), count},
          {buffers.kept_labels.data(), count},
          {buffers.kept_offsets.data(), images + 1}};
}

/// The detections of all images, from the candidates that call.collect() finds in each.
template <class Call>
detections_view run_postprocess(const Call& call, const image_sizes_view& image_sizes,
                                index_t images, isa target, const postprocess_params& params,
                                postprocess_buffers& buffers, threading policy) {
  collect_candidates(buffers, images, policy, [&](index_t i, auto& out, threading inner) {
    call.collect(i, image_sizes[i], out, inner);
  });
  return best_detections(buffers, images, params, target, policy);
}

}  // namespace detail

template <class T>
detections_view postprocess(const head_outputs<T>& outputs, boxes_view<const float> anchors,
                            vector_view<const index_t> level_sizes,
                            const image_sizes_view& image_sizes, const postprocess_params& params,
                            postprocess_workspace& workspace, threading policy) {
  detail::postprocess_buffers& buffers = detail::workspace_access::buffers(workspace);
  const index_t rows = outputs.logits.rows();
  const index_t images = !image_sizes.is_same_for_all() ? image_sizes.size()
                         : anchors.empty()              ? 0
                                                        : rows / anchors.size();
  detail::check_postprocess(outputs, anchors.size(), level_sizes, images, params);
  detail::check_image_sizes("postprocess", image_sizes);
  detail::look_at_logits("postprocess", "outputs.logits", outputs.logits);
  const isa target = active_isa();
  const profile::scope timing([&] {
    using shape = decltype(profile::problem::shape);
    const index_t cols = outputs.logits.cols();
    return profile::problem{
        "postprocess",
        detail::detector_name(params.detector),
        dtype_name<T>(),
        images == 1 ? shape{anchors.size(), cols} : shape{images, anchors.size(), cols},
        isa_name(target),
        policy.threads(),
        outputs.logits.size() * index_t{sizeof(T)}};
  });

  const detail::score_limits limits(params, outputs.logits.empty() ? 0 : outputs.logits.cols(),
                                    buffers.class_limits);
  return detail::run_postprocess(
      detail::image_postprocess<T>(target, outputs, anchors, level_sizes, params, limits),
      image_sizes, images, target, params, buffers, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
