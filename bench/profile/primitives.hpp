// SPDX-License-Identifier: Apache-2.0
// oneDNN's primitives, rebuilt from what a log says of them, to be run alone. oneDNN itself is
// known to primitives/*.cpp only, which CMake compiles where it finds oneDNN, 2.6 to 3.x; where
// not, primitives_missing.cpp stands in.
#pragma once

#include "onednn_log.hpp"

#include <functional>
#include <string>

namespace vecdet {
namespace profile {

/// A primitive with operands of its own, or several that follow each other.
struct runnable_primitive {
  std::function<void()> run;
  /// Gives the outputs' pages back to the system: the next run meets fresh ones, as in a program
  /// that allocates its tensors anew.
  std::function<void()> drop_output_pages;
  std::string implementation;  ///< oneDNN's name for it, of convolutions with reorders theirs
};

/// Why there are no primitives in this build; empty where there are.
std::string why_no_primitives();

/// The version of oneDNN that runs them.
std::string primitives_version();

/// Threads for primitives that this thread makes and runs from now on; 0 for as many as oneDNN
/// takes.
void set_primitive_threads(int threads);

/// The primitive as logged: types, layouts, attributes and algorithm, its operands filled with
/// small numbers. Throws std::runtime_error that says what is not known or not possible here.
runnable_primitive make_primitive(const onednn_problem& problem);

/// What lies around a convolution: tensors of that layout and type.
struct surroundings {
  std::string layout;  ///< nchw, channels_last, or blocked for what oneDNN chooses
  std::string type;    ///< f32, bf16 or f16
};

/// A (de)convolution of the same sizes within other surroundings, with all reorders that it needs
/// there: of its source, result, or gradients where oneDNN wants another layout than theirs, and of
/// its weights, which are kept in f32, channels last for that layout and plain otherwise, as
/// PyTorch keeps them. For nchw oneDNN chooses the layouts that it computes in, as PyTorch lets it.
runnable_primitive make_convolution_within(const onednn_problem& problem,
                                           const surroundings& around);

}  // namespace profile
}  // namespace vecdet
