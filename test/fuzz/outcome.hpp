// SPDX-License-Identifier: Apache-2.0
// What a call returns, bit by bit, or its error.
#pragma once

#include <vecdet/detections_view.hpp>
#include <vecdet/views.hpp>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace vecdet::fuzz {

/// The bits of what a call returns, or its error.
struct outcome {
  std::string error;
  std::vector<float> floats;
  std::vector<index_t> integers;

  void add(vector_view<const float> list) { floats.insert(floats.end(), list.begin(), list.end()); }
  void add(vector_view<const index_t> list) {
    integers.insert(integers.end(), list.begin(), list.end());
  }
  bool operator==(const outcome& other) const {
    return error == other.error && integers == other.integers &&
           floats.size() == other.floats.size() &&
           (floats.empty() ||
            std::memcmp(floats.data(), other.floats.data(), floats.size() * sizeof(float)) == 0);
  }
};

/// What call(outcome) adds, or its error.
template <class Call>
outcome outcome_of(const Call& call) {
  outcome result;
  try {
    call(result);
  } catch (const std::invalid_argument& error) {
    result.error = error.what();
  }
  return result;
}

inline void add_detections(outcome& to, const detections_view& found) {
  to.add({found.boxes.data(), 4 * found.boxes.size()});
  to.add(found.scores);
  to.add({found.extras.data(), found.extras.size()});
  to.add(found.labels);
  to.add(found.sources);
  to.add(found.offsets);
}

}  // namespace vecdet::fuzz
