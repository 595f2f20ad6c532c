// SPDX-License-Identifier: Apache-2.0
// PyTorch's operators in the profile.
#include <vecdet/profile/control.hpp>
#include <vecdet/profile/snapshot.hpp>
#include <vecdet/torch.hpp>
#include <vecdet/torch/profile.hpp>

#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <doctest/doctest.h>

namespace {

namespace profile = vecdet::profile;

std::vector<std::string> names_of(const profile::report& report) {
  std::vector<std::string> names;
  for (const profile::entry& entry : report.entries) names.push_back(entry.name);
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& prefix) {
  for (const std::string& name : names)
    if (name.compare(0, prefix.size(), prefix) == 0) return true;
  return false;
}

}  // namespace

TEST_CASE("PyTorch's operators appear in the profile by type and shapes, with vecdet's inside") {
  profile::reset();
  {
    const profile::torch_operators recorded;
    CHECK(recorded.cost_ns() > 0);
    at::rand({7, 5}).mm(at::rand({5, 3}));  // the profiler is off
    profile::enable();
    const at::Tensor x = at::rand({7, 5}).requires_grad_();
    x.mm(at::rand({5, 3})).sum().backward();
    vecdet::ops::sigmoid_focal_loss(at::rand({9, 4}), at::zeros({9}, at::kLong));
    profile::disable();
  }
  profile::enable();
  at::rand({70, 50}).mm(at::rand({50, 30}));  // recording has ended
  profile::disable();
  const profile::report report = profile::snapshot();
  const std::vector<std::string> names = names_of(report);
  CHECK(has(names, "aten::mm/f32/7x5,5x3"));
  CHECK(has(names, "MmBackward0/f32/7x3"));
  CHECK(has(names, "vecdet::sigmoid_focal_loss/f32/9x4,9"));
  CHECK(has(names, "sigmoid_focal_loss_unreduced/labels/f32/9x4/"));
  CHECK(!has(names, "aten::mm/f32/70x50"));
  for (const profile::entry& entry : report.entries)
    if (entry.name == "aten::mm/f32/7x5,5x3") CHECK(entry.count == 1);
}

TEST_CASE("Convolutions appear in the profile with parameters that shapes do not show") {
  profile::reset();
  {
    const profile::torch_operators recorded;
    profile::enable();
    const at::Tensor x = at::rand({1, 8, 9, 12}).requires_grad_();
    const at::Tensor grouped = at::rand({6, 4, 3, 3}).requires_grad_(), bias = at::rand({6});
    at::conv2d(x, grouped, bias, 2, 1, 1, 2).sum().backward();
    at::conv2d(x, grouped, bias, 1, 1, 1, 2);
    at::conv2d(x.contiguous(at::MemoryFormat::ChannelsLast), at::rand({4, 8, 3, 1}), {}, {1, 2},
               {1, 0}, 1);
    at::conv_transpose2d(x.detach(), at::rand({8, 5, 2, 2}), {}, 2, 0, 1);
    profile::disable();
  }
  const std::vector<std::string> names = names_of(profile::snapshot());
  CHECK(has(names, "aten::convolution/s2,p1,d1,g2/f32/1x8x9x12,6x4x3x3,6"));
  CHECK(has(names, "aten::convolution/s1,p1,d1,g2/f32/1x8x9x12,6x4x3x3,6"));
  CHECK(has(names, "aten::convolution/s1x2,p1x0,d1,g1,channels_last/f32/1x8x9x12,4x8x3x1"));
  CHECK(has(names, "aten::convolution/s2,p0,d1,g1,transposed,o1/f32/1x8x9x12,8x5x2x2"));
  CHECK(has(names, "aten::convolution_backward/s2,p1,d1,g2,grads110/f32/1x6x5x6,1x8x9x12,6x4x3x3"));
}

TEST_CASE("Shapes of several tensors are not mistaken for those of one") {
  profile::reset();
  {
    const profile::torch_operators recorded;
    profile::enable();
    at::cat({at::rand({2, 1006, 4})});
    at::cat({at::rand({2}), at::rand({4})});
    profile::disable();
  }
  const std::vector<std::string> names = names_of(profile::snapshot());
  CHECK(has(names, "aten::cat/f32/2x1006x4"));
  CHECK(has(names, "aten::cat/f32/2,4"));
}

TEST_CASE("The table of operators is only touched under its lock") {
  profile::detail::fault_table& table = profile::detail::fault_table::get();
  const profile::torch_operators recorded;
  const auto waits = [&](auto action) {
    std::unique_lock<std::mutex> lock(table.mutex);
    const std::future<void> done = std::async(std::launch::async, action);
    const bool has_waited =
        done.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout;
    lock.unlock();
    done.wait();
    return has_waited;
  };
  CHECK(waits([&] { table.of("an operator seen for the first time"); }));
  CHECK(waits([] { const profile::torch_operators another; }));
  CHECK(waits([&] { static_cast<void>(recorded.faults()); }));
  CHECK(waits([&] { static_cast<void>(recorded.denormals()); }));
}

TEST_CASE("The table of operators outlives the program's static objects") {
  // Autograd's threads may run operators until the very end. An object that the program destroys
  // would lie in a loaded file's data.
  Dl_info found{};
  static int destroyed_with_the_program = 0;
  CHECK(dladdr(&destroyed_with_the_program, &found) != 0);
  CHECK(dladdr(&profile::detail::fault_table::get(), &found) == 0);
}

TEST_CASE("Page faults are attributed to their operator") {
  const profile::torch_operators recorded;
  profile::enable();
  const at::Tensor fresh = at::zeros({64, 1024, 1024});  // 256 MB, which glibc maps again
  profile::disable();
  const std::vector<profile::page_faults> faults = recorded.faults();
  REQUIRE(!faults.empty());
  CHECK(faults[0].faults >= 100);  // far fewer where pages are huge
  const std::string report = recorded.page_fault_report();
  CHECK(report.find("MALLOC_TRIM_THRESHOLD_") != std::string::npos);
  CHECK(report.find("vecdet::keep_memory()") != std::string::npos);
  CHECK(report.find("THP_MEM_ALLOC_ENABLE") != std::string::npos);
  CHECK(report.find(faults[0].name) != std::string::npos);
}

TEST_CASE("Denormals in operands are counted on request, once for nested operators") {
  const auto run = [] {
    at::Tensor x = at::ones({4, 100});
    x[1].fill_(1e-40f);
    at::Tensor y = at::ones({4, 50}, at::kDouble).fill_(1e-310);
    profile::enable();
    at::relu(x);  // clamp_min inside it has the same operand
    at::neg(y);
    at::neg(x.t()[0]);  // with gaps in memory; views are not counted
    profile::disable();
  };
  profile::reset();
  {
    const profile::torch_operators recorded(true);
    run();
    const std::vector<profile::denormal_operands> all = recorded.denormals();
    REQUIRE(all.size() == 2);
    CHECK(all[0].name == "aten::neg");
    CHECK(all[0].denormals == 200);
    CHECK(all[1].name == "aten::relu");
    CHECK(all[1].denormals == 100);
    CHECK(all[1].numbers == 400);
    const std::string report = recorded.denormal_report();
    CHECK(report.find("25.00 %  aten::relu: 100 of 400 numbers") != std::string::npos);
    CHECK(report.find("torch.set_flush_denormal(True)") != std::string::npos);
  }
  const profile::torch_operators recorded;
  run();
  CHECK(recorded.denormals().empty());
  CHECK(recorded.denormal_report().empty());
}
