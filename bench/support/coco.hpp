// SPDX-License-Identifier: Apache-2.0
// Reads COCO-format files: ground truth ("instances") and detections ("results").
// https://cocodataset.org/#format-data
#pragma once

#include <vecdet/views.hpp>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet::bench {

struct coco_image {
  index_t id;
  double width, height;  ///< Pixels.
};

/// An object or a detection: the top left corner and the size in pixels, as in the files.
struct coco_box {
  index_t image_id;
  index_t category_id;
  double x, y, width, height;
  double score;  ///< 1 for ground truth.
  bool crowd;    ///< A group of objects, which is never counted as missed. False for detections.
};

struct coco_dataset {
  std::vector<coco_image> images;
  std::vector<index_t> category_ids;
  std::vector<coco_box> objects;
};

namespace detail {

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  return nlohmann::json::parse(file);
}

inline coco_box box_of(const nlohmann::json& entry) {
  const nlohmann::json& box = entry.at("bbox");
  return {entry.at("image_id"),
          entry.at("category_id"),
          box.at(0),
          box.at(1),
          box.at(2),
          box.at(3),
          entry.value("score", 1.0),
          entry.value("iscrowd", 0) != 0};
}

}  // namespace detail

/// Reads ground truth; throws std::runtime_error that names the file and the problem.
inline coco_dataset load_coco(const std::string& path) try {
  const nlohmann::json file = detail::read_json(path);
  coco_dataset dataset;
  for (const auto& image : file.at("images"))
    dataset.images.push_back({image.at("id"), image.at("width"), image.at("height")});
  for (const auto& category : file.at("categories"))
    dataset.category_ids.push_back(category.at("id"));
  for (const auto& annotation : file.at("annotations"))
    dataset.objects.push_back(detail::box_of(annotation));
  return dataset;
} catch (const nlohmann::json::exception& error) {
  throw std::runtime_error(path + ": not COCO ground truth: " + error.what());
}

/// Reads detections, in the order of the file; errors as above.
inline std::vector<coco_box> load_coco_results(const std::string& path) try {
  std::vector<coco_box> detections;
  for (const auto& entry : detail::read_json(path)) detections.push_back(detail::box_of(entry));
  return detections;
} catch (const nlohmann::json::exception& error) {
  throw std::runtime_error(path + ": not COCO results: " + error.what());
}

}  // namespace vecdet::bench
