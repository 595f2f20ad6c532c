// SPDX-License-Identifier: Apache-2.0
// The runner's view of a module: the gate's problems compiled with one revision's headers. Only C
// types cross this border, so modules of different revisions can live in one process.
#pragma once

#include <cstdint>

extern "C" {

/// Problems are numbered 0 .. count-1. A problem's data, its inputs and outputs, is created by one
/// module and used by all. Its type belongs to the problem list, which all modules share.
struct vecdet_gate_module {
  std::int64_t count;
  /// "<function>/<variant>/<type>/<shape>".
  const char* (*name)(std::int64_t problem);
  /// Whether the problem's functions exist in this revision.
  bool (*exists)(std::int64_t problem);
  bool (*has_plain_loop)(std::int64_t problem);
  /// False if the instruction set is not compiled in or cannot run here.
  bool (*set_isa)(const char* isa);
  void* (*make_data)(std::int64_t problem);
  void (*free_data)(std::int64_t problem, void* data);
  void (*run)(std::int64_t problem, void* data, std::int64_t times);
  void (*run_plain_loop)(std::int64_t problem, void* data, std::int64_t times);
};

/// The only symbol exported by a module.
__attribute__((visibility("default"))) const vecdet_gate_module* vecdet_gate_open();
}
