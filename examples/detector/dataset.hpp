// SPDX-License-Identifier: Apache-2.0
// Pictures with their boxes, from a COCO JSON file or from a list in a VOC folder.
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
  /// A group of objects, COCO's iscrowd. It is not used for training, and evaluation neither
  /// expects it to be found nor counts detections in it.
  bool crowd;
};

struct annotated_picture {
  std::string file;
  std::vector<object> objects;
  std::int64_t id = 0;  ///< COCO's, or the position in VOC's list
  /// The picture's size, to which the boxes refer, if the annotation states it; otherwise 0.
  std::int64_t width = 0, height = 0;
};

struct dataset {
  std::vector<std::string> classes;
  std::vector<std::int64_t> category_ids;  ///< of the classes: COCO's, or their positions in VOC
  std::vector<annotated_picture> pictures;
  std::int64_t boxes = 0;  ///< of all pictures, without crowds
  /// One entry per box that was left out because it has no area or a coordinate that is not a
  /// number: the picture or annotation, and the reason.
  std::vector<std::string> dropped;
};

/// Reads a data set. Its classes are `classes`, in this order. If `classes` is empty, they are all
/// classes in the annotations: COCO's by id, VOC's by name.
///
/// Throws std::runtime_error, with the file and the reason, if a file or folder is missing, the
/// annotations are in another format, a name is not UTF-8, a picture would be outside its folder,
/// two categories share a name or an id, an object has another class, a picture's stated size is
/// not a whole number, or there is no picture or no box at all.
dataset read_dataset(const dataset_source& source, const std::vector<std::string>& classes = {});

}  // namespace detector
