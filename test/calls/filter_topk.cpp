// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/filter_topk.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct filter_topk_calls {
  placed<index_t> labels;
  placed_matrix<T> logits;
  double threshold, probability;
  filter_topk_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{1 + length / 7, length}, {length, 7}, {1 + length / 7, 91}};
  }
  static shape sized(index_t rows) { return {rows, 20}; }
  static bool takes(const problem& p) {
    const auto is_score = [&](const char* prefix) {
      return score_of(prefix, p) >= 0 && score_of(prefix, p) <= 1;
    };
    return is_score("threshold") && is_score("probability");
  }
  static double score_of(const char* prefix, const problem& p) {
    return number_after<double>(prefix, p.variant, 0.05);
  }

  filter_topk_calls(operands& make, const problem& p)
      : labels(make.labels(p.shape[0], p.shape[1])),
        logits(make.logits<T>(labels, p.shape[1])),
        threshold(score_of("threshold", p)),
        probability(score_of("probability", p)) {}

  void list(call_list& c) {
    add(c, text_of("threshold", threshold), threshold, score_kind::logits);
    add(c, text_of("probability", probability), probability, score_kind::probabilities);
  }

  void add(call_list& c, const std::string& variant, double score, score_kind kind) {
    add(c, "filter_topk/" + variant, 1000, score, kind);
    add(c, "filter_topk/" + variant + "/half", 1 + logits.rows / 2, score, kind);
  }
  void add(call_list& c, const std::string& name, index_t k, double score, score_kind kind) {
    c.add(name, reads(logits), [this, score, k, kind](threading policy) {
      const auto found = filter_topk(logits.in(), score, k, workspace, policy, kind);
      return std::make_tuple(found.elements, found.logits);
    });
  }
};

template <class T>
struct level_calls {
  head_sizes sizes;
  placed<index_t> labels;
  placed_head<T> nhwc, nchw;
  filter_topk_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, 2 * (length + 6), 3}}; }
  static shape sized(index_t rows) { return {2, rows / 4 * 2, 20}; }

  level_calls(operands& make, const problem& p)
      : sizes(make.head(p.shape[0], p.shape[1])),
        labels(make.labels(p.shape[0] * p.shape[1], p.shape[2])),
        nhwc(make.logits_head<T>(sizes, labels, p.shape[2], head_layout::nhwc)),
        nchw(make.logits_head<T>(sizes, labels, p.shape[2], head_layout::nchw)) {}

  void list(call_list& c) {
    add(c, "filter_topk/levels", nhwc);
    add(c, "filter_topk/nchw", nchw);
  }

  void add(call_list& c, const std::string& name, const placed_head<T>& logits) {
    c.add(name, reads(logits), [&logits, this](threading policy) {
      const auto found = filter_topk(logits.in(), 0.05, 1000, workspace, policy);
      return std::make_tuple(found.elements, found.logits, found.offsets);
    });
  }
};

const registered_family registered[] = {
    calls_of<filter_topk_calls, float, bfloat16>("filter_topk"),
    calls_of<level_calls, float, bfloat16>("filter_topk/levels"),
};

}  // namespace
}  // namespace vecdet::test
