// SPDX-License-Identifier: Apache-2.0
// The function of postprocess_detr.hpp.
#pragma once

#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/class_options.hpp>
#include <vecdet/impl/output_detections.hpp>
#include <vecdet/impl/quantised_numbers.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/postprocess_detr.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

inline postprocess_detr_params postprocess_detr_params::detr() {
  postprocess_detr_params params;
  params.softmax = true;
  params.max_detections = 100;
  return params;
}

inline postprocess_detr_params postprocess_detr_params::rt_detr() { return {}; }

namespace detail {

/// One call of postprocess_detr. A Matrix is a matrix_view or a quantised_matrix.
template <class Matrix, class Boxes = Matrix>
class detr_call {
 public:
  detr_call(isa target, const Matrix& logits, const Boxes& boxes,
            vector_view<const image_size> sizes, const postprocess_detr_params& params)
      : target_(target), logits_(logits), boxes_(boxes), sizes_(sizes), params_(params) {}

  void check_arguments() {
    constexpr const char* function = "postprocess_detr";
    const index_t rows = logits_.rows();
    check(is_within(params_.score_threshold, 0, 1), function, "params.score_threshold",
          params_.score_threshold, "a number in [0, 1]");
    check(params_.max_detections >= 0, function, "params.max_detections", params_.max_detections,
          "0 or more");
    check(images() == 0 ? rows == 0 : rows % images() == 0, function, "outputs.logits.rows()", rows,
          "a multiple of the number of images");
    check(boxes_.rows() == rows, function,
          is_quantised<Matrix> ? "outputs.boxes.rows()" : "outputs.boxes.size()", boxes_.rows(),
          "the rows of the logits");
    check_size(function, "outputs.boxes.cols()", boxes_.cols(), 4, "the numbers of a box");
    check_image_sizes(function, sizes_);
    const bool knows = !logits_.empty();
    const index_t classes = knows ? class_count() : params_.class_thresholds.size();
    check_class_limits(function, params_, 0, knows ? classes - 1 : no_limit, classes);
    queries_ = images() == 0 ? 0 : rows / images();
  }

  /// Sets the limits of classes; `buffer` keeps them.
  void set_class_limits(std::vector<float>& buffer) {
    threshold_ = lowest_threshold(params_);
    class_limits_ =
        class_limits(params_, logits_.empty() ? 0 : class_count(), buffer, [&](double score) {
          return params_.softmax ? static_cast<float>(score) : logit_limit(score);
        });
  }

  profile::problem problem(threading policy) const {
    return {"postprocess_detr", params_.softmax ? "softmax" : "sigmoid",
            dtype_of(logits_),  {images(), queries_, logits_.cols()},
            isa_name(target_),  policy.threads(),
            bytes_of(logits_)};
  }

  index_t images() const { return sizes_.size(); }
  static index_t extras() { return 0; }
  static float extra(index_t, index_t, index_t) { return 0; }
  letterbox_transform transform(index_t image) const { return {1, 1, 0, 0, sizes_[image]}; }

  void collect(index_t image, postprocess_buffers::candidates& out, threading policy) const {
    const Matrix logits = part_of_rows(logits_, image * queries_, queries_);
    out.count = 0;
    if (logits.empty()) return;
    if (params_.softmax) return collect_softmax(image, logits, out);
    const filter_topk_result best =
        run_filter_topk(target_, logits, threshold_, params_.max_detections, out.search, policy,
                        score_kind::logits, class_limits_);
    set_candidates(out, best.elements.size());
    for (index_t i = 0; i < out.count; ++i)
      put(image, out, i, best.elements[i] / logits.cols(), best.elements[i] % logits.cols(),
          sigmoid_score(best.logits[i]));
  }

 private:
  /// Without softmax's "no object".
  index_t class_count() const {
    return std::max(index_t{0}, logits_.cols() - index_t{params_.softmax});
  }

  /// The class with the greatest logit of row q, without the last column, and its softmax. NaN if
  /// a logit is NaN or the greatest is infinite, and for quantised logits also if the softmax
  /// cannot be above the threshold.
  float best_softmax(const Matrix& logits, index_t q, index_t& label) const {
    const index_t cols = logits.cols();
    const auto logit = [&](index_t c) { return static_cast<float>(logits(q, c)); };
    if constexpr (is_quantised<Matrix>)
      if (!may_pass(logits.stored().row(q), logits)) return std::numeric_limits<float>::quiet_NaN();
    float greatest = logit(0);
    bool has_nan = false;
    for (index_t c = 0; c < cols; ++c) {
      const float x = logit(c);
      has_nan = has_nan || is_nan(x);
      if (x > greatest) greatest = x;
    }
    label = 0;
    if (has_nan || !is_finite(greatest)) return std::numeric_limits<float>::quiet_NaN();
    double sum = 0;
    for (index_t c = 0; c < cols; ++c) {
      const float x = logit(c);
      sum = rounded(sum + std::exp(static_cast<double>(x) - static_cast<double>(greatest)));
      if (c + 1 < cols && x > logit(label)) label = c;
    }
    const double best = static_cast<double>(logit(label));
    return static_cast<float>(quotient(std::exp(best - static_cast<double>(greatest)), sum));
  }

  /// Whether exp(best - greatest), which is divided by a sum of 1 or more, is above the threshold.
  template <class T>
  bool may_pass(const T* row, const Matrix& logits) const {
    T best = row[0];
    for (index_t c = 1; c + 1 < logits.cols(); ++c) best = row[c] > best ? row[c] : best;
    const T greatest = std::max(best, row[logits.cols() - 1]);
    const double most = std::exp(static_cast<double>(logits.number(best)) -
                                 static_cast<double>(logits.number(greatest)));
    return is_above(static_cast<float>(most), static_cast<float>(threshold_));
  }

  void collect_softmax(index_t image, const Matrix& logits,
                       postprocess_buffers::candidates& out) const {
    if (logits.cols() < 2) return;
    const auto threshold = static_cast<float>(threshold_);
    std::uint64_t* const order = grown(out.search.records, queries_);
    float* const scores = grown(out.search.logits, queries_);
    index_t* const labels = grown(out.search.elements, queries_);
    index_t count = 0;
    for (index_t q = 0; q < queries_; ++q) {
      scores[q] = best_softmax(logits, q, labels[q]);
      if (is_above(scores[q], threshold) &&
          (class_limits_ == nullptr || is_above(scores[q], class_limits_[labels[q]])))
        order[count++] = static_cast<std::uint64_t>(q);
    }
    sort_by_score(order, order + count, [&](index_t q) { return scores[q]; });
    set_candidates(out, std::min(count, params_.max_detections));
    for (index_t i = 0; i < out.count; ++i) {
      const auto q = static_cast<index_t>(order[i]);
      put(image, out, i, q, labels[q], scores[q]);
    }
  }

  void put(index_t image, postprocess_buffers::candidates& out, index_t at, index_t query,
           index_t label, float score) const {
    float four[4];
    for (int k = 0; k < 4; ++k) four[k] = static_cast<float>(boxes_(image * queries_ + query, k));
    put_candidate(out, at, box_format::cxcywh, four, label, score, query);
  }

  const isa target_;
  const Matrix& logits_;
  const Boxes& boxes_;
  vector_view<const image_size> sizes_;
  const postprocess_detr_params& params_;
  index_t queries_ = 0;
  double threshold_ = 0;
  const float* class_limits_ = nullptr;
};

/// postprocess_detr() of floats or of quantised numbers.
template <class Matrix, class Boxes>
detections_view run_postprocess_detr(const Matrix& logits, const Boxes& boxes,
                                     vector_view<const image_size> image_sizes,
                                     const postprocess_detr_params& params,
                                     postprocess_buffers& buffers, threading policy) {
  const isa target = active_isa();
  detr_call<Matrix, Boxes> call(target, logits, boxes, image_sizes, params);
  call.check_arguments();
  call.set_class_limits(buffers.class_limits);
  look_at_logits("postprocess_detr", "outputs.logits", logits);
  const profile::scope timing([&] { return call.problem(policy); });
  find_candidates(call, buffers, policy);
  return detections_from(call, buffers,
                         best_candidates(buffers, call.images(), params.max_detections),
                         {true, true, params.result_format});
}

}  // namespace detail

template <class T>
detections_view postprocess_detr(const detr_outputs<T>& outputs,
                                 vector_view<const image_size> image_sizes,
                                 const postprocess_detr_params& params,
                                 postprocess_workspace& workspace, threading policy) {
  const matrix_view<const T> boxes(outputs.boxes.data(), outputs.boxes.size(), 4);
  return detail::run_postprocess_detr(outputs.logits, boxes, image_sizes, params,
                                      detail::workspace_access::buffers(workspace), policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
