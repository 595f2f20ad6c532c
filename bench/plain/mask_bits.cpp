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

namespace {

std::vector<std::int64_t> in_descending_score(const float* scores, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  return order;
}

}  // namespace

void plain_mask_nms(const std::uint64_t* bits, const float* scores, std::int64_t count,
                    std::int64_t words, double threshold, std::vector<std::int64_t>& areas,
                    std::vector<std::int64_t>& kept) {
  areas.resize(static_cast<std::size_t>(count));
  plain_mask_areas(bits, count, words, areas.data());
  kept.clear();
  for (const std::int64_t i : in_descending_score(scores, count)) {
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

void plain_group_masks(const std::uint64_t* bits, const float* scores, std::int64_t count,
                       std::int64_t words, double threshold, std::vector<std::int64_t>& areas,
                       std::vector<std::uint64_t>& whole, std::vector<std::int64_t>& owners) {
  areas.resize(static_cast<std::size_t>(count));
  plain_mask_areas(bits, count, words, areas.data());
  const std::vector<std::int64_t> order = in_descending_score(scores, count);
  owners.assign(static_cast<std::size_t>(count), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t first = order[i];
    if (owners[static_cast<std::size_t>(first)] >= 0) continue;
    owners[static_cast<std::size_t>(first)] = first;
    whole.assign(bits + first * words, bits + (first + 1) * words);
    std::vector<std::int64_t> taken{first};
    while (!taken.empty()) {
      taken.clear();
      std::int64_t area = 0;
      plain_mask_areas(whole.data(), 1, words, &area);
      for (std::size_t j = i + 1; j < order.size(); ++j) {
        const auto other = static_cast<std::size_t>(order[j]);
        if (owners[other] >= 0) continue;
        const std::uint64_t *a = whole.data(), *b = bits + order[j] * words;
        std::int64_t common = 0;
        for (std::int64_t w = 0; w < words; ++w) common += __builtin_popcountll(a[w] & b[w]);
        const std::int64_t all = area + areas[other] - common;
        if (!(static_cast<double>(common) >= threshold * static_cast<double>(all))) continue;
        owners[other] = first;
        taken.push_back(order[j]);
      }
      for (const std::int64_t k : taken)
        for (std::int64_t w = 0; w < words; ++w)
          whole[static_cast<std::size_t>(w)] |= bits[k * words + w];
    }
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
