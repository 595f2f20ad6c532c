// SPDX-License-Identifier: Apache-2.0
// Training by several processes, each with its share of every batch: one mean gradient, by c10d
// over Gloo, which adds buckets of gradients while the backward pass computes others. (c10d's own
// Reducer does the same, but Debian's libtorch-dev lacks headers that its header includes.)
//
// Processes are started by hand, mpirun or Slurm; each is told who it is by its environment:
//   RANK, WORLD_SIZE             or those of Open MPI (OMPI_COMM_WORLD_RANK, ..._SIZE) or Slurm
//                                (SLURM_PROCID, SLURM_NTASKS)
//   MASTER_ADDR, MASTER_PORT     where rank 0 listens; 29500 is the port where none is given
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace detector {

/// Gradients that are added in one message.
struct shared_bucket {
  std::int64_t bytes;
  double ready;  ///< of the last step: seconds from begin_step() until it could be sent
};

/// Seconds that the sum of a message over all processes takes with nothing else going on.
struct timed_message {
  std::int64_t bytes;
  double seconds;
};

/// One of several processes, or the only one, for which all of this costs nothing. Where another
/// process ends or does not answer within `timeout_seconds`, every function, and backward(), throws
/// std::runtime_error that says so.
class process_group {
 public:
  /// Reads the environment, and waits for the other processes. Throws std::runtime_error where the
  /// environment makes no sense.
  explicit process_group(int timeout_seconds = 60);
  process_group(const process_group&) = delete;
  process_group& operator=(const process_group&) = delete;
  ~process_group();

  std::size_t rank() const noexcept { return rank_; }
  std::size_t size() const noexcept { return size_; }

  /// From now on the gradients of these weights are shared, and the weights are those of rank 0. A
  /// step is begin_step(), backward, and end_step(), which leaves the mean of all processes'
  /// gradients in the weights. All of them have to have a gradient.
  void share_gradients(const std::vector<at::Tensor>& weights);
  void begin_step();
  void end_step();
  /// In the order in which they are sent; none of a process alone.
  std::vector<shared_bucket> buckets() const;

  /// Element by element over all processes.
  std::vector<double> sum(std::vector<double> numbers);
  /// All processes' numbers, in the order of the ranks.
  std::vector<double> joined(const std::vector<double>& numbers);

  /// Seconds in which this process has waited for the others so far.
  double waited() const noexcept;
  /// Sends a message of one number and one of the largest bucket's size, a few times, and tells the
  /// least time of each. Nothing for a process alone.
  std::vector<timed_message> time_messages();

 private:
  struct connection;
  std::unique_ptr<connection> connection_;
  std::size_t rank_ = 0, size_ = 1;
};

}  // namespace detector
