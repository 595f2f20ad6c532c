// SPDX-License-Identifier: Apache-2.0
// Prefix beam search of CTC in plain scalar double: Hannun et al., arXiv 1408.2873.
#pragma once

#include <vecdet/reference/ctc_loss.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

struct ctc_beam {
  std::vector<index_t> classes;
  double by_blank, by_class;  ///< logarithms
  double all() const { return log_add(by_blank, by_class); }
};

/// The beam after the last step of one sample, of log probabilities log_p(t, c). In a step, only
/// the `most_classes` (1 or more) most probable classes beside the blank, of at least log_least,
/// are tried. `margin` receives the least difference that decided whether a class was tried or a
/// prefix was kept: if it is tiny, rounding may decide otherwise.
template <class LogProbability>
std::vector<ctc_beam> ctc_beams(const LogProbability& log_p, index_t steps, index_t classes,
                                index_t blank, index_t width, index_t most_classes,
                                double log_least, double* margin = nullptr) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  if (margin != nullptr) *margin = std::numeric_limits<double>::infinity();
  std::vector<ctc_beam> beams{{{}, 0, none}};
  for (index_t t = 0; t < steps; ++t) {
    std::vector<index_t> tried;
    for (index_t c = 0; c < classes; ++c)
      if (c != blank && log_p(t, c) >= log_least) tried.push_back(c);
    std::stable_sort(tried.begin(), tried.end(),
                     [&](index_t a, index_t b) { return log_p(t, a) > log_p(t, b); });
    if (static_cast<index_t>(tried.size()) > most_classes) {
      const auto last = tried.begin() + most_classes;
      if (margin != nullptr) *margin = std::min(*margin, log_p(t, last[-1]) - log_p(t, *last));
      tried.erase(last, tried.end());
    }
    // All candidates: the prefixes themselves, then longer ones.
    std::vector<ctc_beam> next = beams;
    std::map<std::vector<index_t>, std::size_t> found;
    for (ctc_beam& beam : next) {
      beam.by_blank = beam.by_class = none;
      found.emplace(beam.classes, found.size());
    }
    for (std::size_t k = 0; k < beams.size(); ++k) {
      const ctc_beam& beam = beams[k];
      next[k].by_blank = log_add(next[k].by_blank, log_p(t, blank) + beam.all());
      for (const index_t c : tried) {
        const bool repeats = !beam.classes.empty() && beam.classes.back() == c;
        if (repeats) next[k].by_class = log_add(next[k].by_class, log_p(t, c) + beam.by_class);
        std::vector<index_t> longer = beam.classes;
        longer.push_back(c);
        const auto at = found.emplace(longer, next.size());
        if (at.second) next.push_back({longer, none, none});
        double& by_class = next[at.first->second].by_class;
        by_class = log_add(by_class, log_p(t, c) + (repeats ? beam.by_blank : beam.all()));
      }
    }
    next.erase(std::remove_if(next.begin(), next.end(),
                              [](const ctc_beam& beam) { return !(beam.all() > none); }),
               next.end());
    std::stable_sort(next.begin(), next.end(),
                     [](const ctc_beam& a, const ctc_beam& b) { return a.all() > b.all(); });
    if (static_cast<index_t>(next.size()) > width) {
      const auto kept = static_cast<std::size_t>(width);
      if (margin != nullptr) *margin = std::min(*margin, next[kept - 1].all() - next[kept].all());
      next.resize(kept);
    }
    beams = std::move(next);
  }
  return beams;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
