// SPDX-License-Identifier: Apache-2.0
#include "mask_bits.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace vecdet::bench::VECDET_PLAIN_SET {

void plain_mask_areas(const std::uint64_t* bits, std::int64_t count, std::int64_t words,
                      std::int64_t* areas) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t area = 0;
    for (std::int64_t k = 0; k < words; ++k) area += __builtin_popcountll(bits[i * words + k]);
    areas[i] = area;
  }
}

void plain_bits_iou(const std::uint64_t* bits, std::int64_t count, std::int64_t words,
                    std::vector<std::int64_t>& areas, double* ious) {
  areas.resize(static_cast<std::size_t>(count));
  plain_mask_areas(bits, count, words, areas.data());
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t k = i; k < count; ++k) {
      const std::uint64_t *a = bits + i * words, *b = bits + k * words;
      std::int64_t common = 0;
      for (std::int64_t w = 0; w < words; ++w) common += __builtin_popcountll(a[w] & b[w]);
      const std::int64_t all =
          areas[static_cast<std::size_t>(i)] + areas[static_cast<std::size_t>(k)] - common;
      const double iou = common == 0 ? 0 : static_cast<double>(common) / static_cast<double>(all);
      ious[i * count + k] = ious[k * count + i] = iou;
    }
}

void plain_mask_nms(const std::uint64_t* bits, const float* scores, std::int64_t count,
                    std::int64_t words, double threshold, std::vector<std::int64_t>& areas,
                    std::vector<std::int64_t>& kept) {
  areas.resize(static_cast<std::size_t>(count));
  plain_mask_areas(bits, count, words, areas.data());
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  kept.clear();
  for (const std::int64_t i : order) {
    bool is_kept = true;
    for (std::size_t k = 0; k < kept.size() && is_kept; ++k) {
      const std::uint64_t *a = bits + i * words, *b = bits + kept[k] * words;
      std::int64_t common = 0;
      for (std::int64_t w = 0; w < words; ++w) common += __builtin_popcountll(a[w] & b[w]);
      const std::int64_t all =
          areas[static_cast<std::size_t>(i)] + areas[static_cast<std::size_t>(kept[k])] - common;
      is_kept = !(static_cast<double>(common) > threshold * static_cast<double>(all));
    }
    if (is_kept) kept.push_back(i);
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
