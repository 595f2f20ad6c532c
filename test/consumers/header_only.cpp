// SPDX-License-Identifier: Apache-2.0
// A unit of a dispatching program that uses only the headers, with its own flags.
#include <vecdet/profile.hpp>
#include <vecdet/vecdet.hpp>

#include <vector>

double loss_of_the_headers(const std::vector<float>& logits, const std::vector<int>& labels) {
  std::vector<float> grad(logits.size());
  const auto rows = static_cast<vecdet::index_t>(labels.size());
  return vecdet::sigmoid_focal_loss_and_grad(
      vecdet::matrix_view<const float>(logits.data(), rows, 3), labels, {grad.data(), rows, 3});
}
