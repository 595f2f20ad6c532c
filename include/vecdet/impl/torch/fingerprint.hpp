// SPDX-License-Identifier: Apache-2.0
// A number by which changed values of a tensor are noticed.
//
// The values are hashed in two steps, with a key of random words. Each step is a universal hash:
// two inputs that differ get the same result only for few of all keys, however they differ. So no
// kind of change, such as flipped signs, is missed more often than others.
//
// 1. Blocks of 128 words w are reduced by NH, of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway:
//    UMAC: fast and secure message authentication, Crypto 1999): the sum of
//        (w[2i] + key[2i]) (w[2i+1] + key[2i+1]),
//    where a factor is modulo 2^64, and the sum is modulo 2^128. Two blocks that differ have equal
//    sums for at most one key of 2^64: if they differ in w[2i], the two factors with it differ for
//    every key, and at most one key[2i+1] makes up for the rest of the sums.
// 2. The sums, in three parts each, are the coefficients of a polynomial modulo the prime 2^61 - 1.
//    Two polynomials with n coefficients have equal values in at most n points of 2^61 - 1.
//
// The largest weights in use, 2048 x 2048 x 3 x 3, have 442,368 coefficients: a change is missed
// for fewer than one key in 10^12. The key is fixed, so that results are reproducible, and
// independent of all weights.
#pragma once

#include <vecdet/detail/target.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

class fingerprint_key {
 public:
  static const fingerprint_key& get() {
    static const fingerprint_key key;
    return key;
  }

  /// The fingerprint of `count` floats. Only those of equally many floats are comparable.
  std::uint64_t operator()(const float* data, std::size_t count) const {
    std::uint64_t value = 0;
    std::size_t i = 0;
    for (; i + block_floats <= count; i += block_floats) value = append(value, reduced(data + i));
    if (i < count) {
      std::array<float, block_floats> rest{};
      std::copy(data + i, data + count, rest.begin());
      value = append(value, reduced(rest.data()));
    }
    return value;
  }

 private:
  __extension__ using wide = unsigned __int128;
  static constexpr std::size_t block_words = 128, block_floats = 2 * block_words;
  static constexpr std::uint64_t prime = (std::uint64_t(1) << 61) - 1;

  fingerprint_key() {
    std::mt19937_64 random;  // the C++ standard defines its numbers
    std::generate(words_.begin(), words_.end(), random);
    point_ = random() % prime;
  }

  /// NH of a block.
  wide reduced(const float* block) const {
    wide sums[2] = {0, 0};  // two additions with carry at a time
    for (std::size_t i = 0; i < block_words; i += 4) {
      std::uint64_t w[4];
      std::memcpy(w, block + 2 * i, sizeof(w));
      sums[0] += wide(w[0] + words_[i]) * (w[1] + words_[i + 1]);
      sums[1] += wide(w[2] + words_[i + 2]) * (w[3] + words_[i + 3]);
    }
    return sums[0] + sums[1];
  }

  /// The value of the polynomial that has three more coefficients.
  std::uint64_t append(std::uint64_t value, wide sum) const {
    constexpr int part = 43;  // 3 x 43 bits hold 128
    for (int i = 0; i < 3; ++i, sum >>= part) {
      const wide next = wide(value) * point_ + (sum & ((wide(1) << part) - 1));
      // 2^61 is 1 modulo the prime.
      value = static_cast<std::uint64_t>(next & prime) + static_cast<std::uint64_t>(next >> 61);
      value = std::min(value, value - prime);
    }
    return value;
  }

  std::array<std::uint64_t, block_words> words_;
  std::uint64_t point_;
};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
