// SPDX-License-Identifier: Apache-2.0
#include "dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>
#include <pugixml.hpp>

namespace detector {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

void check_folder(const fs::path& folder, const char* of) {
  if (!fs::is_directory(folder)) fail(folder, std::string("no such folder of ") + of);
}

/// Keeps an object if it can be learnt.
void add(dataset& data, annotated_picture& picture, const object& candidate) {
  const box& b = candidate.corners;
  const bool is_finite = std::all_of(b.begin(), b.end(), [](float x) { return std::isfinite(x); });
  if (!is_finite || b[2] <= b[0] || b[3] <= b[1]) {
    ++data.boxes_dropped;
    return;
  }
  picture.objects.push_back(candidate);
  if (!candidate.crowd) ++data.boxes;
}

dataset read_coco(const dataset_source& source, const std::vector<std::string>& classes) try {
  const fs::path path = source.annotations;
  std::ifstream stream(path);
  if (!stream) fail(path, "cannot be opened");
  if (source.pictures.empty())
    fail(path, "COCO's annotations need the folder of their pictures, and none is given");
  check_folder(source.pictures, "pictures");
  const nlohmann::json file = nlohmann::json::parse(stream);
  dataset data;
  std::map<std::int64_t, std::string> names;
  for (const auto& category : file.at("categories"))
    names[category.at("id").get<std::int64_t>()] = category.at("name").get<std::string>();
  data.classes = classes;
  if (classes.empty())
    for (const auto& category : names) data.classes.push_back(category.second);
  data.category_ids.assign(data.classes.size(), -1);
  std::map<std::int64_t, std::int64_t> labels;
  for (const auto& category : names) {
    const auto at = std::find(data.classes.begin(), data.classes.end(), category.second);
    if (at == data.classes.end())
      fail(path, "category \"" + category.second + "\" is none of the model's classes");
    labels[category.first] = at - data.classes.begin();
    data.category_ids[static_cast<std::size_t>(at - data.classes.begin())] = category.first;
  }
  std::map<std::int64_t, std::size_t> places;
  for (const auto& image : file.at("images")) {
    const std::int64_t id = image.at("id");
    if (!places.insert({id, data.pictures.size()}).second)
      fail(path, "two images have the id " + std::to_string(id));
    const fs::path name = image.at("file_name").get<std::string>();
    data.pictures.push_back({(source.pictures / name).string(), {}, id});
  }
  for (const auto& annotation : file.at("annotations")) {
    const std::int64_t id = annotation.at("image_id"), category = annotation.at("category_id");
    const auto place = places.find(id);
    if (place == places.end())
      fail(path, "a box of image " + std::to_string(id) + ", which is none");
    const auto label = labels.find(category);
    if (label == labels.end())
      fail(path, "a box of category " + std::to_string(category) + ", which is none");
    const nlohmann::json& b = annotation.at("bbox");
    const double x = b.at(0), y = b.at(1), w = b.at(2), h = b.at(3);
    add(data, data.pictures[place->second],
        {{static_cast<float>(x), static_cast<float>(y), static_cast<float>(x + w),
          static_cast<float>(y + h)},
         label->second,
         annotation.value("iscrowd", 0) != 0});
  }
  return data;
} catch (const nlohmann::json::exception& error) {
  fail(source.annotations, std::string("no COCO annotations: ") + error.what());
}

/// The objects of an annotation, with the names of their classes.
std::vector<std::pair<std::string, object>> read_voc_objects(const fs::path& path) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_file(path.c_str());
  if (!result) fail(path, std::string("no VOC annotation: ") + result.description());
  const pugi::xml_node root = document.child("annotation");
  if (!root) fail(path, "no VOC annotation: it has no element <annotation>");
  std::vector<std::pair<std::string, object>> objects;
  for (const pugi::xml_node& node : root.children("object")) {
    const pugi::xml_node bounds = node.child("bndbox");
    object found{};
    constexpr const char* sides[] = {"xmin", "ymin", "xmax", "ymax"};
    for (std::size_t k = 0; k < 4; ++k) {
      const pugi::xml_node side = bounds.child(sides[k]);
      if (!side) fail(path, std::string("an object without <") + sides[k] + ">");
      found.corners[k] = side.text().as_float(std::nanf(""));
    }
    const std::string name = node.child("name").text().as_string();
    if (name.empty()) fail(path, "an object without <name>");
    objects.emplace_back(name, found);
  }
  return objects;
}

/// The picture of that name, of either kind.
fs::path voc_picture(const fs::path& folder, const std::string& name) {
  for (const char* ending : {".jpg", ".png", ".jpeg"})
    if (fs::exists(folder / (name + ending))) return folder / (name + ending);
  return folder / (name + ".jpg");
}

dataset read_voc(const dataset_source& source, const std::vector<std::string>& classes) {
  const fs::path list = source.annotations;
  std::ifstream stream(list);
  if (!stream) fail(list, "cannot be opened");
  const fs::path root = fs::absolute(list).parent_path().parent_path().parent_path();
  const fs::path annotations = root / "Annotations", pictures = root / "JPEGImages";
  check_folder(annotations, "VOC's annotations");
  check_folder(pictures, "VOC's pictures");

  std::vector<std::string> names;
  for (std::string name; stream >> name;) names.push_back(name);
  std::vector<std::vector<std::pair<std::string, object>>> objects;
  std::map<std::string, std::int64_t> labels;
  for (const std::string& name : names) {
    objects.push_back(read_voc_objects(annotations / (name + ".xml")));
    for (const auto& named : objects.back()) labels[named.first] = -1;
  }
  dataset data;
  data.classes = classes;
  if (classes.empty())
    for (const auto& label : labels) data.classes.push_back(label.first);
  for (std::size_t c = 0; c < data.classes.size(); ++c) {
    labels[data.classes[c]] = static_cast<std::int64_t>(c);
    data.category_ids.push_back(static_cast<std::int64_t>(c));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    annotated_picture picture{
        voc_picture(pictures, names[i]).string(), {}, static_cast<std::int64_t>(i)};
    for (auto& named : objects[i]) {
      named.second.label = labels[named.first];
      if (named.second.label < 0)
        fail(annotations / (names[i] + ".xml"),
             "class \"" + named.first + "\" is none of the model's classes");
      add(data, picture, named.second);
    }
    data.pictures.push_back(std::move(picture));
  }
  return data;
}

}  // namespace

dataset read_dataset(const dataset_source& source, const std::vector<std::string>& classes) {
  const std::string ending = fs::path(source.annotations).extension().string();
  if (ending != ".json" && ending != ".txt")
    fail(source.annotations, "expected COCO's annotations (.json) or a list of VOC's (.txt)");
  dataset data = ending == ".json" ? read_coco(source, classes) : read_voc(source, classes);
  if (data.pictures.empty()) fail(source.annotations, "names no picture");
  if (data.boxes == 0) fail(source.annotations, "there is no box in any picture");
  return data;
}

}  // namespace detector
