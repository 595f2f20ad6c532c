// SPDX-License-Identifier: Apache-2.0
// Every function of the catalogue of calls has a function in libvecdet or is listed below.
#include "test/calls/catalogue.hpp"

#include <iostream>
#include <map>
#include <set>
#include <string>

#include <dlfcn.h>

namespace {

const char* const of_networks = "is for networks, which run in a framework with its own layers";
const char* const on_head_views = "reads the levels of a head in place, for trainers in C++";

/// The functions that have none in C, with the reason.
const std::map<std::string, const char*> without = {
    {"retinanet_loss_and_grad", on_head_views},
    {"fcos_loss_and_grad", on_head_views},
    {"ssd_loss_and_grad", on_head_views},
    {"batch_norm", of_networks},
    {"batch_norm_grad", of_networks},
    {"batch_norm_inference", of_networks},
    {"max_pool", of_networks},
    {"max_pool_grad", of_networks},
};

}  // namespace

int main(int count, char** arguments) {
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) {
    std::cerr << dlerror() << "\n";
    return 1;
  }
  std::set<std::string> functions;
  vecdet::test::plain_memory memory;
  vecdet::test::for_each_call(memory, 16, vecdet::test::source::ordinary,
                              [&](const vecdet::test::family&, const vecdet::test::call& call) {
                                functions.insert(call.function);
                              });
  if (count > 2) {  // --list, for test/python/names.py
    for (const std::string& function : functions) std::cout << function << "\n";
    return 0;
  }
  int failures = functions.size() < 40;
  for (const std::string& function : functions) {
    const bool has_symbol = dlsym(library, ("vecdet_" + function).c_str()) != nullptr;
    const bool is_left_out = without.count(function) != 0;
    if (has_symbol == is_left_out) {
      std::cerr << function
                << (has_symbol ? " has a function in C and a reason not to\n"
                               : " has no function in C, and no reason in coverage.cpp\n");
      ++failures;
    }
  }
  for (const auto& [function, reason] : without) {
    if (functions.count(function) == 0) {
      std::cerr << function << ", left out as it " << reason << ", is not in the catalogue\n";
      ++failures;
    }
  }
  std::cout << functions.size() << " functions, " << failures << " failures\n";
  return failures != 0;
}
