// SPDX-License-Identifier: Apache-2.0
// The function of detr_postprocess.hpp.
#pragma once

#include <vecdet/detr_postprocess.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/class_options.hpp>
#include <vecdet/postprocess.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

inline detr_postprocess_params detr_postprocess_params::detr() {
  detr_postprocess_params params;
  params.softmax = true;
  params.max_detections = 100;
  return params;
}

inline detr_postprocess_params detr_postprocess_params::rt_detr() { return {}; }

namespace detail {

/// One call of postprocess_detr.
template <class T>
class detr_call {
 public:
  detr_call(isa target, const detr_outputs<T>& outputs, vector_view<const image_size> sizes,
            const detr_postprocess_params& params)
      : target_(target), outputs_(outputs), sizes_(sizes), params_(params) {}

  void check_arguments() {
    constexpr const char* function = "postprocess_detr";
    const index_t rows = outputs_.logits.rows();
    check(is_within(params_.score_threshold, 0, 1), function, "params.score_threshold",
          params_.score_threshold, "a number in [0, 1]");
    check(params_.max_detections >= 0, function, "params.max_detections", params_.max_detections,
          "0 or more");
    check(images() == 0 ? rows == 0 : rows % images() == 0, function, "outputs.logits.rows()", rows,
          "a multiple of the number of images");
    check(outputs_.boxes.size() == rows, function, "outputs.boxes.size()", outputs_.boxes.size(),
          "the rows of the logits");
    check_image_sizes(function, sizes_);
    const bool knows = !outputs_.logits.empty();
    const index_t classes = knows ? class_count() : params_.class_thresholds.size();
    check_class_limits(function, params_, 0, knows ? classes - 1 : no_limit, classes);
    queries_ = images() == 0 ? 0 : rows / images();
  }

  /// Sets the limits of classes; `buffer` keeps them.
  void set_class_limits(std::vector<float>& buffer) {
    threshold_ = lowest_threshold(params_);
    class_limits_ = class_limits(
        params_, outputs_.logits.empty() ? 0 : class_count(), buffer, [&](double score) {
          return params_.softmax ? static_cast<float>(score) : logit_limit(score);
        });
  }

  profile::problem problem(threading policy) const {
    return {"postprocess_detr",
            params_.softmax ? "softmax" : "sigmoid",
            dtype_name<T>(),
            {images(), queries_, outputs_.logits.cols()},
            isa_name(target_),
            policy.threads(),
            outputs_.logits.size() * index_t{sizeof(T)}};
  }

  index_t images() const { return sizes_.size(); }
  static index_t extras() { return 0; }
  static float extra(index_t, index_t, index_t) { return 0; }
  letterbox_transform transform(index_t image) const { return {1, 1, 0, 0, sizes_[image]}; }

  void collect(index_t image, yolo_buffers::candidates& out, threading policy) const {
    const matrix_view<const T> logits(outputs_.logits.row(image * queries_), queries_,
                                      outputs_.logits.cols(), outputs_.logits.stride());
    out.count = 0;
    if (logits.empty()) return;
    if (params_.softmax) return collect_softmax(image, logits, out);
    const filter_topk_result best =
        run_filter_topk(target_, logits, threshold_, params_.max_detections, out.search, policy,
                        score_kind::logits, class_limits_);
    for (index_t i = 0; i < best.elements.size(); ++i)
      put(image, out, best.elements[i] / logits.cols(), best.elements[i] % logits.cols(),
          sigmoid_score(best.logits[i]));
  }

 private:
  /// Without softmax's "no object".
  index_t class_count() const {
    return std::max(index_t{0}, outputs_.logits.cols() - index_t{params_.softmax});
  }

  /// The class with the greatest logit of a row, without the last column, and its softmax. NaN if a
  /// logit is NaN or the greatest is infinite.
  static float best_softmax(const T* row, index_t cols, index_t& label) {
    float greatest = static_cast<float>(row[0]);
    bool has_nan = false;
    for (index_t c = 0; c < cols; ++c) {
      const auto x = static_cast<float>(row[c]);
      has_nan = has_nan || is_nan(x);
      if (x > greatest) greatest = x;
    }
    label = 0;
    if (has_nan || !is_finite(greatest)) return std::numeric_limits<float>::quiet_NaN();
    double sum = 0;
    for (index_t c = 0; c < cols; ++c) {
      const auto x = static_cast<float>(row[c]);
      sum = rounded(sum + std::exp(static_cast<double>(x) - static_cast<double>(greatest)));
      if (c + 1 < cols && x > static_cast<float>(row[label])) label = c;
    }
    const double best = static_cast<double>(static_cast<float>(row[label]));
    return static_cast<float>(quotient(std::exp(best - static_cast<double>(greatest)), sum));
  }

  void collect_softmax(index_t image, const matrix_view<const T>& logits,
                       yolo_buffers::candidates& out) const {
    if (logits.cols() < 2) return;
    const auto threshold = static_cast<float>(threshold_);
    std::uint64_t* const order = grown(out.search.records, queries_);
    float* const scores = grown(out.search.logits, queries_);
    index_t* const labels = grown(out.search.elements, queries_);
    index_t count = 0;
    for (index_t q = 0; q < queries_; ++q) {
      scores[q] = best_softmax(logits.row(q), logits.cols(), labels[q]);
      if (is_above(scores[q], threshold) &&
          (class_limits_ == nullptr || is_above(scores[q], class_limits_[labels[q]])))
        order[count++] = static_cast<std::uint64_t>(q);
    }
    sort_by_score(order, order + count, [&](index_t q) { return scores[q]; });
    for (index_t i = 0; i < std::min(count, params_.max_detections); ++i) {
      const auto q = static_cast<index_t>(order[i]);
      put(image, out, q, labels[q], scores[q]);
    }
  }

  void put(index_t image, yolo_buffers::candidates& out, index_t query, index_t label,
           float score) const {
    const index_t at = out.count++;
    const T* const from = outputs_.boxes[image * queries_ + query];
    float four[4];
    for (int k = 0; k < 4; ++k) four[k] = static_cast<float>(from[k]);
    write_corners(box_format::cxcywh, four,
                  grown(out.boxes, grown_capacity(4 * out.count)) + 4 * at);
    grown(out.scores, grown_capacity(out.count))[at] = score;
    grown(out.labels, grown_capacity(out.count))[at] = label;
    grown(out.sources, grown_capacity(out.count))[at] = query;
  }

  const isa target_;
  const detr_outputs<T>& outputs_;
  vector_view<const image_size> sizes_;
  const detr_postprocess_params& params_;
  index_t queries_ = 0;
  double threshold_ = 0;
  const float* class_limits_ = nullptr;
};

}  // namespace detail

template <class T>
yolo_detections_view postprocess_detr(const detr_outputs<T>& outputs,
                                      vector_view<const image_size> image_sizes,
                                      const detr_postprocess_params& params,
                                      yolo_postprocess_workspace& workspace, threading policy) {
  detail::yolo_buffers& buffers = detail::workspace_access::buffers(workspace);
  const isa target = active_isa();
  detail::detr_call<T> call(target, outputs, image_sizes, params);
  call.check_arguments();
  call.set_class_limits(buffers.class_limits);
  detail::look_at_logits("postprocess_detr", "outputs.logits", outputs.logits);
  const profile::scope timing([&] { return call.problem(policy); });
  yolo_postprocess_params results;
  results.normalised = true;
  results.suppresses = false;
  results.max_detections = params.max_detections;
  results.results = params.results;
  return detail::find_detections(call, buffers, results, true, target, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
