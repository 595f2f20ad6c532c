// SPDX-License-Identifier: Apache-2.0
#include "run_lengths.hpp"

#include <algorithm>

namespace vecdet::bench::VECDET_PLAIN_SET {

void plain_encode_masks(const std::uint8_t* pixels, std::int64_t count, std::int64_t size,
                        std::vector<std::uint32_t>& counts) {
  counts.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* const own = pixels + i * size;
    std::uint8_t before = 0;
    std::uint32_t run = 0;
    for (std::int64_t k = 0; k < size; ++k) {
      if (own[k] != before) {
        counts.push_back(run);
        run = 0;
        before = own[k];
      }
      ++run;
    }
    counts.push_back(run);
  }
}

void plain_mask_iou(const std::uint32_t* counts, const std::int64_t* offsets, std::int64_t count,
                    double* ious) {
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < count; ++j) {
      const std::uint32_t *a = counts + offsets[i], *const a_end = counts + offsets[i + 1];
      const std::uint32_t *b = counts + offsets[j], *const b_end = counts + offsets[j + 1];
      std::uint32_t left_a = *a++, left_b = *b++;
      bool in_a = false, in_b = false;
      std::int64_t common = 0, all = 0;
      for (;;) {
        const std::uint32_t step = std::min(left_a, left_b);
        if (in_a || in_b) all += step;
        if (in_a && in_b) common += step;
        left_a -= step;
        left_b -= step;
        const bool a_ends = left_a == 0 && a == a_end, b_ends = left_b == 0 && b == b_end;
        if (a_ends && b_ends) break;
        if (left_a == 0 && !a_ends) {
          left_a = *a++;
          in_a = !in_a;
        }
        if (left_b == 0 && !b_ends) {
          left_b = *b++;
          in_b = !in_b;
        }
      }
      ious[i * count + j] =
          common == 0 ? 0 : static_cast<double>(common) / static_cast<double>(all);
    }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
