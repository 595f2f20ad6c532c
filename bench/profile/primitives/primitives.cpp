// SPDX-License-Identifier: Apache-2.0
// primitives.hpp with oneDNN.
#include "parts.hpp"

#include <dlfcn.h>

namespace vecdet::profile {

std::string why_no_primitives() { return {}; }

std::string primitives_version() {
  const dnnl_version_t* const version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

int set_primitive_threads(int threads) {
  // From the OpenMP that oneDNN is linked to, which may differ from this compiler's.
  static const auto set =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  static const auto most = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  static const int initial = most != nullptr ? most() : 1;
  const int chosen = threads > 0 ? threads : initial;
  if (set != nullptr) set(chosen);
  return chosen;
}

runnable_primitive make_primitive(const onednn_problem& problem) {
  using builder = dnnl::primitive_desc_base (*)(const onednn_problem&);
  static const std::map<std::string, builder> builders{
      {"convolution", primitives::convolution_like},
      {"deconvolution", primitives::convolution_like},
      {"inner_product", primitives::inner_product},
      {"matmul", primitives::matmul},
      {"pooling", primitives::pooling},
      {"pooling_v2", primitives::pooling},
      {"batch_normalization", primitives::batch_normalization},
      {"layer_normalization", primitives::layer_normalization},
      {"eltwise", primitives::eltwise},
      {"binary", primitives::binary},
      {"softmax", primitives::softmax},
      {"softmax_v2", primitives::softmax},
      {"logsoftmax", primitives::softmax},
      {"sum", primitives::sum},
      {"concat", primitives::concat},
      {"reorder", primitives::reorder}};
  const auto found = builders.find(problem.primitive);
  if (found == builders.end())
    primitives::cannot("the primitive " + problem.primitive + " is not known to replay");
  const auto unit = std::make_shared<primitives::execution_unit>(found->second(problem));
  return {[unit] { unit->run(); }, [unit] { unit->drop_output_pages(); }, unit->implementation()};
}

}  // namespace vecdet::profile
