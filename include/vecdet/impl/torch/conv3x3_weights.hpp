// SPDX-License-Identifier: Apache-2.0
// Transformed weights of convolutions. Weights that are trained are transformed in every call;
// otherwise the result is kept for later calls.
#pragma once

#include <vecdet/conv3x3.hpp>
#include <vecdet/impl/torch/aten.hpp>
#include <vecdet/impl/torch/channels_last.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/fingerprint.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

inline bool is_nhwc_weight(const at::Tensor& weight) {
  return !weight.is_contiguous() && weight.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// A weight that is contiguous in either layout.
inline at::Tensor dense_weight(const at::Tensor& weight) {
  return contiguous("weight", weight, at::kFloat, feature_format(is_nhwc_weight(weight)));
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

/// The transformed weights of tensors that are not trained. They take four times the memory of the
/// tensors. free_of() frees them; those of memory that is gone are freed when other weights are
/// transformed. Each call compares the fingerprint of the values: a tensor's version is not enough,
/// because it does not count writes through .data, which some trainers use. Any number of threads
/// may use it.
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
    const key tensor_key{tensor.data_ptr(), use};
    const std::uint64_t values =
        fingerprint_key::get()(weight.data(), static_cast<std::size_t>(weight.size()));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = entries_.find(tensor_key);
      if (found != entries_.end() && found->second.is_of(weight, values))
        return found->second.weights;
    }
    auto weights =
        std::make_shared<const conv3x3_weights<float>>(weight, use, conv3x3_tile::f4x4, threads());
    free_if([&](const auto& each) { return each.first == tensor_key || each.second.is_gone(); });
    watched_memory memory(tensor);
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.emplace(tensor_key, entry{std::move(memory), values, weight.layout(), weights});
    return weights;
  }

  /// Frees the transformed weights of the tensor whose data is at the address.
  /// @return their size in bytes
  std::size_t free_of(const void* address) {
    return free_if([&](const auto& each) { return each.first.first == address; });
  }

  /// Frees all of them.
  /// @return their size in bytes
  std::size_t free() {
    return free_if([](const auto&) { return true; });
  }

 private:
  using key = std::pair<const void*, conv3x3_use>;  ///< the address of the tensor's data
  struct entry {
    watched_memory memory;
    std::uint64_t values;  ///< the fingerprint
    feature_layout layout;
    transformed weights;

    bool is_gone() const { return memory.is_gone(); }
    bool is_of(const feature_view<const float>& weight, std::uint64_t its_values) const {
      return values == its_values && layout == weight.layout() &&
             weights->output_channels() == weight.images() &&
             weights->input_channels() == weight.channels();
    }
  };

  template <class Condition>
  std::size_t free_if(const Condition& is_freed) {
    std::vector<entry> freed;  // after the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    std::size_t bytes = 0;
    for (auto each = entries_.begin(); each != entries_.end();) {
      if (!is_freed(*each)) {
        ++each;
        continue;
      }
      bytes += workspace_access::buffers(*each->second.weights).size() * sizeof(cache_line);
      freed.push_back(std::move(each->second));
      each = entries_.erase(each);
    }
    return bytes;
  }

  std::mutex mutex_;
  std::map<key, entry> entries_;
};

/// The transformed weights of a call.
class transformed_weights {
 public:
  /// @param keeps whether the result is kept for later calls
  transformed_weights(const at::Tensor& weight, conv3x3_use use, bool keeps) {
    const at::Tensor dense = dense_weight(weight);
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
