// SPDX-License-Identifier: Apache-2.0
#include "inspection.hpp"

#include "checkpoint.hpp"
#include "drawing.hpp"
#include "evaluation.hpp"

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace detector {

void evaluate_checkpoint(const evaluation_options& options) {
  const checkpoint content = load_checkpoint(options.checkpoint);
  const dataset data = read_dataset(options.test, content.classes);
  loader_params params;
  params.canvas = content.canvas;
  params.batch_size = options.batch_size;
  params.threads = options.loader_threads;
  process_group alone;
  const evaluation result = evaluate(*content.model, data, params, {}, alone);
  for (const std::string& reason : data.dropped)
    std::fprintf(stderr, "box left out: %s\n", reason.c_str());
  for (const auto& picture : result.broken)
    std::fprintf(stderr, "skipped: %s\n", picture.second.c_str());
  if (!result.broken.empty())
    std::fprintf(stderr, "%zu of %zu pictures skipped\n", result.broken.size(),
                 data.pictures.size());
  std::printf("AP %.4f, AP50 %.4f, AP75 %.4f on %zu pictures\n", result.precision.ap,
              result.precision.ap50, result.precision.ap75, result.pictures);
  if (!options.results.empty()) write_results(options.results, data, result.detections);
}

namespace {

namespace fs = std::filesystem;

/// The output file of each picture. Throws if one would overwrite another, or a picture.
std::vector<std::string> drawn_files(const drawing_options& options) {
  std::vector<std::string> files;
  std::map<fs::path, std::string> pictures, drawn;  // both by the canonical path
  for (const std::string& file : options.pictures)
    pictures.insert({fs::weakly_canonical(file), file});
  const fs::path folder = fs::weakly_canonical(options.folder);
  for (const std::string& file : options.pictures) {
    if (fs::weakly_canonical(file).parent_path() == folder)
      throw std::runtime_error("--out is " + options.folder + ", the folder of " + file +
                               "; expected another folder, so that no picture is overwritten");
    files.push_back((fs::path(options.folder) / fs::path(file).stem()).string() + ".png");
    const fs::path target = fs::weakly_canonical(files.back());
    if (pictures.count(target) > 0)
      throw std::runtime_error(files.back() + " leads to the picture " + pictures[target] +
                               ", which would be overwritten");
    const auto inserted = drawn.insert({target, file});
    if (!inserted.second)
      throw std::runtime_error(inserted.first->second + " and " + file +
                               " would both be drawn into " + files.back() +
                               "; draw them into different folders");
  }
  return files;
}

}  // namespace

int draw_detections(const drawing_options& options) {
  const std::vector<std::string> files = drawn_files(options);
  const checkpoint content = load_checkpoint(options.checkpoint);
  content.model->eval();
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) throw std::runtime_error(options.folder + ": cannot be created: " + error.message());
  vecdet::anchor_cache anchors(content.model->anchor_shapes());
  int broken = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    picture image;
    try {
      image = read_picture(options.pictures[i]);
    } catch (const std::runtime_error& reason) {
      std::fprintf(stderr, "skipped: %s\n", reason.what());
      ++broken;
      continue;
    }
    batch one;
    one.images = at::empty({1, 3, content.canvas.height, content.canvas.width});
    one.pictures.resize(1);
    one.pictures[0].place = placement::fitted(image.width, image.height, content.canvas);
    draw_on_canvas(image, one.pictures[0].place, content.canvas, one.images.data_ptr<float>());
    const auto found =
        detect(*content.model, anchors, one, content.canvas, options.score_threshold)[0];
    for (auto d = found.rbegin(); d != found.rend(); ++d) {  // the best one last, on top
      char score[16];
      std::snprintf(score, sizeof score, " %.2f", static_cast<double>(d->score));
      draw_box(image, d->corners, d->label,
               content.classes[static_cast<std::size_t>(d->label)] + score);
    }
    write_png(image, files[i]);
    std::printf("%s: %zu boxes\n", files[i].c_str(), found.size());
  }
  if (broken > 0) std::fprintf(stderr, "%d of %zu pictures skipped\n", broken, files.size());
  return broken;
}

}  // namespace detector
