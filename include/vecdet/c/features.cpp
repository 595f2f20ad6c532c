// SPDX-License-Identifier: Apache-2.0
// Feature maps: RoIAlign, deformable attention, 3x3 convolution, and the letterbox that makes a
// network's input.
#include <vecdet/c/support.hpp>
#include <vecdet/conv3x3.hpp>
#include <vecdet/deformable_attention.hpp>
#include <vecdet/letterbox.hpp>
#include <vecdet/multiscale_roi_align.hpp>
#include <vecdet/roi_align.hpp>

/// Feature maps: images (or boxes) x channels x height x width elements without gaps.
typedef struct vecdet_features {
  void* data;
  int64_t images;
  int64_t channels;
  int64_t height;
  int64_t width;
  vecdet_feature_layout layout;
} vecdet_features;

/// Boxes (x1 y1 x2 y2 in pixels) of float, or double for double features, and the image of each.
typedef struct vecdet_roi_boxes {
  const void* boxes;
  int64_t count;
  const int64_t* images;  ///< one per box; null: all belong to image 0
} vecdet_roi_boxes;

/// Parameters of RoIAlign.
typedef struct vecdet_roi_align_params {
  double spatial_scale;    ///< locations per pixel; ignored on several levels
  int64_t sampling_ratio;  ///< samples per bin and axis, at most 1024; below 1: adaptive
  int aligned;             ///< shifts boxes by half a location
  int add_to_grad;         ///< adds to the gradient instead of overwriting it
} vecdet_roi_align_params;

/// A level of the value of deformable attention.
typedef struct vecdet_attention_level {
  int64_t height;
  int64_t width;
  int64_t points;  ///< sampled by each query on this level in each head
} vecdet_attention_level;

/// The sizes of a call of deformable attention.
typedef struct vecdet_attention_shape {
  int64_t images;
  int64_t queries;
  int64_t heads;
  int64_t channels;  ///< of a head
  const vecdet_attention_level* levels;
  int64_t level_count;
} vecdet_attention_shape;

/// The tiles of a 3x3 convolution: 4 x 4 outputs, with the fewest multiplications; or 2 x 2
/// outputs, which are more accurate.
typedef enum vecdet_conv3x3_tile { VECDET_F4X4, VECDET_F2X2 } vecdet_conv3x3_tile;

/// The function that weights are transformed for.
typedef enum vecdet_conv3x3_use {
  VECDET_CONV3X3_FORWARD,
  VECDET_CONV3X3_INPUT_GRAD
} vecdet_conv3x3_use;

/// Transformed weights of a 3x3 convolution of float.
typedef struct vecdet_conv3x3_weights vecdet_conv3x3_weights;

/// An image with three bytes per pixel.
typedef struct vecdet_byte_image {
  const uint8_t* data;
  int64_t height;
  int64_t width;
  int64_t stride;  ///< bytes from one row to the next; 0 means 3 * width
} vecdet_byte_image;

/// Parameters of vecdet_letterbox().
typedef struct vecdet_letterbox_params {
  int swaps_channels;  ///< BGR images to an RGB input, or RGB to BGR
  int is_centred;      ///< if 0, the image is in the upper left corner
  int upscales;        ///< if 0, images smaller than the input keep their size
  double fill;         ///< pixel value of the padding
  double scale;        ///< input = (pixel scale - mean) / deviation
  double mean[3];
  double deviation[3];
} vecdet_letterbox_params;

struct vecdet_conv3x3_weights {
  vecdet::conv3x3_weights<float> weights;
};

namespace vecdet_c {

template <>
inline constexpr int enumerators<feature_layout> = 2;
template <>
inline constexpr int enumerators<conv3x3_tile> = 2;
template <>
inline constexpr int enumerators<conv3x3_use> = 2;

template <class C, class Copy>
void each_field(roi_align_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(spatial_scale);
  VECDET_FIELD(sampling_ratio);
  VECDET_FIELD(aligned);
  VECDET_FIELD(add_to_grad);
}

template <class C, class Copy>
void each_field(letterbox_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(swaps_channels);
  VECDET_FIELD(is_centred);
  VECDET_FIELD(upscales);
  VECDET_FIELD(fill);
  VECDET_FIELD(scale);
  for (int k = 0; k < 3; ++k) {
    copy(p.mean[k], c.mean[k], "params.mean");
    copy(p.deviation[k], c.deviation[k], "params.deviation");
  }
}

namespace {

template <class T>
feature_view<T> features_of(const vecdet_features& maps, const char* function,
                            const char* argument) {
  return {as<std::remove_const_t<T>>(maps.data),
          maps.images,
          maps.channels,
          maps.height,
          maps.width,
          enum_of<feature_layout>(maps.layout, function, argument)};
}
template <class T>
feature_view<T> features_of(const vecdet_features* maps, const char* function,
                            const char* argument) {
  check_pointer(maps, function, argument);
  return features_of<T>(*maps, function, argument);
}
/// The same, empty for a null pointer.
template <class T>
feature_view<T> optional_features(const vecdet_features* maps, const char* function,
                                  const char* argument) {
  return maps == nullptr ? feature_view<T>() : features_of<T>(*maps, function, argument);
}

template <class Real>
roi_boxes<Real> roi_boxes_of(const vecdet_roi_boxes* boxes, const char* function) {
  check_pointer(boxes, function, "boxes");
  roi_boxes<Real> result;
  result.boxes = boxes_view<const Real>(as<Real>(boxes->boxes), boxes->count);
  result.images = optional_labels(boxes->images, boxes->count);
  return result;
}

multiscale_roi_align_params multiscale_params_of(const vecdet_roi_align_params* params,
                                                 const double* scales, int64_t levels,
                                                 double canonical_size, int64_t canonical_level,
                                                 const char* function) {
  const auto single = params_of<roi_align_params>(params, function);
  multiscale_roi_align_params result;
  result.scales = vector_view<const double>(scales, levels);
  if (params != nullptr) result.sampling_ratio = single.sampling_ratio;
  result.aligned = single.aligned;
  result.add_to_grad = single.add_to_grad;
  result.canonical_size = canonical_size;
  result.canonical_level = canonical_level;
  return result;
}

/// The C++ form of a shape, with its levels, and the sizes of the arrays.
struct attention_sizes {
  std::vector<attention_level> levels;
  attention_shape shape;
  index_t value, points, out;

  attention_sizes(const vecdet_attention_shape* from, const char* function) {
    check_pointer(from, function, "shape");
    const vector_view<const vecdet_attention_level> given(from->levels, from->level_count);
    for (const vecdet_attention_level& l : given) levels.push_back({l.height, l.width, l.points});
    shape.images = from->images;
    shape.queries = from->queries;
    shape.heads = from->heads;
    shape.channels = from->channels;
    shape.levels = levels;
    detail::check_attention_shape(function, shape);
    const index_t queries =
        times(times(shape.images, shape.queries, function), shape.heads, function);
    const index_t locations =
        times(times(shape.images, shape.locations(), function), shape.heads, function);
    value = times(locations, shape.channels, function);
    points = times(queries, shape.points(), function);
    out = times(queries, shape.channels, function);
    times(points, 2, function);
  }
  attention_sizes(const attention_sizes&) = delete;
  attention_sizes& operator=(const attention_sizes&) = delete;

 private:
  static index_t times(index_t a, index_t b, const char* function) {
    return product(a, b, function, "shape");
  }
};

template <class T>
std::vector<feature_view<T>> levels_of(const vecdet_features* levels, int64_t count,
                                       const char* function, const char* argument) {
  check_pointer(levels, function, argument, count);
  std::vector<feature_view<T>> result;
  for (int64_t l = 0; l < count; ++l)
    result.push_back(features_of<T>(levels[l], function, argument));
  return result;
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// A scale of 1, adaptive sampling, not aligned, as in torchvision.
VECDET_C vecdet_roi_align_params vecdet_roi_align_params_default(void) {
  return c_params_of<vecdet_roi_align_params>(roi_align_params());
}

/// RoIAlign, arXiv 1703.06870: pools the features of each box to the height and width of `out`,
/// whose images are the boxes. `type` is that of features and output.
VECDET_C vecdet_status vecdet_roi_align(vecdet_dtype type, const vecdet_features* features,
                                        const vecdet_roi_boxes* boxes,
                                        const vecdet_roi_align_params* params,
                                        vecdet_workspace* workspace, const vecdet_features* out) {
  constexpr const char* function = "roi_align";
  return guarded([&] {
    const auto p = params_of<roi_align_params>(params, function);
    scratch memory(workspace);
    with_any_type(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      on_threads([&](threading policy) {
        roi_align(features_of<const T>(features, function, "features"),
                  roi_boxes_of<compute_type<T>>(boxes, function),
                  features_of<T>(out, function, "out"), p, memory.get<roi_align_workspace>(),
                  policy);
      });
    });
  });
}
/// Writes the gradient with respect to the features to `grad`. `upstream` is that of the output.
VECDET_C vecdet_status vecdet_roi_align_grad(vecdet_dtype type, const vecdet_features* upstream,
                                             const vecdet_roi_boxes* boxes,
                                             const vecdet_roi_align_params* params,
                                             vecdet_workspace* workspace,
                                             const vecdet_features* grad) {
  constexpr const char* function = "roi_align_grad";
  return guarded([&] {
    const auto p = params_of<roi_align_params>(params, function);
    scratch memory(workspace);
    with_any_type(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      on_threads([&](threading policy) {
        roi_align_grad(features_of<const T>(upstream, function, "upstream"),
                       roi_boxes_of<compute_type<T>>(boxes, function),
                       features_of<T>(grad, function, "grad"), p, memory.get<roi_align_workspace>(),
                       policy);
      });
    });
  });
}

/// RoIAlign on a pyramid, finest level first: each box is pooled from the level that matches its
/// size. `scales` are locations per pixel, one per level. torchvision has a canonical size of 224
/// on level 4. `params` null: a sampling ratio of 2.
VECDET_C vecdet_status vecdet_multiscale_roi_align(
    vecdet_dtype type, const vecdet_features* levels, const double* scales, int64_t level_count,
    const vecdet_roi_boxes* boxes, const vecdet_roi_align_params* params, double canonical_size,
    int64_t canonical_level, vecdet_workspace* workspace, const vecdet_features* out) {
  constexpr const char* function = "multiscale_roi_align";
  return guarded([&] {
    const auto p = multiscale_params_of(params, scales, level_count, canonical_size,
                                        canonical_level, function);
    scratch memory(workspace);
    with_any_type(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      const auto maps = levels_of<const T>(levels, level_count, function, "levels");
      on_threads([&](threading policy) {
        multiscale_roi_align<T>(vector_view<const feature_view<const T>>(maps),
                                roi_boxes_of<compute_type<T>>(boxes, function),
                                features_of<T>(out, function, "out"), p,
                                memory.get<roi_align_workspace>(), policy);
      });
    });
  });
}
/// Writes the gradients with respect to all levels to `grads`.
VECDET_C vecdet_status vecdet_multiscale_roi_align_grad(
    vecdet_dtype type, const vecdet_features* upstream, const vecdet_roi_boxes* boxes,
    const double* scales, int64_t level_count, const vecdet_roi_align_params* params,
    double canonical_size, int64_t canonical_level, vecdet_workspace* workspace,
    const vecdet_features* grads) {
  constexpr const char* function = "multiscale_roi_align_grad";
  return guarded([&] {
    const auto p = multiscale_params_of(params, scales, level_count, canonical_size,
                                        canonical_level, function);
    scratch memory(workspace);
    with_any_type(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      const auto maps = levels_of<T>(grads, level_count, function, "grads");
      on_threads([&](threading policy) {
        multiscale_roi_align_grad(features_of<const T>(upstream, function, "upstream"),
                                  roi_boxes_of<compute_type<T>>(boxes, function),
                                  vector_view<const feature_view<T>>(maps), p,
                                  memory.get<roi_align_workspace>(), policy);
      });
    });
  });
}

/// Writes the level of each box (float or double) of a pyramid with `level_count` levels whose
/// first has `scale` locations per pixel.
VECDET_C vecdet_status vecdet_pyramid_levels(vecdet_dtype type, const void* boxes, int64_t count,
                                             int64_t level_count, double scale,
                                             double canonical_size, int64_t canonical_level,
                                             int64_t* levels) {
  return guarded([&] {
    with_type<float, double>(type, "pyramid_levels", [&](auto of) {
      using T = typename decltype(of)::type;
      pyramid_levels(boxes_view<const T>(as<T>(boxes), count), vector_view<index_t>(levels, count),
                     level_count, scale, canonical_size, canonical_level);
    });
  });
}

/// Multi-scale deformable attention, arXiv 2010.04159, equation 3, without its linear layers. Each
/// query sums bilinear samples at its points, as in torch's grid_sample with align_corners = False
/// and zeros outside. `value` is images x locations of all levels x heads x channels. `points` is
/// images x queries x heads x points of all levels x (x, y), where x and y are 0 to 1 from edge to
/// edge of a level. `weights` is images x queries x heads x points of all levels, and `out` images
/// x queries x heads x channels. `type` is that of value and output; points and weights are float,
/// or double for VECDET_FLOAT64.
VECDET_C vecdet_status vecdet_deformable_attention(vecdet_dtype type,
                                                   const vecdet_attention_shape* shape,
                                                   const void* value, const void* points,
                                                   const void* weights, vecdet_workspace* workspace,
                                                   void* out) {
  constexpr const char* function = "deformable_attention";
  return guarded([&] {
    const attention_sizes sizes(shape, function);
    scratch memory(workspace);
    with_any_type(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      using real = compute_type<T>;
      on_threads([&](threading policy) {
        deformable_attention(vector_view<const T>(as<T>(value), sizes.value),
                             vector_view<const real>(as<real>(points), 2 * sizes.points),
                             vector_view<const real>(as<real>(weights), sizes.points),
                             vector_view<T>(as<T>(out), sizes.out), sizes.shape,
                             memory.get<deformable_attention_workspace>(), policy);
      });
    });
  });
}
/// Writes the gradients with respect to value, points and weights, which have their shapes and
/// types. A null pointer skips a gradient. `upstream` is the gradient with respect to the output.
VECDET_C vecdet_status vecdet_deformable_attention_grad(
    vecdet_dtype type, const vecdet_attention_shape* shape, const void* upstream, const void* value,
    const void* points, const void* weights, vecdet_workspace* workspace, void* value_grad,
    void* points_grad, void* weights_grad) {
  constexpr const char* function = "deformable_attention_grad";
  return guarded([&] {
    const attention_sizes sizes(shape, function);
    scratch memory(workspace);
    with_any_type(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      using real = compute_type<T>;
      deformable_attention_grads<T> grads;
      if (value_grad != nullptr) grads.value = vector_view<T>(as<T>(value_grad), sizes.value);
      if (points_grad != nullptr)
        grads.points = vector_view<real>(as<real>(points_grad), 2 * sizes.points);
      if (weights_grad != nullptr)
        grads.weights = vector_view<real>(as<real>(weights_grad), sizes.points);
      on_threads([&](threading policy) {
        deformable_attention_grad(vector_view<const T>(as<T>(upstream), sizes.out),
                                  vector_view<const T>(as<T>(value), sizes.value),
                                  vector_view<const real>(as<real>(points), 2 * sizes.points),
                                  vector_view<const real>(as<real>(weights), sizes.points), grads,
                                  sizes.shape, memory.get<deformable_attention_workspace>(),
                                  policy);
      });
    });
  });
}

/// Transforms the weights of a 3x3 convolution, output channels x input channels x 3 x 3, into new
/// memory.
VECDET_C vecdet_status vecdet_conv3x3_weights_create(const vecdet_features* weights,
                                                     vecdet_conv3x3_use use,
                                                     vecdet_conv3x3_tile tile,
                                                     vecdet_conv3x3_weights** transformed) {
  constexpr const char* function = "conv3x3_weights";
  return guarded([&] {
    check_pointer(transformed, function, "transformed");
    on_threads([&](threading policy) {
      auto made = std::make_unique<vecdet_conv3x3_weights>();
      made->weights.assign(features_of<const float>(weights, function, "weights"),
                           enum_of<vecdet::conv3x3_use>(use, function, "use"),
                           enum_of<vecdet::conv3x3_tile>(tile, function, "tile"), policy);
      *transformed = made.release();
    });
  });
}
/// Frees transformed weights; null is allowed.
VECDET_C void vecdet_conv3x3_weights_free(vecdet_conv3x3_weights* weights) { delete weights; }

/// 3x3 convolution of float with stride 1 and padding 1. `bias` has one number per output channel;
/// null: all 0. With `relu`, the output is max(convolution, 0).
VECDET_C vecdet_status vecdet_conv3x3(const vecdet_features* input,
                                      const vecdet_conv3x3_weights* weights, const float* bias,
                                      int relu, vecdet_workspace* workspace,
                                      const vecdet_features* output) {
  return guarded([&] {
    check_pointer(weights, "conv3x3", "weights");
    conv3x3_params<float> p;
    p.bias = optional_view(bias, weights->weights.output_channels());
    p.relu = relu != 0;
    scratch memory(workspace);
    on_threads([&](threading policy) {
      conv3x3(features_of<const float>(input, "conv3x3", "input"), weights->weights,
              features_of<float>(output, "conv3x3", "output"), p, memory.get<conv3x3_workspace>(),
              policy);
    });
  });
}
/// Writes the gradient with respect to the input to `grad`. `weights` are transformed for
/// VECDET_CONV3X3_INPUT_GRAD. `relu_output` is the output if ReLU was fused, and null if not.
VECDET_C vecdet_status vecdet_conv3x3_input_grad(const vecdet_features* upstream,
                                                 const vecdet_features* relu_output,
                                                 const vecdet_conv3x3_weights* weights,
                                                 vecdet_workspace* workspace,
                                                 const vecdet_features* grad) {
  constexpr const char* function = "conv3x3_input_grad";
  return guarded([&] {
    check_pointer(weights, function, "weights");
    scratch memory(workspace);
    on_threads([&](threading policy) {
      conv3x3_input_grad(features_of<const float>(upstream, function, "upstream"),
                         optional_features<const float>(relu_output, function, "relu_output"),
                         weights->weights, features_of<float>(grad, function, "grad"),
                         memory.get<conv3x3_workspace>(), policy);
    });
  });
}
/// Writes the gradients with respect to the weights, output channels x input channels x 3 x 3, and
/// to the bias, unless `bias_grad` is null.
VECDET_C vecdet_status vecdet_conv3x3_weight_grad(
    const vecdet_features* input, const vecdet_features* upstream,
    const vecdet_features* relu_output, vecdet_conv3x3_tile tile, vecdet_workspace* workspace,
    const vecdet_features* weight_grad, float* bias_grad) {
  constexpr const char* function = "conv3x3_weight_grad";
  return guarded([&] {
    const auto weights = features_of<float>(weight_grad, function, "weight_grad");
    scratch memory(workspace);
    on_threads([&](threading policy) {
      conv3x3_weight_grad(features_of<const float>(input, function, "input"),
                          features_of<const float>(upstream, function, "upstream"),
                          optional_features<const float>(relu_output, function, "relu_output"),
                          weights,
                          bias_grad == nullptr ? vector_view<float>()
                                               : vector_view<float>(bias_grad, weights.images()),
                          enum_of<vecdet::conv3x3_tile>(tile, function, "tile"),
                          memory.get<conv3x3_workspace>(), policy);
    });
  });
}
/// Returns 1 if these functions are faster than a good direct convolution for these numbers of
/// channels and locations.
VECDET_C int vecdet_conv3x3_is_faster(int64_t input_channels, int64_t output_channels,
                                      int64_t locations, int transforms_weights) {
  return conv3x3_is_faster(input_channels, output_channels, locations, transforms_weights != 0);
}

/// For ultralytics' models.
VECDET_C vecdet_letterbox_params vecdet_letterbox_params_yolo(void) {
  return c_params_of<vecdet_letterbox_params>(letterbox_params::yolo());
}
/// For YOLOX.
VECDET_C vecdet_letterbox_params vecdet_letterbox_params_yolox(void) {
  return c_params_of<vecdet_letterbox_params>(letterbox_params::yolox());
}

/// Fills `batch`, images x 3 x input.height x input.width, with the images: resized to fit, padded,
/// scaled and normalised. Pixels are those of OpenCV's INTER_LINEAR. Writes one transform per
/// image, for vecdet_postprocess_yolo(). `params` null: vecdet_letterbox_params_yolo().
VECDET_C vecdet_status vecdet_letterbox(const vecdet_byte_image* images, int64_t count,
                                        vecdet_grid_size input,
                                        const vecdet_letterbox_params* params,
                                        vecdet_workspace* workspace, float* batch,
                                        vecdet_letterbox_transform* transforms) {
  return guarded([&] {
    check_pointer(images, "letterbox", "images", count);
    check_pointer(transforms, "letterbox", "transforms", count);
    std::vector<byte_image> all;
    for (int64_t i = 0; i < count; ++i)
      all.push_back({images[i].data, images[i].height, images[i].width, images[i].stride});
    const auto p = params_of<letterbox_params>(params, "letterbox", letterbox_params::yolo());
    const auto check_side = [](const char* side, int64_t size) {
      detail::check(size >= 0 && size <= 1 << 15, "letterbox", side, size, "0 to 32768 pixels");
    };
    check_side("input.height", input.height);
    check_side("input.width", input.width);
    const index_t size = product(count, 3 * input.height * input.width, "letterbox", "count");
    scratch memory(workspace);
    on_threads([&](threading policy) {
      const auto found =
          letterbox(vector_view<const byte_image>(all), vector_view<float>(batch, size),
                    {input.height, input.width}, p, memory.get<letterbox_workspace>(), policy);
      for (index_t i = 0; i < found.size(); ++i) {
        const letterbox_transform& t = found[i];
        transforms[i] = {t.scale_x, t.scale_y, t.pad_x, t.pad_y, t.size.height, t.size.width};
      }
    });
  });
}
