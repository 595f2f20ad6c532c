// SPDX-License-Identifier: Apache-2.0
// Transformed weights of convolutions. Weights that are trained are transformed in every call;
// otherwise the result is kept for later calls.
#pragma once

#include <vecdet/conv3x3.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

inline bool is_nhwc_weight(const at::Tensor& weight) {
  return !weight.is_contiguous() && weight.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// A view of a contiguous weight, in either layout.
template <class T>
feature_view<T> weight_view(const at::Tensor& weight) {
  return {static_cast<T*>(weight.data_ptr()),
          weight.size(0),
          weight.size(1),
          3,
          3,
          is_nhwc_weight(weight) ? feature_layout::nhwc : feature_layout::nchw};
}

/// A number that distinguishes the values of two weights. A tensor's version is not enough: it does
/// not count writes through .data, which some trainers use.
inline std::uint64_t fingerprint(const feature_view<const float>& weight) {
  constexpr std::uint64_t prime = 0x9E3779B97F4A7C15;
  constexpr index_t lanes =
      4;  // independent, because each multiplication waits for the one before it
  std::uint64_t state[lanes] = {1, 2, 3, weight.layout() == feature_layout::nhwc ? 5u : 4u};
  const index_t words = weight.size() / 2;
  const float* const data = weight.data();
  const auto mix = [&](index_t lane, index_t first, std::size_t floats) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + first, floats * sizeof(float));
    state[lane] = (state[lane] ^ word) * prime;
    state[lane] ^= state[lane] >> 32;
  };
  index_t i = 0;
  for (; i + lanes <= words; i += lanes)
    for (index_t lane = 0; lane < lanes; ++lane) mix(lane, 2 * (i + lane), 2);
  for (; i < words; ++i) mix(0, 2 * i, 2);
  if (weight.size() % 2 != 0) mix(1, 2 * words, 1);
  std::uint64_t all = static_cast<std::uint64_t>(weight.images());
  for (const std::uint64_t lane : state) all = (all ^ lane) * prime;
  return all;
}

/// The transformed weights of tensors that are not trained. They take four times the memory of the
/// tensors and are freed with them. Any number of threads may use it.
class kept_weights {
 public:
  using transformed = std::shared_ptr<const conv3x3_weights<float>>;

  static kept_weights& get() {
    // Never destroyed: tensors may be used after static objects.
    static auto* const kept = new kept_weights;
    return *kept;
  }

  transformed of(const at::Tensor& tensor, const feature_view<const float>& weight,
                 conv3x3_use use) {
    const key tensor_key{tensor.unsafeGetTensorImpl(), use};
    const std::uint64_t values = fingerprint(weight);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = entries_.find(tensor_key);
      if (found != entries_.end() && found->second.values == values &&
          found->second.weights->input_channels() == weight.channels())
        return found->second.weights;
    }
    auto weights =
        std::make_shared<const conv3x3_weights<float>>(weight, use, conv3x3_tile::f4x4, threads());
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto each = entries_.begin(); each != entries_.end();)
      each = each->second.tensor.expired() ? entries_.erase(each) : std::next(each);
    entries_.erase(tensor_key);
    entries_.emplace(tensor_key, entry{weak_tensor(tensor.getIntrusivePtr()), values, weights});
    return weights;
  }

  /// Frees all of them.
  /// @return their size in bytes
  std::size_t free() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& each : entries_)
      bytes += workspace_access::buffers(*each.second.weights).size() * sizeof(cache_line);
    entries_.clear();
    return bytes;
  }

 private:
  using key = std::pair<const c10::TensorImpl*, conv3x3_use>;
  using weak_tensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct entry {
    weak_tensor tensor;  ///< so that no other tensor can get the address
    std::uint64_t values;
    transformed weights;
  };

  std::mutex mutex_;
  std::map<key, entry> entries_;
};

/// The transformed weights of a call.
class transformed_weights {
 public:
  /// @param keeps whether the result is kept for later calls
  transformed_weights(const at::Tensor& weight, conv3x3_use use, bool keeps) {
    const at::Tensor dense = contiguous(
        "weight", weight, at::kFloat,
        is_nhwc_weight(weight) ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
    const auto view = weight_view<const float>(dense);
    if (keeps) {
      kept_ = kept_weights::get().of(weight, view, use);
      weights_ = kept_.get();
    } else {
      auto& thread_weights = thread_workspace<conv3x3_weights<float>>();
      thread_weights.assign(view, use, conv3x3_tile::f4x4, threads());
      weights_ = &thread_weights;
    }
  }

  const conv3x3_weights<float>& get() const { return *weights_; }

 private:
  kept_weights::transformed kept_;
  const conv3x3_weights<float>* weights_ = nullptr;
};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
