// SPDX-License-Identifier: Apache-2.0
// Golden vectors and real recordings are not part of the project: they are read from the folder
// VECDET_TEST_DATA, and a test that needs a file which is not there says so and passes.
#pragma once

#include "../../bench/support/npy.hpp"

#include <fstream>
#include <iostream>
#include <string>

#ifndef VECDET_TEST_DATA
#error "VECDET_TEST_DATA must name the folder of test data, which need not exist"
#endif

namespace vecdet {
namespace test {

using bench::load_npy;
using bench::npy_array;

/// The path of a file below the data folder, whether it exists or not.
inline std::string data_path(const std::string& relative) {
  return std::string(VECDET_TEST_DATA) + "/" + relative;
}

/// Whether the file is there. If not, prints that `test` is skipped. Use it as
/// `if (!has_data("golden/iou.npy", "pairwise IoU")) return;`
inline bool has_data(const std::string& relative, const std::string& test) {
  if (std::ifstream(data_path(relative))) return true;
  std::cout << "skipped: " << test << ": no file " << data_path(relative) << '\n';
  return false;
}

/// The golden vector `name`, as in the manifest beside the vectors.
template <class T>
npy_array<T> golden(const std::string& name) {
  return load_npy<T>(data_path("golden/" + name + ".npy"));
}

/// The same of the vectors for the rest of a training step.
template <class T>
npy_array<T> golden_step(const std::string& name) {
  return load_npy<T>(data_path("golden_step/" + name + ".npy"));
}

}  // namespace test
}  // namespace vecdet
