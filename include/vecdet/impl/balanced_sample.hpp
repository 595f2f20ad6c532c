// SPDX-License-Identifier: Apache-2.0
// The function of balanced_sample.hpp.
#pragma once

#include <vecdet/balanced_sample.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
class split_mix {
 public:
  split_mix(std::uint64_t seed, std::uint64_t stream) : state_(mixed(seed) ^ mixed(~stream)) {}

  /// In [0, 1), a multiple of 2^-53.
  double operator()() {
    return static_cast<double>(mixed(state_ += 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
  }

 private:
  static std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

/// Draws `size` of `candidates` candidates, which are presented one by one (algorithm S).
class subset {
 public:
  subset(index_t candidates, index_t size, const split_mix& random)
      : left_(candidates), wanted_(size), random_(random) {}

  /// Decides whether the next candidate belongs to the subset.
  bool takes_next() {
    if (wanted_ == 0) return false;
    const bool takes = random_() * static_cast<double>(left_--) < static_cast<double>(wanted_);
    wanted_ -= takes;
    return takes;
  }

 private:
  index_t left_, wanted_;
  split_mix random_;
};

}  // namespace detail

inline balanced_sample sample_balanced(labels_view labels, vector_view<const index_t> image_offsets,
                                       const balanced_sample_params& params,
                                       balanced_sample_workspace& workspace, threading policy) {
  constexpr const char* function = "sample_balanced";
  detail::check(params.size >= 0, function, "params.size", params.size, "0 or more");
  detail::check(detail::is_within(params.positive_share, 0, 1), function, "params.positive_share",
                params.positive_share, "a number in [0, 1]");
  const index_t images = std::max(index_t{0}, image_offsets.size() - 1);
  detail::check(!image_offsets.empty(), function, "image_offsets.size()", image_offsets.size(),
                "1 or more");
  detail::check_offsets(function, "image_offsets", image_offsets, labels.size(),
                        "the number of labels");
  const profile::scope timing([&] {
    return profile::problem{function,
                            nullptr,
                            detail::labels_access::are_wide(labels) ? "i64" : "i32",
                            {images, profile::rounded_count(labels.size())},
                            isa_name(active_isa()),
                            policy.threads(),
                            labels.size() * (detail::labels_access::are_wide(labels) ? 8 : 4)};
  });

  auto& buffers = detail::workspace_access::buffers(workspace);
  index_t* const offsets = detail::grown(buffers.offsets, images + 1);
  index_t* const positives = detail::grown(buffers.positives, images);
  index_t* const per_kind = detail::grown(buffers.counts, 2 * images);
  const detail::chunking chunks(images, 1);
  const auto with_kind = [&](index_t image, const auto& use) {
    detail::with_bits(labels, [&](auto bits) {
      using value = decltype(bits[0]);
      const bool has_background = labels.can_be(params.background);
      const bool has_ignore = labels.can_be(params.ignore);
      for (index_t i = image_offsets[image]; i < image_offsets[image + 1]; ++i) {
        const value label = bits[i];
        if (has_ignore && label == static_cast<value>(params.ignore)) continue;
        use(i, has_background && label == static_cast<value>(params.background));
      }
    });
  };
  detail::for_each_chunk(policy, chunks, [&](index_t, index_t first, index_t last) {
    for (index_t k = first; k < last; ++k) {
      index_t found[2] = {};
      with_kind(k, [&](index_t, bool is_negative) { ++found[is_negative ? 1 : 0]; });
      std::copy_n(found, 2, per_kind + 2 * k);
    }
  });
  // Limited to the number of labels, so that the product fits index_t.
  const auto most = static_cast<index_t>(
      std::min(std::floor(static_cast<double>(params.size) * params.positive_share),
               static_cast<double>(labels.size())));
  offsets[0] = 0;
  for (index_t k = 0; k < images; ++k) {
    positives[k] = std::min(per_kind[2 * k], most);
    offsets[k + 1] =
        offsets[k] + positives[k] + std::min(per_kind[2 * k + 1], params.size - positives[k]);
  }
  index_t* const indices = detail::grown(buffers.indices, offsets[images]);
  detail::for_each_chunk(policy, chunks, [&](index_t, index_t first, index_t last) {
    for (index_t k = first; k < last; ++k) {
      const auto stream = 2 * static_cast<std::uint64_t>(k);
      index_t* positive = indices + offsets[k];
      index_t* negative = positive + positives[k];
      detail::subset chosen_positives(per_kind[2 * k], positives[k], {params.seed, stream});
      detail::subset chosen_negatives(per_kind[2 * k + 1],
                                      offsets[k + 1] - offsets[k] - positives[k],
                                      {params.seed, stream + 1});
      with_kind(k, [&](index_t i, bool is_negative) {
        if ((is_negative ? chosen_negatives : chosen_positives).takes_next())
          *(is_negative ? negative : positive)++ = i;
      });
    }
  });
  return {{indices, offsets[images]}, {offsets, images + 1}, {positives, images}};
}

}  // namespace VECDET_ABI
}  // namespace vecdet
