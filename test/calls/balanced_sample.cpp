// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/balanced_sample.hpp>

namespace vecdet::test {
namespace {

template <class Label>
struct sample_calls {
  placed<Label> labels;
  placed<index_t> offsets;
  balanced_sample_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{3, length}}; }
  static shape sized(index_t rows) { return {2, rows}; }

  sample_calls(operands& make, const problem& p)
      : labels(make.labels_as<Label>(p.exact_count(p.shape[1], sizeof(Label)), 20)),
        offsets(make.offsets(p.shape[0], static_cast<index_t>(labels.size()))) {}

  void list(call_list& c) {
    add(c, "", {});
    balanced_sample_params few;
    few.size = 20;
    few.seed = 5;
    add(c, "/few", few);
  }
  void add(call_list& c, const std::string& options, const balanced_sample_params& params) {
    c.add("sample_balanced/" + options, reads(labels, offsets), [this, params](threading policy) {
      const auto sample = sample_balanced(labels, offsets, params, workspace, policy);
      return std::make_tuple(sample.indices, sample.offsets, sample.positives);
    });
  }
};

template <class Label>
struct count_calls {
  placed<Label> labels;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  count_calls(operands& make, const problem& p) : labels(make.labels_as<Label>(p.shape[0], 20)) {}

  void list(call_list& c) {
    c.add("count_foreground/", reads(labels),
          [this](threading) { return count_foreground(labels_view(labels)); });
  }
};

const registered_family registered[] = {
    calls_of<sample_calls, index_t, std::int32_t>("balanced_sample"),
    calls_of<count_calls, index_t, std::int32_t>("labels"),
};

}  // namespace
}  // namespace vecdet::test
