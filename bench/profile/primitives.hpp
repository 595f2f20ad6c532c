// SPDX-License-Identifier: Apache-2.0
// oneDNN's primitives, rebuilt from a log to be run alone. Only primitives/*.cpp uses oneDNN; CMake
// compiles them if it finds oneDNN 2.6 to 3.x, and primitives_missing.cpp if it does not.
#pragma once

#include "onednn_log.hpp"

#include <functional>
#include <string>

namespace vecdet::profile {

/// A primitive with its own operands, or several that run in sequence.
struct runnable_primitive {
  std::function<void()> run;
  /// Returns the outputs' pages to the system: the next run gets new pages, as in a program that
  /// reallocates its tensors.
  std::function<void()> drop_output_pages;
  std::string implementation;  ///< oneDNN's name; for convolutions with reorders, all names
};

/// Why this build has no primitives; empty if it has them.
std::string why_no_primitives();

/// The version of oneDNN that runs them.
std::string primitives_version();

/// Sets the number of threads for primitives that this thread creates and runs from now on; 0 is
/// oneDNN's default. Returns that number.
int set_primitive_threads(int threads);

/// Creates the primitive as logged, with types, layouts, attributes and algorithm; its operands are
/// filled with small numbers. Throws std::runtime_error that names what is unknown or unsupported
/// here.
runnable_primitive make_primitive(const onednn_problem& problem);

/// The tensors around a convolution: their layout and type.
struct surroundings {
  std::string layout;  ///< nchw, channels_last, or blocked for oneDNN's choice
  std::string type;    ///< f32, bf16 or f16
};

/// A (de)convolution of the same sizes between tensors of another layout or type, with all reorders
/// that it needs: of its source, result or gradients if oneDNN wants another layout, and of its
/// weights. Weights are stored as in PyTorch: in f32, channels last for that layout, and plain for
/// the others. For nchw, oneDNN chooses the layouts that it computes in, as in PyTorch.
runnable_primitive make_convolution_within(const onednn_problem& problem,
                                           const surroundings& around);

}  // namespace vecdet::profile
