// SPDX-License-Identifier: Apache-2.0
// The image of the gate's problems, for every revision.
#pragma once

#include <vecdet/box_format.hpp>

namespace vecdet::gate {

/// Set member by member: revisions before 0.3 have no factory.
inline image_size square_image(double side) {
  image_size image;
  image.height = image.width = side;
  return image;
}

}  // namespace vecdet::gate
