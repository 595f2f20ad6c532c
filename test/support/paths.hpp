// SPDX-License-Identifier: Apache-2.0
// Paths of files that tests read. Only paths.cpp contains the folders: the other objects are the
// same in each clone and build tree, so that ccache shares them.
#pragma once

#include <string>

namespace vecdet::test {

/// The path of a file of vecdet's source tree, such as test/data/profile.json.
std::string source_path(const std::string& relative);

/// The path of a file below the folder VECDET_TEST_DATA; the file need not exist.
std::string data_path(const std::string& relative);

}  // namespace vecdet::test
