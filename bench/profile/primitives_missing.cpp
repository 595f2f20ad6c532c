// SPDX-License-Identifier: Apache-2.0
// Stands in for primitives.hpp's functions without oneDNN.
#include "primitives.hpp"

#include <stdexcept>

namespace vecdet::profile {

std::string why_no_primitives() {
  return "vecdet-profile was built without oneDNN: install libdnnl-dev (Debian) or oneDNN 2.6 or "
         "newer, and build it again";
}

std::string primitives_version() { return "none"; }

int set_primitive_threads(int threads) { return threads; }

runnable_primitive make_primitive(const onednn_problem&) {
  throw std::runtime_error(why_no_primitives());
}

runnable_primitive make_convolution_within(const onednn_problem&, const surroundings&) {
  throw std::runtime_error(why_no_primitives());
}

}  // namespace vecdet::profile
