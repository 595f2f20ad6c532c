// SPDX-License-Identifier: Apache-2.0
// Memory for a primitive's arguments, and its execution.
#include "parts.hpp"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace vecdet::profile::primitives {

dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

region::region(std::size_t bytes, dnnl::memory::data_type type)
    : bytes_(std::max<std::size_t>(bytes, 1)) {
  data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) cannot("no memory for its operands");
  // Numbers of moderate size: denormals and NaN slow some implementations down.
  using data_type = dnnl::memory::data_type;
  const auto fill = [&](auto value) {
    auto* const begin = static_cast<decltype(value)*>(data_);
    std::fill(begin, begin + bytes_ / sizeof value, value);
  };
  if (type == data_type::f32) {
    fill(0.5f);
  } else if (type == data_type::bf16) {
    fill(std::uint16_t{0x3f00});
  } else if (type == data_type::f16) {
    fill(std::uint16_t{0x3800});
  } else {
    fill(std::uint8_t{0});  // workspaces: the first of each window
  }
}

region::~region() { munmap(data_, bytes_); }

void region::drop_pages() const { madvise(data_, bytes_, MADV_DONTNEED); }

execution_unit::execution_unit(const dnnl::primitive_desc_base& made,
                               const std::map<int, std::shared_ptr<region>>& given)
    : primitive_(made.get()), implementation_(made.impl_info_str()) {
  std::vector<int> candidates{DNNL_ARG_SRC_0,     DNNL_ARG_SRC_1,      DNNL_ARG_DST,
                              DNNL_ARG_WEIGHTS,   DNNL_ARG_BIAS,       DNNL_ARG_MEAN,
                              DNNL_ARG_VARIANCE,  DNNL_ARG_SCALE,      DNNL_ARG_SHIFT,
                              DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD, DNNL_ARG_DIFF_SRC,
                              DNNL_ARG_DIFF_DST,  DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_WEIGHTS,
                              DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_SHIFT};
  for (int i = 0; i < most_sources; ++i) candidates.push_back(DNNL_ARG_MULTIPLE_SRC + i);
  // If a post-operation has no operand, oneDNN 2 returns uninitialised memory for it.
  const dnnl::primitive_attr attributes = made.get_primitive_attr();  // owns them
  const dnnl::post_ops operations = attributes.get_post_ops();
  for (int i = 0; i < operations.len(); ++i) {
    if (operations.kind(i) == dnnl::primitive::kind::binary)
      candidates.push_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1);
  }
  const auto has = [&](int argument) {
    return made.query_md(dnnl::query::exec_arg_md, argument).get_size() != 0;
  };
  const bool backward = has(DNNL_ARG_DIFF_DST);
  const bool is_batch_normalization_backward =
      DNNL_VERSION_MAJOR >= 3 && backward &&
      made.get_kind() == dnnl::primitive::kind::batch_normalization;
  std::map<int, descriptor> needed;
  double bytes = 0;
  for (const int argument : candidates) {
    const descriptor md = made.query_md(dnnl::query::exec_arg_md, argument);
    if (md.get_size() == 0) continue;
    // Version 3 describes the bias there but does not accept it.
    if (argument == DNNL_ARG_SHIFT && is_batch_normalization_backward) continue;
    needed.emplace(argument, md);
    bytes += static_cast<double>(md.get_size());
  }
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes > memory / 4) cannot("too large for this machine");
  for (const auto& one : needed) {
    const auto found = given.find(one.first);
    regions_.push_back(found != given.end()
                           ? found->second
                           : std::make_shared<region>(one.second.get_size(), type_of(one.second)));
    arguments_.emplace(one.first, dnnl::memory(one.second, cpu(), regions_.back()->data()));
    const bool is_output =
        backward ? one.first == DNNL_ARG_DIFF_SRC || one.first == DNNL_ARG_DIFF_WEIGHTS
                 : one.first == DNNL_ARG_DST;
    if (is_output) outputs_.push_back(regions_.back());
  }
}

void execution_unit::run() {
  static dnnl::stream stream(cpu());
  primitive_.execute(stream, arguments_);
  stream.wait();
}

void execution_unit::drop_output_pages() const {
  for (const auto& output : outputs_) output->drop_pages();
}

}  // namespace vecdet::profile::primitives
