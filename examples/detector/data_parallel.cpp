// SPDX-License-Identifier: Apache-2.0
#include "data_parallel.hpp"

#include "run_log.hpp"
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

#ifdef DETECTOR_C10D
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

namespace detector {
namespace {

/// The first of these variables that is set, as a number of at most `most`.
int number_of(std::initializer_list<const char*> names, int otherwise, int most = 1'000'000) {
  for (const char* name : names) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    char* end = nullptr;
    const long number = std::strtol(text, &end, 10);
    if (end == text || *end != '\0' || number < 0 || number > most)
      throw std::runtime_error(std::string(name) + " is " + text +
                               ", expected a number from 0 to " + std::to_string(most));
    return static_cast<int>(number);
  }
  return otherwise;
}

}  // namespace

#ifdef DETECTOR_C10D

namespace {

/// Newer versions of c10d listen through libuv by default, and Debian's are built without it.
template <class Options, class = decltype(Options::useLibUV)>
void listen_by_sockets(Options& options, int) {
  options.useLibUV = false;
}
template <class Options>
void listen_by_sockets(Options&, long) {}

}  // namespace

constexpr std::int64_t most_bytes = 25 << 20;  ///< of a bucket, unless one tensor is larger

struct process_group::connection {
  /// Gradients that are summed in one message, in the order in which the backward pass produces
  /// them.
  struct bucket {
    std::vector<at::Tensor> weights;
    at::Tensor sum;        ///< all of them, concatenated
    std::size_t left = 0;  ///< gradients not computed yet
    double ready = 0;      ///< seconds since the start of the step
    c10::intrusive_ptr<c10d::Work> work;
  };

  /// Tensors that are averaged in one message.
  struct averaged {
    std::vector<at::Tensor> tensors;
    at::Tensor sum;  ///< all of them, concatenated
    c10::intrusive_ptr<c10d::Work> work;
  };

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  std::vector<averaged> averages;  ///< under way
  c10::intrusive_ptr<c10d::Work> numbers_work;
  std::vector<bucket> buckets;
  std::size_t begun = 0;  ///< buckets whose sum has been started
  /// Nodes that hold the hooks; the type of pointer depends on libtorch's version.
  std::vector<decltype(torch::autograd::impl::grad_accumulator(at::Tensor()))> accumulators;
  stopwatch since_begin;
  double waited = 0;  ///< seconds spent waiting for other processes

  /// Waits until all processes have contributed.
  void finish(c10d::Work& work) {
    VECDET_PROFILE_WAIT("all_reduce");
    const stopwatch watch;
    try {
      work.wait();
    } catch (const std::exception& error) {
      throw std::runtime_error(
          std::string("another process of this training has ended or does not answer: ") +
          error.what());
    }
    waited += watch.seconds();
  }

  void add_over_all(at::Tensor tensor) {
    std::vector<at::Tensor> message{std::move(tensor)};
    finish(*group->allreduce(message));
  }

  /// Called when a weight's gradient is complete.
  void note(std::size_t bucket_index) {
    --buckets[bucket_index].left;
    // All processes must sum the buckets in the same order.
    while (begun < buckets.size() && buckets[begun].left == 0) {
      bucket& next = buckets[begun++];
      next.ready = since_begin.seconds();
      std::vector<at::Tensor> parts;
      for (const at::Tensor& weight : next.weights) parts.push_back(weight.grad().reshape({-1}));
      next.sum = at::cat(parts);
      std::vector<at::Tensor> message{next.sum};
      next.work = group->allreduce(message);
    }
  }
};

process_group::process_group(std::int64_t steps_between_messages) {
  const int size = number_of({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 1);
  const int rank = number_of({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}, 0);
  if (size < 1 || rank >= size)
    throw std::runtime_error("rank " + std::to_string(rank) + " of " + std::to_string(size) +
                             " processes: expected a rank below the number of processes");
  rank_ = static_cast<std::size_t>(rank);
  size_ = static_cast<std::size_t>(size);
  if (size == 1) return;
  const char* const address = std::getenv("MASTER_ADDR");
  if (address == nullptr)
    throw std::runtime_error("MASTER_ADDR is not set, expected the address of rank 0");
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(number_of({"MASTER_PORT"}, 29500, 65535));
  options.isServer = rank == 0;
  options.numWorkers = size;
  options.timeout = std::chrono::minutes(1);
  listen_by_sockets(options, 0);
  const auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
  constexpr std::int64_t most_minutes = 24 * 60;
  const auto gloo = c10d::ProcessGroupGloo::Options::create(
      std::chrono::minutes(std::min(steps_between_messages, most_minutes)));
  // A single machine needs no host name.
  const bool is_local = std::string(address) == "127.0.0.1";
  gloo->devices.push_back(is_local ? c10d::ProcessGroupGloo::createDeviceForHostname(address)
                                   : c10d::ProcessGroupGloo::createDefaultDevice());
  connection_ = std::make_unique<connection>();
  connection_->group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, gloo);
}

process_group::~process_group() = default;

void process_group::copy_from_rank_0(const std::vector<at::Tensor>& weights) {
  if (connection_ == nullptr) return;
  for (const at::Tensor& weight : weights) {
    std::vector<at::Tensor> broadcast_weight{weight.detach()};
    connection_->finish(*connection_->group->broadcast(broadcast_weight));
  }
}

void process_group::share_gradients(const std::vector<at::Tensor>& weights) {
  if (connection_ == nullptr) return;
  // As in PyTorch's DistributedDataParallel: the first bucket is small, so that communication
  // starts early.
  constexpr std::int64_t first_bytes = 1 << 20;
  std::vector<connection::bucket>& buckets = connection_->buckets;
  std::int64_t left = 0;
  for (std::size_t w = weights.size(); w-- > 0;) {
    if (left <= 0) {
      left = buckets.empty() ? first_bytes : most_bytes;
      buckets.emplace_back();
    }
    buckets.back().weights.push_back(weights[w]);
    left -= weights[w].numel() * static_cast<std::int64_t>(weights[w].element_size());
    auto accumulator = torch::autograd::impl::grad_accumulator(weights[w]);
    accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [connection = connection_.get(), number = buckets.size() - 1](
            const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          connection->note(number);
          return outputs;
        }));
    connection_->accumulators.push_back(std::move(accumulator));
  }
}

void process_group::begin_step() {
  if (connection_ == nullptr) return;
  connection_->begun = 0;
  connection_->since_begin = stopwatch();
  for (connection::bucket& of : connection_->buckets) of.left = of.weights.size();
}

void process_group::end_step() {
  if (connection_ == nullptr) return;
  VECDET_PROFILE_SCOPE("share gradients");
  const at::NoGradGuard no_grad;
  for (connection::bucket& of : connection_->buckets) {
    if (of.left > 0) throw std::logic_error("a weight has no gradient");
    connection_->finish(*of.work);
    of.sum.div_(static_cast<double>(size_));
    std::int64_t first = 0;
    for (at::Tensor& weight : of.weights) {
      weight.mutable_grad().copy_(of.sum.narrow(0, first, weight.numel()).view(weight.sizes()));
      first += weight.numel();
    }
  }
}

void process_group::begin_average(std::vector<at::Tensor> tensors, std::vector<double> numbers) {
  summed_ = std::move(numbers);
  if (connection_ == nullptr) return;
  const at::NoGradGuard no_grad;
  std::vector<connection::averaged>& averages = connection_->averages;
  std::int64_t left = 0;
  for (at::Tensor& tensor : tensors) {
    if (left <= 0) {
      left = most_bytes;
      averages.emplace_back();
    }
    left -= tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
    averages.back().tensors.push_back(std::move(tensor));
  }
  std::vector<at::Tensor> sums{
      at::from_blob(summed_.data(), {static_cast<std::int64_t>(summed_.size())}, at::kDouble)};
  connection_->numbers_work = connection_->group->allreduce(sums);
  for (connection::averaged& of : averages) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& tensor : of.tensors) parts.push_back(tensor.reshape({-1}));
    of.sum = at::cat(parts);
    std::vector<at::Tensor> message{of.sum};
    of.work = connection_->group->allreduce(message);
  }
}

std::vector<double> process_group::end_average() {
  if (connection_ == nullptr) return std::move(summed_);
  const at::NoGradGuard no_grad;
  connection_->finish(*connection_->numbers_work);
  for (connection::averaged& of : connection_->averages) {
    connection_->finish(*of.work);
    of.sum.div_(static_cast<double>(size_));
    std::int64_t first = 0;
    for (at::Tensor& tensor : of.tensors) {
      tensor.copy_(of.sum.narrow(0, first, tensor.numel()).view(tensor.sizes()));
      first += tensor.numel();
    }
  }
  connection_->averages.clear();
  return std::move(summed_);
}

std::vector<double> process_group::sum(std::vector<double> numbers) {
  if (connection_ == nullptr || numbers.empty()) return numbers;
  connection_->add_over_all(
      at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kDouble));
  return numbers;
}

std::vector<double> process_group::joined(const std::vector<double>& numbers) {
  if (connection_ == nullptr) return numbers;
  std::vector<double> sizes(size_);
  sizes[rank_] = static_cast<double>(numbers.size());
  sizes = sum(sizes);
  // Each process fills its part of the vector and leaves the rest 0; the sum joins the parts.
  std::vector<double> all;
  for (std::size_t r = 0; r < size_; ++r) {
    const auto count = static_cast<std::size_t>(sizes[r]);
    if (r == rank_)
      all.insert(all.end(), numbers.begin(), numbers.end());
    else
      all.resize(all.size() + count);
  }
  return sum(std::move(all));
}

std::vector<shared_bucket> process_group::buckets() const {
  std::vector<shared_bucket> all;
  if (connection_ == nullptr) return all;
  for (const connection::bucket& of : connection_->buckets) {
    std::int64_t bytes = 0;
    for (const at::Tensor& weight : of.weights)
      bytes += weight.numel() * static_cast<std::int64_t>(weight.element_size());
    all.push_back({bytes, of.ready});
  }
  return all;
}

double process_group::waited() const noexcept {
  return connection_ == nullptr ? 0 : connection_->waited;
}

std::vector<timed_message> process_group::time_messages() {
  std::vector<timed_message> timed;
  if (connection_ == nullptr) return timed;
  std::int64_t largest = connection_->buckets.empty() ? most_bytes : 0;
  for (const shared_bucket& of : buckets()) largest = std::max(largest, of.bytes);
  constexpr int repetitions = 5;
  for (const std::int64_t bytes : {std::int64_t{sizeof(float)}, largest}) {
    const at::Tensor message = at::zeros({bytes / static_cast<std::int64_t>(sizeof(float))});
    double least = std::numeric_limits<double>::infinity();
    for (int r = 0; r < repetitions; ++r) {
      connection_->add_over_all(at::zeros({1}));  // all begin together
      const stopwatch watch;
      connection_->add_over_all(message);
      least = std::min(least, watch.seconds());
    }
    timed.push_back({bytes, least});
  }
  return timed;
}

#else

struct process_group::connection {};

process_group::process_group(std::int64_t) {
  if (number_of({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 1) > 1)
    throw std::runtime_error("this program was built without c10d and supports only one process");
}
process_group::~process_group() = default;
void process_group::copy_from_rank_0(const std::vector<at::Tensor>&) {}
void process_group::share_gradients(const std::vector<at::Tensor>&) {}
void process_group::begin_average(std::vector<at::Tensor>, std::vector<double> numbers) {
  summed_ = std::move(numbers);
}
std::vector<double> process_group::end_average() { return std::move(summed_); }
void process_group::begin_step() {}
void process_group::end_step() {}
std::vector<double> process_group::sum(std::vector<double> numbers) { return numbers; }
std::vector<double> process_group::joined(const std::vector<double>& numbers) { return numbers; }
std::vector<shared_bucket> process_group::buckets() const { return {}; }
double process_group::waited() const noexcept { return 0; }
std::vector<timed_message> process_group::time_messages() { return {}; }

#endif

}  // namespace detector
