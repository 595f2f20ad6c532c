// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vecdet/detections_view.hpp>

#include <tuple>

namespace vecdet::test {

/// What the catalogue compares of detections.
inline auto parts(const detections_view& found) {
  return std::make_tuple(found.boxes, found.scores, found.labels, found.offsets);
}

}  // namespace vecdet::test
