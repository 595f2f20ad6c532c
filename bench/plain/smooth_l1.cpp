// SPDX-License-Identifier: Apache-2.0
#include "smooth_l1.hpp"

#include "terms.hpp"

#include <algorithm>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

template <plain_output O>
inline double box_loss(const float* predictions, const float* targets, float* out, std::int64_t i,
                       float beta) {
  double sum = 0;
  for (std::int64_t k = 4 * i; k < 4 * i + 4; ++k)
    sum += smooth_l1<O>(predictions[k] - targets[k], beta, out + k);
  return O == plain_output::loss ? 0 : sum;
}

}  // namespace

template <plain_output O>
double plain_smooth_l1(const float* predictions, const float* targets, float* out,
                       std::int64_t size, float beta) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const float loss = smooth_l1<O>(predictions[i] - targets[i], beta, out + i);
    if (O != plain_output::loss) sum += loss;
  }
  return sum;
}

template <plain_output O>
double plain_smooth_l1_labels(const float* predictions, const float* targets,
                              const std::int64_t* labels, float* out, std::int64_t count,
                              float beta) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (labels[i] >= 0)
      sum += box_loss<O>(predictions, targets, out, i, beta);
    else if (O != plain_output::sum)
      store({0, 0, 0, 0}, out, i);
  }
  return sum;
}

template <plain_output O>
double plain_smooth_l1_list(const float* predictions, const float* targets,
                            const std::int64_t* indices, std::int64_t selected, float* out,
                            std::int64_t count, float beta) {
  double sum = 0;
  if (O != plain_output::sum) std::fill(out, out + 4 * count, 0.0f);
  for (std::int64_t k = 0; k < selected; ++k)
    sum += box_loss<O>(predictions, targets, out, indices[k], beta);
  return sum;
}

#define VECDET_PLAIN_SMOOTH_L1(output)                                                            \
  template double plain_smooth_l1<output>(const float*, const float*, float*, std::int64_t,       \
                                          float);                                                 \
  template double plain_smooth_l1_labels<output>(const float*, const float*, const std::int64_t*, \
                                                 float*, std::int64_t, float);                    \
  template double plain_smooth_l1_list<output>(const float*, const float*, const std::int64_t*,   \
                                               std::int64_t, float*, std::int64_t, float);
VECDET_PLAIN_SMOOTH_L1(plain_output::sum)
VECDET_PLAIN_SMOOTH_L1(plain_output::loss)
VECDET_PLAIN_SMOOTH_L1(plain_output::grad)
#undef VECDET_PLAIN_SMOOTH_L1

}  // namespace vecdet::bench::VECDET_PLAIN_SET
