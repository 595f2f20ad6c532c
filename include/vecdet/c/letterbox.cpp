// SPDX-License-Identifier: Apache-2.0
// The letterbox, which makes a network's input of images.
#include <vecdet/c/support.hpp>
#include <vecdet/letterbox.hpp>

/// An image with three bytes per pixel.
typedef struct vecdet_byte_image {
  const uint8_t* data;
  int64_t height;
  int64_t width;
  int64_t stride;  ///< bytes from one row to the next; 0 means 3 * width
} vecdet_byte_image;

namespace vecdet_c {
namespace {

vecdet_letterbox_transform c_transform(const letterbox_transform& t) {
  return {t.scale_x, t.scale_y, t.pad_x, t.pad_y, t.size.height, t.size.width};
}

/// Writes the transform that `make` returns for an image and a network's input.
vecdet_status make_transform(const char* function,
                             letterbox_transform (*make)(image_size image, image_size input),
                             vecdet_image_size image, vecdet_image_size input,
                             vecdet_letterbox_transform* transform) {
  return guarded([&] {
    check_pointer(transform, function, "transform");
    *transform = c_transform(make(image_size::height_width(image.height, image.width),
                                  image_size::height_width(input.height, input.width)));
  });
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// The letterbox of ultralytics: the image is scaled to fit and centred.
VECDET_C vecdet_status vecdet_letterbox_transform_centred(vecdet_image_size image,
                                                          vecdet_image_size input,
                                                          vecdet_letterbox_transform* transform) {
  return make_transform("letterbox_transform::centred", letterbox_transform::centred, image, input,
                        transform);
}
/// The letterbox of YOLOX: the image is scaled to fit, in the upper left corner.
VECDET_C vecdet_status vecdet_letterbox_transform_top_left(vecdet_image_size image,
                                                           vecdet_image_size input,
                                                           vecdet_letterbox_transform* transform) {
  return make_transform("letterbox_transform::top_left", letterbox_transform::top_left, image,
                        input, transform);
}

/// Fills `batch`, images x 3 x input.height x input.width, with the images: resized to fit, padded,
/// scaled and normalised. Pixels are those of OpenCV's INTER_LINEAR. Writes one transform per
/// image, for vecdet_postprocess_yolo(). `params` null: vecdet_letterbox_params_yolo().
VECDET_C vecdet_status vecdet_letterbox(const vecdet_byte_image* images, int64_t count,
                                        vecdet_grid_size input,
                                        const vecdet_letterbox_params* params,
                                        vecdet_workspace* workspace, float* batch,
                                        vecdet_letterbox_transform* transforms) {
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    check_pointer(images, "letterbox", "images", count);
    check_pointer(transforms, "letterbox", "transforms", count);
    std::vector<byte_image> all;
    for (int64_t i = 0; i < count; ++i)
      all.push_back({images[i].data, images[i].height, images[i].width, images[i].stride});
    const auto p = params_of<letterbox_params>(params, "letterbox");
    const auto check_side = [](const char* side, int64_t size) {
      detail::check(size >= 0 && size <= 1 << 15, "letterbox", side, size, "0 to 32768 pixels");
    };
    check_side("input.height", input.height);
    check_side("input.width", input.width);
    const index_t size = product(count, 3 * input.height * input.width, "letterbox", "count");
    const auto found =
        letterbox(vector_view<const byte_image>(all), vector_view<float>(batch, size),
                  {input.height, input.width}, p, memory.get<letterbox_workspace>(), policy);
    std::transform(found.begin(), found.end(), transforms, c_transform);
  });
}
