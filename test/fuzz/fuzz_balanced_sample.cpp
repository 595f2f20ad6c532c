// SPDX-License-Identifier: Apache-2.0
// Balanced samples for any labels, images and sizes: the documented number of each kind, ascending
// and without duplicates; independent of the labels' representation and the number of threads. An
// image's sample does not depend on the other images.
#include "fuzz_input.hpp"
#include "support/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace vecdet;

namespace {

struct sample {
  std::vector<index_t> indices, offsets, positives;

  bool operator==(const sample& other) const {
    return indices == other.indices && offsets == other.offsets && positives == other.positives;
  }
};

sample drawn(labels_view labels, vector_view<const index_t> offsets,
             const balanced_sample_params& params, threading policy) {
  balanced_sample_workspace workspace;
  const balanced_sample of = sample_balanced(labels, offsets, params, workspace, policy);
  return {{of.indices.begin(), of.indices.end()},
          {of.offsets.begin(), of.offsets.end()},
          {of.positives.begin(), of.positives.end()}};
}

/// The expected numbers of positives and negatives in an image's sample.
struct numbers {
  index_t positives = 0, negatives = 0;

  numbers(const index_t* labels, index_t count, const balanced_sample_params& params) {
    for (index_t i = 0; i < count; ++i) {
      positives += labels[i] != params.background && labels[i] != params.ignore;
      negatives += labels[i] == params.background && labels[i] != params.ignore;
    }
    const double most = std::floor(static_cast<double>(params.size) * params.positive_share);
    if (static_cast<double>(positives) > most) positives = static_cast<index_t>(most);
    negatives = std::min(negatives, params.size - positives);
  }
};

void check_image(const fuzz::tensor<index_t>& labels, const fuzz::tensor<index_t>& images,
                 index_t image, const balanced_sample_params& params, const sample& of) {
  const auto k = static_cast<std::size_t>(image);
  const index_t first = images[k], last = images[k + 1];
  const numbers expected(labels.data() + first, last - first, params);
  if (of.positives[k] != expected.positives) fuzz::fail("wrong number of positives");
  if (of.offsets[k + 1] - of.offsets[k] != expected.positives + expected.negatives)
    fuzz::fail("wrong number of negatives");
  const index_t negatives = of.offsets[k] + of.positives[k];
  for (index_t i = of.offsets[k]; i < of.offsets[k + 1]; ++i) {
    const index_t at = of.indices[static_cast<std::size_t>(i)];
    if (at < first || at >= last) fuzz::fail("an index of another image");
    const index_t label = labels[static_cast<std::size_t>(at)];
    if (label == params.ignore || (label == params.background) != (i >= negatives))
      fuzz::fail("an index of the wrong kind");
    if (i > of.offsets[k] && i != negatives && of.indices[static_cast<std::size_t>(i - 1)] >= at)
      fuzz::fail("indices do not ascend");
  }
}

/// The sample of one image when the other images' labels are ignored.
void check_alone(const fuzz::tensor<index_t>& labels, const fuzz::tensor<index_t>& images,
                 index_t image, const balanced_sample_params& params, const sample& of) {
  const auto k = static_cast<std::size_t>(image);
  const fuzz::tensor<index_t> others(labels.size());
  std::fill(others.begin(), others.end(), params.ignore);
  std::copy(labels.begin() + images[k], labels.begin() + images[k + 1], others.begin() + images[k]);
  const sample alone = drawn(others, images, params, threading::parallel);
  if (!std::equal(alone.indices.begin(), alone.indices.end(), of.indices.begin() + of.offsets[k],
                  of.indices.begin() + of.offsets[k + 1]))
    fuzz::fail("an image's sample depends on the others");
}

}  // namespace

void fuzz::target(input& in) {
  balanced_sample_params params;
  params.size = in.one_of<index_t>({256, 0, 1, in.integer(0, 40), no_limit, -1});
  params.positive_share = in.one_of({0.5, 0.25, 0.0, 1.0, in.tame(0, 1), std::nan(""), 1.5});
  params.seed = in.bits<std::uint64_t>();
  const bool is_other = in.flag();
  if (is_other) {
    params.background = other_background;
    params.ignore = other_ignore;
  }
  std::vector<index_t> offsets{0};
  for (index_t left = in.integer(0, 5); left > 0; --left)
    offsets.push_back(offsets.back() + in.one_of<index_t>({in.integer(0, 90), 0, 1, 400}));
  const int positive = in.byte(), ignored = in.byte();
  std::vector<index_t> named;
  test::random_generator random(in.bits<std::uint64_t>());
  for (index_t i = 0; i < offsets.back(); ++i)
    named.push_back(random.below(256) < positive  ? random.below(80)
                    : random.below(256) < ignored ? -2
                                                  : -1);
  const tensor<std::int32_t> narrow = renamed(named);
  for (index_t& label : named)
    if (is_other && label < 0) label = label == -1 ? other_background : other_ignore;
  const tensor<index_t> labels(named), images(offsets);
  on_every_isa("balanced sample", [&](results& all) {
    const sample of = drawn(labels, images, params, threading::sequential);
    if (!(drawn(labels, images, params, threading::parallel) == of))
      fail("a balanced sample depends on threads");
    balanced_sample_params narrow_params = params;
    narrow_params.background = other_background;
    narrow_params.ignore = other_ignore;
    if (!(drawn(narrow, images, narrow_params, threading::parallel) == of))
      fail("a balanced sample depends on the representation of labels");
    for (index_t k = 0; k + 1 < images.size(); ++k) {
      check_image(labels, images, k, params, of);
      check_alone(labels, images, k, params, of);
    }
    for (const index_t i : of.indices) all.add(static_cast<double>(i));
  });
}
