// SPDX-License-Identifier: Apache-2.0
// Pictures with their boxes, from COCO's JSON or from a list of a VOC folder.
#pragma once

#include "options.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace detector {

/// x1 y1 x2 y2 in pixels of the picture.
using box = std::array<float, 4>;

struct object {
  box corners;
  std::int64_t label;  ///< index in dataset::classes
  /// A group of objects, COCO's iscrowd: nothing is trained on it, and evaluation neither asks for
  /// it nor counts what is found in it.
  bool crowd;
};

struct annotated_picture {
  std::string file;
  std::vector<object> objects;
  std::int64_t id = 0;  ///< COCO's, or the place in VOC's list
};

struct dataset {
  std::vector<std::string> classes;
  std::vector<std::int64_t> category_ids;  ///< of the classes: COCO's, or their places in VOC
  std::vector<annotated_picture> pictures;
  std::int64_t boxes = 0;  ///< of all pictures, without crowds
  /// For each box that was left out, since it has no area or a coordinate that is not a number: the
  /// picture or annotation, and the reason.
  std::vector<std::string> dropped;
};

/// Reads a data set. Its classes are `classes`, in their order, or where there are none, all that
/// the annotations name: COCO's by id, VOC's by name.
///
/// Throws std::runtime_error, with the file and the reason, when a file or folder is missing, the
/// annotations are in another format, a name is not UTF-8, a picture would lie outside of its
/// folder, two categories share a name or an id, an object is of another class, or there is no
/// picture or no box at all.
dataset read_dataset(const dataset_source& source, const std::vector<std::string>& classes = {});

}  // namespace detector
