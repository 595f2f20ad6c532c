// SPDX-License-Identifier: Apache-2.0
#include "dataset.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>
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

/// Checkpoints and logs are JSON, which must be UTF-8.
void check_utf8(const fs::path& file, const char* what, const std::string& name) {
  try {
    nlohmann::json(name).dump();
  } catch (const nlohmann::json::type_error&) {
    fail(file,
         std::string(what) + " is not UTF-8: " +
             nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }
}

/// A picture's path below its folder.
void check_stays_inside(const fs::path& file, const std::string& name) {
  const fs::path inside = fs::path(name).lexically_normal();
  if (name.empty() || inside.is_absolute() || *inside.begin() == ".." || !inside.has_filename())
    fail(file, "the picture \"" + name + "\" is not the name of a file in the picture folder");
}

/// Keeps an object if it can be learnt, and records the reason if not. `where` names the object.
void add(dataset& data, annotated_picture& picture, const object& candidate,
         const std::string& where) {
  const box& b = candidate.corners;
  const bool is_finite = std::all_of(b.begin(), b.end(), [](float x) { return std::isfinite(x); });
  if (!is_finite || b[2] <= b[0] || b[3] <= b[1]) {
    std::ostringstream reason;
    reason << where << ": the box " << b[0] << " " << b[1] << " " << b[2] << " " << b[3]
           << (is_finite ? " has no area" : " is not finite");
    data.dropped.push_back(reason.str());
    return;
  }
  picture.objects.push_back(candidate);
  if (!candidate.crowd) ++data.boxes;
}

/// nlohmann-json converts any number, even one that does not fit an integer.
std::int64_t integer(const nlohmann::json& parent, const char* key, const fs::path& file) {
  const nlohmann::json& value = parent.at(key);
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}))
    fail(file, std::string("\"") + key + "\" is " + value.dump() + ", expected an integer");
  return value.get<std::int64_t>();
}

/// A width or height of COCO's; 0 if it is not stated.
std::int64_t stated_side(const nlohmann::json& image, const char* key, const fs::path& file) {
  const auto side = image.find(key);
  if (side == image.end() || side->is_null()) return 0;
  const std::int64_t pixels = integer(image, key, file);
  if (pixels < 0)
    fail(file, std::string("\"") + key + "\" is " + std::to_string(pixels) +
                   ", expected the pixels of a picture");
  return pixels;
}

/// The classes' names by id.
std::map<std::int64_t, std::string> read_categories(const nlohmann::json& file,
                                                    const fs::path& path) {
  std::map<std::int64_t, std::string> names;
  std::map<std::string, std::int64_t> ids;
  for (const auto& category : file.at("categories")) {
    const std::int64_t id = integer(category, "id", path);
    const std::string name = category.at("name").get<std::string>();
    if (!names.insert({id, name}).second)
      fail(path, "two categories have the id " + std::to_string(id));
    const auto inserted = ids.insert({name, id});
    if (!inserted.second)
      fail(path, "the categories " + std::to_string(inserted.first->second) + " and " +
                     std::to_string(id) + " have the same name, \"" + name + "\"");
  }
  return names;
}

dataset read_coco(const dataset_source& source, const std::vector<std::string>& classes) try {
  const fs::path path = source.annotations;
  std::ifstream stream(path);
  if (!stream) fail(path, "cannot be opened");
  if (source.pictures.empty())
    fail(path, "COCO annotations need the folder of the pictures, which is missing");
  check_folder(source.pictures, "pictures");
  const nlohmann::json file = nlohmann::json::parse(stream);
  dataset data;
  const std::map<std::int64_t, std::string> names = read_categories(file, path);
  data.classes = classes;
  if (classes.empty())
    for (const auto& category : names) data.classes.push_back(category.second);
  data.category_ids.assign(data.classes.size(), -1);
  std::map<std::int64_t, std::int64_t> labels;
  for (const auto& category : names) {
    const auto at = std::find(data.classes.begin(), data.classes.end(), category.second);
    if (at == data.classes.end())
      fail(path, "category \"" + category.second + "\" is not a class of the model");
    labels[category.first] = at - data.classes.begin();
    data.category_ids[static_cast<std::size_t>(at - data.classes.begin())] = category.first;
  }
  std::map<std::int64_t, std::size_t> places;
  for (const auto& image : file.at("images")) {
    const std::int64_t id = integer(image, "id", path);
    if (!places.insert({id, data.pictures.size()}).second)
      fail(path, "two images have the id " + std::to_string(id));
    const std::string name = image.at("file_name").get<std::string>();
    check_stays_inside(path, name);
    data.pictures.push_back({(fs::path(source.pictures) / name).string(),
                             {},
                             id,
                             stated_side(image, "width", path),
                             stated_side(image, "height", path)});
  }
  for (const auto& annotation : file.at("annotations")) {
    const std::int64_t id = integer(annotation, "image_id", path);
    const std::int64_t category = integer(annotation, "category_id", path);
    const auto place = places.find(id);
    if (place == places.end())
      fail(path, "a box belongs to image " + std::to_string(id) + ", which does not exist");
    const auto label = labels.find(category);
    if (label == labels.end())
      fail(path,
           "a box belongs to category " + std::to_string(category) + ", which does not exist");
    const nlohmann::json& b = annotation.at("bbox");
    if (b.size() != 4)
      fail(path, "a box of image " + std::to_string(id) + " has " + std::to_string(b.size()) +
                     " numbers, expected x, y, width and height");
    const double x = b.at(0), y = b.at(1), w = b.at(2), h = b.at(3);
    add(data, data.pictures[place->second],
        {{static_cast<float>(x), static_cast<float>(y), static_cast<float>(x + w),
          static_cast<float>(y + h)},
         label->second,
         annotation.contains("iscrowd") && integer(annotation, "iscrowd", path) != 0},
        path.string() + ": image " + std::to_string(id));
  }
  return data;
} catch (const nlohmann::json::exception& error) {
  fail(source.annotations, std::string("not COCO annotations: ") + error.what());
}

/// Parses a number, with optional spaces around it; empty if the text is not a number.
std::optional<float> parse_number(std::string text) {
  constexpr const char* spaces = " \t\r\n";
  text.erase(0, text.find_first_not_of(spaces));
  text.erase(text.find_last_not_of(spaces) + 1);
  float value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

struct voc_object {
  std::string class_name;
  object content;
  std::string fault;  ///< why it is dropped; empty: it is kept
};

struct voc_annotation {
  std::int64_t width = 0, height = 0;  ///< 0 if not stated
  std::vector<voc_object> objects;
};

/// A width or height of VOC's <size>; 0 if it is not stated.
std::int64_t stated_side(const pugi::xml_node& size, const char* name, const fs::path& path) {
  constexpr float most = 1 << 24;  // whole numbers in float
  const std::string text = size.child(name).text().as_string();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return 0;
  const std::optional<float> pixels = parse_number(text);
  if (!pixels || !(*pixels >= 0 && *pixels <= most) || std::floor(*pixels) != *pixels)
    fail(path, std::string("<") + name + "> is \"" + text + "\", expected the pixels of a picture");
  return static_cast<std::int64_t>(*pixels);
}

voc_annotation read_voc_annotation(const fs::path& path) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_file(path.c_str());
  if (!result) fail(path, std::string("not a VOC annotation: ") + result.description());
  const pugi::xml_node root = document.child("annotation");
  if (!root) fail(path, "not a VOC annotation: there is no element <annotation>");
  const pugi::xml_node size = root.child("size");
  voc_annotation annotation{
      stated_side(size, "width", path), stated_side(size, "height", path), {}};
  for (const pugi::xml_node& node : root.children("object")) {
    const pugi::xml_node bounds = node.child("bndbox");
    voc_object found{};
    constexpr const char* sides[] = {"xmin", "ymin", "xmax", "ymax"};
    for (std::size_t k = 0; k < 4; ++k) {
      const pugi::xml_node side = bounds.child(sides[k]);
      if (!side) fail(path, std::string("an object without <") + sides[k] + ">");
      const std::string text = side.text().as_string();
      if (const std::optional<float> number = parse_number(text))
        found.content.corners[k] = *number;
      else if (found.fault.empty())
        found.fault = std::string("<") + sides[k] + "> is \"" + text + "\", expected a number";
    }
    found.class_name = node.child("name").text().as_string();
    if (found.class_name.empty()) fail(path, "an object without <name>");
    check_utf8(path, "the name of a class", found.class_name);
    annotation.objects.push_back(found);
  }
  return annotation;
}

/// The picture with this name and any supported ending.
fs::path voc_picture(const fs::path& folder, const std::string& name) {
  for (const char* ending : {".jpg", ".png", ".jpeg"})
    if (fs::exists(folder / (name + ending))) return folder / (name + ending);
  return folder / (name + ".jpg");
}

/// The names in a list, one per line.
std::vector<std::string> read_voc_list(const fs::path& list) {
  std::ifstream stream(list);
  if (!stream) fail(list, "cannot be opened");
  constexpr const char* spaces = " \t\r";
  std::vector<std::string> names;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    line.erase(0, line.find_first_not_of(spaces));
    line.erase(line.find_last_not_of(spaces) + 1);
    if (line.empty()) continue;
    check_utf8(list, "a line", line);
    const std::size_t last = line.find_last_of(spaces);
    if (last != std::string::npos)
      for (const char* flag : {"1", "0", "-1"})
        if (line.compare(last + 1, std::string::npos, flag) == 0)
          fail(list, "line " + std::to_string(number) + " is \"" + line +
                         "\", expected only a picture's name: this list is for one class; use "
                         "the list for all classes, such as trainval.txt");
    check_stays_inside(list, line);
    names.push_back(line);
  }
  return names;
}

dataset read_voc(const dataset_source& source, const std::vector<std::string>& classes) {
  const fs::path list = source.annotations;
  const std::vector<std::string> names = read_voc_list(list);
  const fs::path root = fs::absolute(list).parent_path().parent_path().parent_path();
  const fs::path annotations = root / "Annotations", pictures = root / "JPEGImages";
  check_folder(annotations, "VOC's annotations");
  check_folder(pictures, "VOC's pictures");

  std::vector<voc_annotation> read;
  std::map<std::string, std::int64_t> labels;
  for (const std::string& name : names) {
    read.push_back(read_voc_annotation(annotations / (name + ".xml")));
    for (const voc_object& found : read.back().objects) labels[found.class_name] = -1;
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
    annotated_picture picture{voc_picture(pictures, names[i]).string(),
                              {},
                              static_cast<std::int64_t>(i),
                              read[i].width,
                              read[i].height};
    for (voc_object& found : read[i].objects) {
      const fs::path annotation = annotations / (names[i] + ".xml");
      found.content.label = labels[found.class_name];
      if (found.content.label < 0)
        fail(annotation, "class \"" + found.class_name + "\" is not a class of the model");
      if (found.fault.empty())
        add(data, picture, found.content, annotation.string());
      else
        data.dropped.push_back(annotation.string() + ": " + found.fault);
    }
    data.pictures.push_back(std::move(picture));
  }
  return data;
}

}  // namespace

dataset read_dataset(const dataset_source& source, const std::vector<std::string>& classes) {
  const std::string ending = fs::path(source.annotations).extension().string();
  if (ending != ".json" && ending != ".txt")
    fail(source.annotations,
         "expected COCO annotations (.json) or a list of VOC annotations (.txt)");
  dataset data = ending == ".json" ? read_coco(source, classes) : read_voc(source, classes);
  if (data.pictures.empty()) fail(source.annotations, "lists no pictures");
  if (data.boxes == 0) fail(source.annotations, "contains no boxes");
  return data;
}

}  // namespace detector
