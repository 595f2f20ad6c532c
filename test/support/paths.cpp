// SPDX-License-Identifier: Apache-2.0
#include "paths.hpp"

#include <string>

namespace vecdet::test {

std::string source_path(const std::string& relative) { return VECDET_SOURCE_DIR "/" + relative; }

std::string data_path(const std::string& relative) { return VECDET_TEST_DATA "/" + relative; }

}  // namespace vecdet::test
