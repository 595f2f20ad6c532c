// SPDX-License-Identifier: Apache-2.0
#include "batch_norm.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

struct norm_maps {
  std::int64_t images, channels, locations;
  bool channels_last;
  std::size_t count() const { return static_cast<std::size_t>(channels); }
};

/// Calls visit(i, c) for every number i of every channel c.
template <class Visit>
inline void for_each_number(const norm_maps& m, const Visit& visit) {
  if (m.channels_last) {
    for (std::int64_t l = 0; l < m.images * m.locations; ++l)
      for (std::int64_t c = 0; c < m.channels; ++c) visit(l * m.channels + c, c);
  } else {
    for (std::int64_t n = 0; n < m.images; ++n)
      for (std::int64_t c = 0; c < m.channels; ++c)
        for (std::int64_t l = 0; l < m.locations; ++l)
          visit((n * m.channels + c) * m.locations + l, c);
  }
}

/// The sums of a(i, c) and b(i, c) of each channel.
template <class A, class B>
inline void add_up(const norm_maps& m, const A& a, const B& b, float* sums, float* others) {
  if (m.channels_last) {
    for_each_number(m, [&](std::int64_t i, std::int64_t c) {
      sums[c] += a(i, c);
      others[c] += b(i, c);
    });
    return;
  }
  for (std::int64_t n = 0; n < m.images; ++n)
    for (std::int64_t c = 0; c < m.channels; ++c) {
      float sum = 0, other = 0;
      for (std::int64_t l = 0; l < m.locations; ++l) {
        const std::int64_t i = (n * m.channels + c) * m.locations + l;
        sum += a(i, c);
        other += b(i, c);
      }
      sums[c] += sum;
      others[c] += other;
    }
}

inline float sigmoid(float z) { return 1 / (1 + std::exp(-z)); }

}  // namespace

void plain_batch_norm_silu(const float* input, const float* weight, const float* bias,
                           std::int64_t images, std::int64_t channels, std::int64_t locations,
                           bool channels_last, float epsilon, float* output) {
  const norm_maps m{images, channels, locations, channels_last};
  const float count = static_cast<float>(images * locations);
  std::vector<float> scale(m.count()), shift(m.count());
  add_up(
      m, [&](std::int64_t i, std::int64_t) { return input[i]; },
      [&](std::int64_t i, std::int64_t) { return input[i] * input[i]; }, shift.data(),
      scale.data());
  for (std::size_t c = 0; c < m.count(); ++c) {
    const float mean = shift[c] / count;
    scale[c] = weight[c] / std::sqrt(scale[c] / count - mean * mean + epsilon);
    shift[c] = bias[c] - mean * scale[c];
  }
  const float *const factor = scale.data(), *const term = shift.data();
  for_each_number(m, [&](std::int64_t i, std::int64_t c) {
    const float z = input[i] * factor[c] + term[c];
    output[i] = z * sigmoid(z);
  });
}

void plain_batch_norm_silu_grad(const float* upstream, const float* input, const float* weight,
                                const float* bias, std::int64_t images, std::int64_t channels,
                                std::int64_t locations, bool channels_last,
                                const double* statistics, float epsilon, float* grad) {
  const norm_maps m{images, channels, locations, channels_last};
  const float count = static_cast<float>(images * locations);
  std::vector<float> means(m.count()), inverses(m.count()), sums(m.count()), products(m.count());
  for (std::size_t c = 0; c < m.count(); ++c) {
    means[c] = static_cast<float>(statistics[c]);
    inverses[c] = 1 / std::sqrt(static_cast<float>(statistics[m.count() + c]) + epsilon);
  }
  const float *const mean = means.data(), *const inverse = inverses.data();
  const auto normal = [&](std::int64_t i, std::int64_t c) {
    return (input[i] - mean[c]) * inverse[c];
  };
  const auto arriving = [&](std::int64_t i, std::int64_t c) {
    const float z = normal(i, c) * weight[c] + bias[c], s = sigmoid(z);
    return upstream[i] * s * (1 + z * (1 - s));
  };
  add_up(
      m, arriving, [&](std::int64_t i, std::int64_t c) { return arriving(i, c) * normal(i, c); },
      sums.data(), products.data());
  const float *const sum = sums.data(), *const product = products.data();
  for_each_number(m, [&](std::int64_t i, std::int64_t c) {
    grad[i] =
        weight[c] * inverse[c] * (arriving(i, c) - (sum[c] + normal(i, c) * product[c]) / count);
  });
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
