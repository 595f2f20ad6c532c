// SPDX-License-Identifier: Apache-2.0
// Golden vectors and recordings are not part of the project. They are read from the folder
// VECDET_TEST_DATA; a test whose file is missing reports this and passes.
#pragma once

#include "../../bench/support/npy.hpp"
#include "paths.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace vecdet::test {

using bench::load_npy;
using bench::npy_array;

/// Whether the file exists. If not, prints that `test` is skipped. Use it as
inline bool has_data(const std::string& relative, const std::string& test) {
  if (std::ifstream(data_path(relative))) return true;
  std::cout << "skipped: " << test << ": no file " << data_path(relative) << '\n';
  return false;
}

/// The golden vector `name` in the manifest.
template <class T>
npy_array<T> golden(const std::string& name) {
  return load_npy<T>(data_path("golden/" + name + ".npy"));
}

/// The same for the vectors of the other functions of a training step.
template <class T>
npy_array<T> golden_step(const std::string& name) {
  return load_npy<T>(data_path("golden_step/" + name + ".npy"));
}

/// The same for the vectors for transformers and convolutions.
template <class T>
npy_array<T> golden_network(const std::string& name) {
  return load_npy<T>(data_path("golden_network/" + name + ".npy"));
}

/// The largest difference, relative to the mean magnitude of the expected numbers.
template <class T>
double worst_of_mean(const std::vector<T>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0, sum = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(actual[i]) - expected[i]));
    sum += std::abs(expected[i]);
  }
  return worst * static_cast<double>(actual.size()) / sum;
}

}  // namespace vecdet::test
