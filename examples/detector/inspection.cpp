// SPDX-License-Identifier: Apache-2.0
#include "inspection.hpp"

#include "checkpoint.hpp"
#include "drawing.hpp"
#include "evaluation.hpp"

#include <cstdio>
#include <filesystem>
#include <stdexcept>

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
  for (const auto& picture : result.broken)
    std::fprintf(stderr, "skipped: %s\n", picture.second.c_str());
  std::printf("AP %.4f, AP50 %.4f, AP75 %.4f on %zu pictures\n", result.precision.ap,
              result.precision.ap50, result.precision.ap75, result.pictures);
  if (!options.results.empty()) write_results(options.results, data, result.detections);
}

int draw_detections(const drawing_options& options) {
  namespace fs = std::filesystem;
  const checkpoint content = load_checkpoint(options.checkpoint);
  content.model->eval();
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) throw std::runtime_error(options.folder + ": cannot be made: " + error.message());
  vecdet::anchor_cache anchors(content.model->anchor_shapes());
  int broken = 0;
  for (const std::string& file : options.pictures) {
    picture image;
    try {
      image = read_picture(file);
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
    for (auto d = found.rbegin(); d != found.rend(); ++d) {  // the best one last, above the others
      char score[16];
      std::snprintf(score, sizeof score, " %.2f", static_cast<double>(d->score));
      draw_box(image, d->corners, d->label,
               content.classes[static_cast<std::size_t>(d->label)] + score);
    }
    const std::string drawn = (fs::path(options.folder) / fs::path(file).stem()).string() + ".png";
    write_png(image, drawn);
    std::printf("%s: %zu boxes\n", drawn.c_str(), found.size());
  }
  return broken;
}

}  // namespace detector
