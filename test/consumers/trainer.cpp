// SPDX-License-Identifier: Apache-2.0
// The smallest user of vecdet: a focal loss whose value and gradient were worked out by hand from
// the paper's equation, one large enough to be added up from many chunks, and bad arguments, which
// -ffast-math must not hide. Prints the losses' bits and the instruction set in force.
#include <vecdet/vecdet.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <vector>

#ifdef HEADER_ONLY_TOO
double loss_of_the_headers(const std::vector<float>& logits, const std::vector<int>& labels);
#endif

double loss_of_many() {
  const int rows = 100000, classes = 20;
  std::vector<float> logits(std::size_t{rows} * classes);
  std::vector<int> labels(rows);
  int i = 0;
  for (float& x : logits) x = static_cast<float>(i++ % 2003 - 1500) / 256;  // exact by any flags
  for (int& label : labels) label = i++ % 30 == 0 ? i % classes : -1;
  return vecdet::sigmoid_focal_loss(vecdet::matrix_view<const float>(logits.data(), rows, classes),
                                    labels);
}

bool refuses_gamma(double gamma) {
  const std::vector<float> logits(3);
  vecdet::focal_loss_params params;
  params.gamma = gamma;
  try {
    vecdet::sigmoid_focal_loss(vecdet::matrix_view<const float>(logits.data(), 1, 3),
                               std::vector<int>{0}, params);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

int main() {
  const std::vector<float> logits{2, -1, 0.5f, 0, 0, 0, -3, 4, 1, 1, 1, 1};
  const std::vector<int> labels{0, -1, 1, -2};  // a class, background, a class, ignored
  std::vector<float> grad(logits.size());
  const double loss = vecdet::sigmoid_focal_loss_and_grad(
      vecdet::matrix_view<const float>(logits.data(), 4, 3), labels, {grad.data(), 4, 3});

  const double known_loss = 1.216883081494029;
  const double known_grad[] = {-0.0012177350488481945,
                               0.039435847483170465,
                               0.3946138664059373,
                               0.22371509635498976,
                               0.22371509635498976,
                               0.22371509635498976,
                               0.000236153884866211,
                               -4.337632805384432e-06,
                               0.5761760423994883,
                               0,
                               0,
                               0};
  bool right = std::abs(loss - known_loss) <= 1e-6;
  for (std::size_t i = 0; i < grad.size(); ++i) {
    right = right && std::abs(grad[i] - known_grad[i]) <= 1e-6 * std::abs(known_grad[i]);
  }
#ifdef HEADER_ONLY_TOO
  right = right && std::abs(loss_of_the_headers(logits, labels) - known_loss) <= 1e-6;
#endif
  right = right && refuses_gamma(std::numeric_limits<double>::infinity()) &&
          refuses_gamma(std::numeric_limits<double>::quiet_NaN());
  std::printf("%a %a %s\n", loss, loss_of_many(), vecdet::isa_name(vecdet::active_isa()));
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
