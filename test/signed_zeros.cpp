// SPDX-License-Identifier: Apache-2.0
// The headers alone under -funsafe-math-optimizations: scores of 0 and -0 are equal, so ties are
// broken by index.
#include <vecdet/nms.hpp>

#include <cstdio>
#include <vector>

int main() {
  std::vector<float> boxes, scores;
  std::vector<vecdet::index_t> expected;
  for (int i = 0; i < 40; ++i) {
    const auto x = static_cast<float>(20 * i);
    boxes.insert(boxes.end(), {x, 0, x + 10, 10});
    scores.push_back(i % 2 == 0 ? -0.0f : 0.0f);
    expected.push_back(i);
  }
  const bool is_right = vecdet::nms(boxes, scores, 0.5) == expected;
  std::printf("signed zeros: %s\n", is_right ? "equal" : "different");
  return is_right ? 0 : 1;
}
