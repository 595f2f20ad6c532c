#include <vecdet/nms.hpp>

#include <vector>

int main() {
  const std::vector<float> boxes{0, 0, 10, 10, 1, 0, 11, 10}, scores{0.9f, 0.8f};
  const auto kept =
      vecdet::nms(vecdet::boxes_view<const float>(boxes), vecdet::vector_view<const float>(scores));
  return kept.size() == 1 ? 0 : 1;
}
