// SPDX-License-Identifier: Apache-2.0
// RoIAlign on one feature map or on the levels of a pyramid, and its gradient.
#pragma once

#include <vecdet/impl/torch/channels_last.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/multiscale_roi_align.hpp>
#include <vecdet/roi_align.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The function's name. A single map may have any scale and needs no rule for levels.
inline const char* name_of_roi_align(std::size_t levels) {
  return levels == 1 ? "roi_align" : "multiscale_roi_align";
}

/// The widest of the maps' types, which is that of the result.
inline at::ScalarType type_of_features(at::TensorList features) {
  at::ScalarType type = features[0].scalar_type();
  for (const at::Tensor& map : features) type = c10::promoteTypes(type, map.scalar_type());
  return type;
}

inline void check_features(const char* function, at::TensorList features) {
  check(!features.empty(), function, "levels.size()", features.size(), "1 or more levels");
  for (const at::Tensor& map : features) {
    check_dense(function, "features", map);
    check_shape(
        map.dim() == 4 && map.size(0) == features[0].size(0) && map.size(1) == features[0].size(1),
        function, "features", map,
        "[images, channels, height, width] with the same images and channels on all levels");
    computed_type(function, "features", map);
  }
}

/// Boxes with their images: K x 5, an image's index and corners, or K x 4, image after image.
class boxes_of_features {
 public:
  /// @param type the compute type of the boxes: float, or double for features of double
  boxes_of_features(const char* function, const at::Tensor& boxes, at::IntArrayRef box_counts,
                    index_t images, at::ScalarType type) {
    check_dense(function, "boxes", boxes);
    check_shape(boxes.dim() == 2 && (boxes.size(1) == 4 || boxes.size(1) == 5), function, "boxes",
                boxes, "[K, 5], image and corners, or [K, 4]");
    computed_type(function, "boxes", boxes);
    const bool has_images = boxes.size(1) == 5;
    corners_ = contiguous("boxes", boxes, type);
    if (has_images) {
      if (type == at::kDouble)
        take_images_apart<double>();
      else
        take_images_apart<float>();
    }
    const index_t counts = static_cast<index_t>(box_counts.size());
    if (has_images) {
      check(counts == 0, function, "box_counts.size()", counts,
            "0, as boxes [K, 5] name their images");
    } else if (counts != 0 || images != 1) {
      check_size(function, "box_counts.size()", counts, images, "the number of images");
    }
    if (counts == 0) return;
    offsets_ = image_offsets_from(function, "box_counts", box_counts, boxes.size(0), "boxes");
  }

  index_t size() const { return corners_.size(0); }
  template <class Real>
  roi_boxes<Real> view() const {
    roi_boxes<Real> boxes;
    boxes.boxes = boxes_view<const Real>(static_cast<const Real*>(corners_.data_ptr()), size());
    if (!images_.empty()) boxes.images = labels_view(images_.data(), size());
    if (!offsets_.empty()) boxes.image_offsets = offsets_;
    return boxes;
  }

 private:
  /// Splits rows of five numbers into images and corners. PyTorch's operators would take longer for
  /// this than a small RoIAlign.
  template <class Real>
  void take_images_apart() {
    const at::Tensor rows = corners_;
    const index_t count = rows.size(0);
    corners_ = at::empty({count, 4}, rows.options());
    images_.resize(static_cast<std::size_t>(count));
    const Real* from = static_cast<const Real*>(rows.data_ptr());
    Real* to = static_cast<Real*>(corners_.data_ptr());
    for (std::int64_t& image : images_) {
      // Values that int64 cannot represent are not valid images.
      image = std::abs(*from) < Real(1e9) ? static_cast<std::int64_t>(*from) : -1;
      std::copy_n(from + 1, 4, to);
      from += 5;
      to += 4;
    }
  }

  at::Tensor corners_;
  std::vector<std::int64_t> images_;
  std::vector<index_t> offsets_;
};

/// The number of locations of the largest map.
template <class T>
index_t largest_map(const std::vector<feature_view<T>>& maps) {
  index_t largest = 0;
  for (const feature_view<T>& map : maps) largest = std::max(largest, map.height() * map.width());
  return largest;
}

/// From this number of products or elements on, it pays to wake other threads.
inline constexpr index_t worth_waking = 1 << 16;

/// The threads of a call: small calls run on the calling thread.
inline threading threads_of_roi_align(const at::Tensor& bins, std::int64_t sampling_ratio,
                                      index_t largest_map) {
  const double samples =
      sampling_ratio > 0
          ? static_cast<double>(bins.numel()) * static_cast<double>(sampling_ratio) *
                static_cast<double>(sampling_ratio)
          : static_cast<double>(bins.size(0) * bins.size(1)) *
                static_cast<double>(std::max(bins.size(2) * bins.size(3), 4 * largest_map));
  return samples < static_cast<double>(worth_waking) ? threading::sequential : threads();
}

/// The parameters for a single map.
inline roi_align_params params_of_map(const multiscale_roi_align_params& pyramid) {
  roi_align_params params;
  params.spatial_scale = pyramid.scales[0];
  params.sampling_ratio = pyramid.sampling_ratio;
  params.aligned = pyramid.aligned;
  return params;
}
inline vector_view<const double> check_scales(const char* function, at::ArrayRef<double> scales,
                                              std::size_t levels) {
  check_size(function, "scales.size()", static_cast<index_t>(scales.size()),
             static_cast<index_t>(levels), "the number of levels");
  return {scales.data(), scales.size()};
}

namespace cpu {

inline at::Tensor multiscale_roi_align(at::TensorList features, const at::Tensor& boxes,
                                       at::IntArrayRef output_size, at::ArrayRef<double> scales,
                                       const multiscale_roi_align_params& params_,
                                       at::IntArrayRef box_counts) {
  const char* const function = name_of_roi_align(features.size());
  return translated([&] {
    check_features(function, features);
    check(output_size.size() == 2, function, "output_size.size()", output_size.size(),
          "2, height and width");
    for (std::size_t i = 0; i < 2; ++i)
      check_element(output_size[i] >= 0, function, "output_size", static_cast<index_t>(i),
                    output_size[i], "0 or more");
    multiscale_roi_align_params params = params_;
    params.scales = check_scales(function, scales, features.size());
    const at::ScalarType result = type_of_features(features);
    const at::ScalarType type = result == at::kHalf ? at::kFloat : result;
    const bool channels_last = are_channels_last(features);
    const at::MemoryFormat format = feature_format(channels_last);
    std::vector<at::Tensor> maps;
    for (const at::Tensor& map : features)
      maps.push_back(contiguous("features", map, type, format));
    const boxes_of_features where(function, boxes, box_counts, maps[0].size(0),
                                  type == at::kDouble ? at::kDouble : at::kFloat);
    const at::Tensor out = at::empty(
        {where.size(), maps[0].size(1), output_size[0], output_size[1]}, maps[0].options(), format);
    with_element(type, [&](auto element) {
      using T = decltype(element);
      std::vector<feature_view<const T>> views;
      for (const at::Tensor& map : maps) views.push_back(features_of<const T>(map, channels_last));
      const threading policy = threads_of_roi_align(out, params.sampling_ratio, largest_map(views));
      const auto bins = features_of<T>(out, channels_last);
      const auto rois = where.view<compute_type<T>>();
      auto& workspace = thread_workspace<roi_align_workspace>();
      if (views.size() == 1) {
        vecdet::roi_align(views[0], rois, bins, params_of_map(params), workspace, policy);
      } else {
        vecdet::multiscale_roi_align<T>(views, rois, bins, params, workspace, policy);
      }
    });
    return out.to(result);
  });
}

/// @param sizes images, channels, and the height and width of each level
inline std::vector<at::Tensor> multiscale_roi_align_grad(
    const at::Tensor& upstream, const at::Tensor& boxes, at::IntArrayRef sizes,
    at::ArrayRef<double> scales, std::int64_t sampling_ratio, bool aligned,
    at::IntArrayRef box_counts, double canonical_size, std::int64_t canonical_level,
    bool channels_last) {
  const char* const function = name_of_roi_align(scales.size());
  return translated([&] {
    check_size(function, "sizes.size()", static_cast<index_t>(sizes.size()),
               static_cast<index_t>(2 + 2 * scales.size()),
               "images, channels, and height and width of each level");
    check_shape(upstream.dim() == 4, function, "upstream", upstream,
                "[boxes, channels, height, width]");
    multiscale_roi_align_params params;
    params.scales = check_scales(function, scales, scales.size());
    params.sampling_ratio = sampling_ratio;
    params.aligned = aligned;
    params.canonical_size = canonical_size;
    params.canonical_level = canonical_level;
    const at::ScalarType type = computed_type(function, "upstream", upstream);
    const at::MemoryFormat format = feature_format(channels_last);
    const at::Tensor bin_grads = contiguous("upstream", upstream, type, format);
    const boxes_of_features where(function, boxes, box_counts, sizes[0],
                                  type == at::kDouble ? at::kDouble : at::kFloat);
    std::vector<at::Tensor> grads;
    for (std::size_t i = 2; i < sizes.size(); i += 2)
      grads.push_back(gradient_of({sizes[0], sizes[1], sizes[i], sizes[i + 1]}, type, format));
    with_element(type, [&](auto element) {
      using T = decltype(element);
      std::vector<feature_view<T>> views;
      for (const at::Tensor& grad : grads) views.push_back(features_of<T>(grad, channels_last));
      const threading policy =
          grads[0].numel() < worth_waking
              ? threads_of_roi_align(bin_grads, sampling_ratio, largest_map(views))
              : threads();
      const auto bins = features_of<const T>(bin_grads, channels_last);
      const auto rois = where.view<compute_type<T>>();
      auto& workspace = thread_workspace<roi_align_workspace>();
      if (views.size() == 1) {
        vecdet::roi_align_grad(bins, rois, views[0], params_of_map(params), workspace, policy);
      } else {
        vecdet::multiscale_roi_align_grad(bins, rois, vector_view<const feature_view<T>>(views),
                                          params, workspace, policy);
      }
    });
    for (at::Tensor& grad : grads) grad = grad.to(upstream.scalar_type());
    return grads;
  });
}

}  // namespace cpu

// The same for tensors without data.
namespace meta {

inline at::Tensor multiscale_roi_align(at::TensorList features, const at::Tensor& boxes,
                                       at::IntArrayRef output_size, at::ArrayRef<double>,
                                       const multiscale_roi_align_params&, at::IntArrayRef) {
  TORCH_CHECK(!features.empty() && output_size.size() == 2,
              "vecdet::multiscale_roi_align: expected 1 or more levels, and height and width");
  const std::vector<c10::SymInt> sizes{boxes.sym_size(0), features[0].sym_size(1), output_size[0],
                                       output_size[1]};
  return at::empty_symint(sizes, features[0].options().dtype(type_of_features(features)),
                          feature_format(are_channels_last(features)));
}

inline std::vector<at::Tensor> multiscale_roi_align_grad(
    const at::Tensor& upstream, const at::Tensor&, c10::SymIntArrayRef sizes, at::ArrayRef<double>,
    std::int64_t, bool, at::IntArrayRef, double, std::int64_t, bool channels_last) {
  std::vector<at::Tensor> grads;
  for (std::size_t i = 2; i + 1 < sizes.size(); i += 2) {
    const std::vector<c10::SymInt> level{sizes[0], sizes[1], sizes[i], sizes[i + 1]};
    grads.push_back(at::empty_symint(level, upstream.options(), feature_format(channels_last)));
  }
  return grads;
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
