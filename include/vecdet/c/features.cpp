// SPDX-License-Identifier: Apache-2.0
// Feature maps: RoIAlign and 3x3 convolutions.
#include <vecdet/c/support.hpp>
#include <vecdet/conv3x3.hpp>
#include <vecdet/grouped_conv3x3.hpp>
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

/// Transformed weights of a 3x3 convolution of float.
typedef struct vecdet_conv3x3_weights vecdet_conv3x3_weights;

struct vecdet_conv3x3_weights {
  vecdet::conv3x3_weights<float> weights;
};

namespace vecdet_c {
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

/// RoIAlign, arXiv 1703.06870: pools the features of each box to the height and width of `out`,
/// whose images are the boxes. `type` is that of features and output.
VECDET_C vecdet_status vecdet_roi_align(vecdet_dtype type, const vecdet_features* features,
                                        const vecdet_roi_boxes* boxes,
                                        const vecdet_roi_align_params* params,
                                        vecdet_workspace* workspace, const vecdet_features* out) {
  constexpr const char* function = "roi_align";
  return call_on_type(type, function, workspace, [&](auto of, scratch& memory, threading policy) {
    const auto p = params_of<roi_align_params>(params, function);
    using T = typename decltype(of)::type;
    roi_align(features_of<const T>(features, function, "features"),
              roi_boxes_of<compute_type<T>>(boxes, function), features_of<T>(out, function, "out"),
              p, memory.get<roi_align_workspace>(), policy);
  });
}
/// Writes the gradient with respect to the features to `grad`. `upstream` is that of the output.
VECDET_C vecdet_status vecdet_roi_align_grad(vecdet_dtype type, const vecdet_features* upstream,
                                             const vecdet_roi_boxes* boxes,
                                             const vecdet_roi_align_params* params,
                                             vecdet_workspace* workspace,
                                             const vecdet_features* grad) {
  constexpr const char* function = "roi_align_grad";
  return call_on_type(type, function, workspace, [&](auto of, scratch& memory, threading policy) {
    const auto p = params_of<roi_align_params>(params, function);
    using T = typename decltype(of)::type;
    roi_align_grad(features_of<const T>(upstream, function, "upstream"),
                   roi_boxes_of<compute_type<T>>(boxes, function),
                   features_of<T>(grad, function, "grad"), p, memory.get<roi_align_workspace>(),
                   policy);
  });
}

/// RoIAlign on a pyramid, finest level first: each box is pooled from the level that matches its
/// size. `scales` are locations per pixel, one per level. torchvision has a canonical size of 224
/// on level 4. `params` null: a sampling ratio of 2. Its spatial_scale is ignored.
VECDET_C vecdet_status vecdet_multiscale_roi_align(
    vecdet_dtype type, const vecdet_features* levels, const double* scales, int64_t level_count,
    const vecdet_roi_boxes* boxes, const vecdet_roi_align_params* params, double canonical_size,
    int64_t canonical_level, vecdet_workspace* workspace, const vecdet_features* out) {
  constexpr const char* function = "multiscale_roi_align";
  return guarded([&] {
    const auto p = multiscale_params_of(params, scales, level_count, canonical_size,
                                        canonical_level, function);
    scratch memory(workspace);
    on_type(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const auto maps = levels_of<const T>(levels, level_count, function, "levels");
      multiscale_roi_align<T>(vector_view<const feature_view<const T>>(maps),
                              roi_boxes_of<compute_type<T>>(boxes, function),
                              features_of<T>(out, function, "out"), p,
                              memory.get<roi_align_workspace>(), policy);
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
    on_type(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const auto maps = levels_of<T>(grads, level_count, function, "grads");
      multiscale_roi_align_grad(features_of<const T>(upstream, function, "upstream"),
                                roi_boxes_of<compute_type<T>>(boxes, function),
                                vector_view<const feature_view<T>>(maps), p,
                                memory.get<roi_align_workspace>(), policy);
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
      pyramid_levels(of.boxes(boxes, count), vector_view<index_t>(levels, count), level_count,
                     scale, canonical_size, canonical_level);
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
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    check_pointer(weights, "conv3x3", "weights");
    conv3x3_params<float> p;
    p.bias = optional_view(bias, weights->weights.output_channels());
    p.relu = relu != 0;
    conv3x3(features_of<const float>(input, "conv3x3", "input"), weights->weights,
            features_of<float>(output, "conv3x3", "output"), p, memory.get<conv3x3_workspace>(),
            policy);
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
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    check_pointer(weights, function, "weights");
    conv3x3_input_grad(features_of<const float>(upstream, function, "upstream"),
                       optional_features<const float>(relu_output, function, "relu_output"),
                       weights->weights, features_of<float>(grad, function, "grad"),
                       memory.get<conv3x3_workspace>(), policy);
  });
}
/// Writes the gradients with respect to the weights, output channels x input channels x 3 x 3, and
/// to the bias, unless `bias_grad` is null.
VECDET_C vecdet_status vecdet_conv3x3_weight_grad(
    const vecdet_features* input, const vecdet_features* upstream,
    const vecdet_features* relu_output, vecdet_conv3x3_tile tile, vecdet_workspace* workspace,
    const vecdet_features* weight_grad, float* bias_grad) {
  constexpr const char* function = "conv3x3_weight_grad";
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const auto weights = features_of<float>(weight_grad, function, "weight_grad");
    conv3x3_weight_grad(features_of<const float>(input, function, "input"),
                        features_of<const float>(upstream, function, "upstream"),
                        optional_features<const float>(relu_output, function, "relu_output"),
                        {weights, optional_view(bias_grad, weights.images()),
                         enum_of<vecdet::conv3x3_tile>(tile, function, "tile")},
                        memory.get<conv3x3_workspace>(), policy);
  });
}
/// Returns 1 if these functions are faster than a good direct convolution for these numbers of
/// channels and locations.
VECDET_C int vecdet_conv3x3_is_faster(int64_t input_channels, int64_t output_channels,
                                      int64_t locations, int transforms_weights) {
  return conv3x3_is_faster(input_channels, output_channels, locations, transforms_weights != 0);
}

/// 3x3 convolution of float in groups of channels, with padding 1. `weights` are output channels x
/// input channels of a group x 3 x 3. `bias` has one number per output channel; null: all 0.
VECDET_C vecdet_status vecdet_grouped_conv3x3(const vecdet_features* input,
                                              const vecdet_features* weights, const float* bias,
                                              const vecdet_grouped_conv3x3_params* params,
                                              vecdet_workspace* workspace,
                                              const vecdet_features* output) {
  constexpr const char* function = "grouped_conv3x3";
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const auto p = params_of<grouped_conv3x3_params>(params, function);
    const auto w = features_of<const float>(weights, function, "weights");
    grouped_conv3x3(features_of<const float>(input, function, "input"), w,
                    optional_view(bias, w.images()), features_of<float>(output, function, "output"),
                    p, memory.get<grouped_conv3x3_workspace>(), policy);
  });
}
/// Writes the gradient with respect to the input to `grad`.
VECDET_C vecdet_status
vecdet_grouped_conv3x3_input_grad(const vecdet_features* upstream, const vecdet_features* weights,
                                  const vecdet_grouped_conv3x3_params* params,
                                  vecdet_workspace* workspace, const vecdet_features* grad) {
  constexpr const char* function = "grouped_conv3x3_input_grad";
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const auto p = params_of<grouped_conv3x3_params>(params, function);
    grouped_conv3x3_input_grad(features_of<const float>(upstream, function, "upstream"),
                               features_of<const float>(weights, function, "weights"),
                               features_of<float>(grad, function, "grad"), p,
                               memory.get<grouped_conv3x3_workspace>(), policy);
  });
}
/// Writes the gradients with respect to the weights, and to the bias unless `bias_grad` is null.
VECDET_C vecdet_status vecdet_grouped_conv3x3_weight_grad(
    const vecdet_features* input, const vecdet_features* upstream,
    const vecdet_grouped_conv3x3_params* params, vecdet_workspace* workspace,
    const vecdet_features* weight_grad, float* bias_grad) {
  constexpr const char* function = "grouped_conv3x3_weight_grad";
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const auto p = params_of<grouped_conv3x3_params>(params, function);
    const auto grad = features_of<float>(weight_grad, function, "weight_grad");
    grouped_conv3x3_weight_grad(features_of<const float>(input, function, "input"),
                                features_of<const float>(upstream, function, "upstream"), grad,
                                optional_view(bias_grad, grad.images()), p,
                                memory.get<grouped_conv3x3_workspace>(), policy);
  });
}
