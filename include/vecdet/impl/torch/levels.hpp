// SPDX-License-Identifier: Apache-2.0
// The levels of a head in place, and tensors that are a transposed level.
#pragma once

#include <vecdet/head_levels.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

inline at::MemoryFormat format_of(head_layout layout) {
  return layout == head_layout::nhwc ? at::MemoryFormat::ChannelsLast
                                     : at::MemoryFormat::Contiguous;
}

/// Tensors of images x (anchors x columns) x height x width, one per level.
class levels {
 public:
  levels(const char* function, const char* argument, at::TensorList given)
      : argument_(argument), given_(given.vec()) {
    check(!given.empty(), function, (std::string(argument) + ".size()").c_str(), given.size(),
          "1 or more levels");
    for (const at::Tensor& level : given) {
      check_dense(function, argument, level);
      check_shape(level.dim() == 4 && level.size(0) == given[0].size(0) &&
                      level.size(1) == given[0].size(1),
                  function, argument, level,
                  "[images, anchors x columns, height, width], the first two as in level 0");
      check(level.scalar_type() == given[0].scalar_type(), function,
            (std::string(argument) + ".dtype").c_str(), c10::toString(level.scalar_type()),
            "that of level 0");
    }
    read_ = given_;
  }

  index_t images() const { return given_[0].size(0); }
  index_t channels() const { return given_[0].size(1); }
  /// The number of locations of all levels.
  index_t locations() const {
    index_t count = 0;
    for (const at::Tensor& level : given_) count += level.size(2) * level.size(3);
    return count;
  }
  const at::Tensor& first() const { return given_[0]; }

  /// The layout for which the fewest levels must be copied.
  head_layout layout() const {
    const auto lie_so = [&](at::MemoryFormat format) {
      index_t count = 0;
      for (const at::Tensor& level : given_) count += level.is_contiguous(format) ? 1 : 0;
      return count;
    };
    return lie_so(at::MemoryFormat::ChannelsLast) > lie_so(at::MemoryFormat::Contiguous)
               ? head_layout::nhwc
               : head_layout::nchw;
  }

  /// Copies levels that have another layout or type.
  void prepare_to_read(head_layout layout, at::ScalarType type) {
    layout_ = layout;
    for (std::size_t l = 0; l < given_.size(); ++l)
      read_[l] = contiguous(argument_, given_[l], type, format_of(layout));
  }

  /// The same, and allocates memory for the gradients.
  void prepare(head_layout layout, at::ScalarType type) {
    prepare_to_read(layout, type);
    const at::MemoryFormat format = format_of(layout);
    for (const at::Tensor& given : given_) {
      const at::Tensor grad = gradient_like(given);
      grads_.push_back(grad);
      const bool is_written = grad.scalar_type() == type && grad.is_contiguous(format);
      written_.push_back(is_written ? grad
                                    : at::empty(grad.sizes(), grad.options().dtype(type), format));
    }
  }

  /// Calls use(levels) with a head of `anchors` anchors per location.
  template <class T, class Use>
  auto with_head(index_t anchors, const Use& use) const {
    return with_levels<const T>(read_, anchors, use);
  }

  /// Calls use(levels, levels of the gradient) with such heads.
  template <class T, class Use>
  auto with_heads(index_t anchors, const Use& use) const {
    return with_head<T>(anchors, [&](const auto& read) {
      return with_levels<T>(written_, anchors,
                            [&](const auto& written) { return use(read, written); });
    });
  }

  /// The gradients, with the memory format of the given levels.
  const std::vector<at::Tensor>& grads() const {
    for (std::size_t l = 0; l < grads_.size(); ++l)
      if (!written_[l].is_same(grads_[l])) grads_[l].copy_(written_[l]);
    return grads_;
  }

 private:
  template <class T, class Use>
  auto with_levels(const std::vector<at::Tensor>& tensors, index_t anchors, const Use& use) const {
    std::vector<head_level<T>> list;
    for (const at::Tensor& level : tensors)
      list.push_back({static_cast<T*>(level.data_ptr()), level.size(2), level.size(3)});
    const index_t columns = anchors == 0 ? 0 : channels() / anchors;
    return use(head_view<T>(list, images(), anchors, columns, layout_));
  }

  const char* argument_;
  std::vector<at::Tensor> given_, read_, written_, grads_;
  head_layout layout_ = head_layout::nchw;
};

/// A level of a head in NCHW.
struct transposed_head {
  index_t images = 0, anchors = 0, classes = 0, locations = 0;

  explicit operator bool() const { return anchors > 0; }
  template <class T, class Element>
  head_view<T> view(const head_level<Element>& level) const {
    return {vector_view<const head_level<T>>(&level, 1), images, anchors, classes,
            head_layout::nchw};
  }
};

/// Detects whether `logits`, one row of classes per anchor, are a permuted view of a level in NCHW:
/// images x locations x classes, or images x height x width x anchors x classes as permuted by
/// torchvision's heads.
inline transposed_head find_transposed_head(const at::Tensor& logits) {
  if (logits.dim() < 3 || logits.numel() == 0 || logits.is_contiguous()) return {};
  const index_t images = logits.size(0), classes = logits.size(-1);
  if (logits.movedim(-1, 1).is_contiguous())
    return {images, 1, classes, logits.numel() / images / classes};
  if (logits.dim() == 5 && logits.permute({0, 3, 4, 1, 2}).is_contiguous())
    return {images, logits.size(3), classes, logits.size(1) * logits.size(2)};
  return {};
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
