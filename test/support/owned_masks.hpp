// SPDX-License-Identifier: Apache-2.0
// Masks that outlive the workspace that they were made in, and what must hold for them on every
// instruction set.
#pragma once

#include "isa.hpp"
#include <vecdet/masks_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

namespace vecdet::test {

struct owned_masks {
  std::vector<index_t> boxes, offsets;
  std::vector<std::uint8_t> pixels;
  mask_pixels kind;

  explicit owned_masks(const masks_view& found)
      : boxes(found.boxes.data(), found.boxes.data() + 4 * found.boxes.size()),
        offsets(found.offsets.begin(), found.offsets.end()),
        pixels(found.pixels.begin(), found.pixels.end()),
        kind(found.kind) {}
  masks_view view() const {
    return {boxes_view<const index_t>(boxes.data(), boxes.size() / 4),
            vector_view<const index_t>(offsets), vector_view<const std::uint8_t>(pixels), kind};
  }
  bool operator==(const owned_masks& other) const {
    return boxes == other.boxes && offsets == other.offsets && pixels == other.pixels;
  }
};

/// Checks the masks that run(policy) returns on every instruction set by check(masks). Threads must
/// not change them, and AVX2 and AVX-512 must agree.
template <class Run, class Check>
void check_masks(const Run& run, const Check& check) {
  std::vector<owned_masks> fused;
  for_each_isa([&](isa set) {
    const owned_masks found(run(threading::sequential));
    check(found.view());
    tbb::task_arena arena(3);
    arena.execute([&] { CHECK((owned_masks(run(threading::parallel)) == found)); });
    if (set == isa::baseline) return;
    if (!fused.empty()) CHECK((found == fused[0]));
    fused = {found};
  });
}

}  // namespace vecdet::test
