// SPDX-License-Identifier: Apache-2.0
// PyTorch's operators in vecdet's profile, beside vecdet's own functions, with forward and backward
// on every thread:
//
//     const vecdet::profile::torch_operators recorded;  // as long as it lives
//     vecdet::profile::enable();
//     train();
//     std::cerr << recorded.page_fault_report();
//
//     aten::convolution/s1,p1,d1,g1/f32/1x256x100x100,256x256x3x3,256
//     ConvolutionBackward0/f32/1x256x100x100
//
// A problem is an operator's name, the type of its first tensor and the shapes of all; of
// convolutions also strides, padding, dilation, groups and whether the channels lie last, by which
// vecdet-profile replay runs them alone (docs/projection.md). Operators nest as scopes do: the self
// time of aten::conv2d is what aten::convolution inside of it did not take. What recording a call
// costs is measured when recording begins: cost_ns(). It lies outside of the call itself, in the
// self time of what called it, and is taken off there by nobody.
//
// Tensors that are allocated anew bring fresh pages, which the kernel zeroes at the first write: in
// training on a CPU often more than a tenth of the time. Page faults are counted where they happen,
// by operator, and page_fault_report() says what they cost and what helps.
//
// Needs the headers of libtorch; nothing of vecdet::torch. Compile with NDEBUG, as libtorch is: its
// assertions take the inputs of operators for invalid otherwise, and those are not recorded.
#pragma once

#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// The page faults of an operator's calls, of all shapes, without those of operators inside of it.
struct page_faults {
  std::string name;
  std::uint64_t calls = 0, faults = 0;
};

/// Records PyTorch's operators while it lives. Recorded are those that begin while the profiler is
/// on. One at a time in a process; make and destroy it while no operator runs.
class torch_operators {
 public:
  torch_operators();
  ~torch_operators() { at::removeCallback(handle_); }
  torch_operators(const torch_operators&) = delete;
  torch_operators& operator=(const torch_operators&) = delete;

  /// What counting the page faults of one operator costs, in nanoseconds, as measured when this
  /// began.
  double cost_ns() const noexcept { return cost_ns_; }

  /// The operators that met fresh pages since this began, most faults first.
  std::vector<page_faults> faults() const;

  /// What fresh pages cost and what saves them, in words; empty where there were none.
  std::string page_fault_report() const;

 private:
  at::CallbackHandle handle_;
  double cost_ns_ = 0;
};

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/torch/profile.hpp>
