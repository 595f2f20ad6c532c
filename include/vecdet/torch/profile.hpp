// SPDX-License-Identifier: Apache-2.0
// Records PyTorch's operators in vecdet's profile, next to vecdet's own functions, forward and
// backward, on every thread:
//
//     const vecdet::profile::torch_operators recorded;  // records until it is destroyed
//     vecdet::profile::enable();
//     train();
//     std::cerr << recorded.page_fault_report();
//
//     aten::convolution/s1,p1,d1,g1/f32/1x256x100x100,256x256x3x3,256
//     ConvolutionBackward0/f32/1x256x100x100
//
// A problem is an operator's name, the type of its first tensor and the shapes of all tensors. For
// convolutions, it also includes strides, padding, dilation, groups and whether channels are last,
// so that vecdet-profile replay can run them alone (docs/projection.md). Operators nest like
// scopes: the self time of aten::conv2d excludes aten::convolution inside it. The cost of recording
// a call is measured when recording begins: cost_ns(). This cost is outside the call itself, in the
// self time of its caller, and is not subtracted there.
//
// Newly allocated tensors have fresh pages, which the kernel zeroes at the first write. In training
// on a CPU, this often takes more than a tenth of the time. Page faults are counted per operator.
// page_fault_report() lists their cost and the settings that avoid them.
//
// On request, the denormals in operators' operands are counted as well. Denormals are numbers so
// small that they have fewer digits; processors are many times slower with them. denormal_report()
// lists the operators and the remedy. Counting reads all operands; this time is not part of the
// operators' times.
//
// This requires the headers of libtorch, but nothing of vecdet::torch. Compile with NDEBUG, as
// libtorch is compiled. Otherwise its assertions treat operators' inputs as invalid, and those are
// not recorded.
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
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// The page faults of an operator's calls with all shapes, without those of operators inside it.
struct page_faults {
  std::string name;
  std::uint64_t calls = 0, faults = 0;
};

/// The denormals in the floating-point operands of an operator's calls with all shapes. Operators
/// inside another one with operands are not counted again, nor are operands with gaps in memory.
struct denormal_operands {
  std::string name;
  std::uint64_t numbers = 0, denormals = 0;
};

/// Records PyTorch's operators while it exists. Only operators that begin while the profiler is on
/// are recorded. Use one at a time per process; create and destroy it while no operator runs.
class torch_operators {
 public:
  explicit torch_operators(bool count_denormals = false);
  ~torch_operators() { at::removeCallback(handle_); }
  torch_operators(const torch_operators&) = delete;
  torch_operators& operator=(const torch_operators&) = delete;

  /// The cost of counting the page faults of one operator, in nanoseconds, measured by the
  /// constructor.
  double cost_ns() const noexcept { return cost_ns_; }

  /// The operators that touched fresh pages since the constructor ran, most faults first.
  std::vector<page_faults> faults() const;

  /// A text with the cost of fresh pages and the settings that avoid them; empty without faults.
  std::string page_fault_report() const;

  /// The operators with denormals in their operands since the constructor ran, most denormals
  /// first; empty if they are not counted.
  std::vector<denormal_operands> denormals() const;

  /// A text with the operators and the remedy; empty without denormals.
  std::string denormal_report() const;

 private:
  at::CallbackHandle handle_;
  double cost_ns_ = 0;
};

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/torch/profile.hpp>
