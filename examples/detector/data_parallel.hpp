// SPDX-License-Identifier: Apache-2.0
// Training by several processes, each with a share of every batch. Their gradients are averaged by
// c10d over Gloo, which sums buckets of gradients while the backward pass computes others. (c10d's
// own Reducer does the same, but Debian's libtorch-dev lacks headers that its header includes.)
// Alternatively, each process steps on its own gradients, and weights are averaged every few steps.
//
// Start the processes by hand, mpirun or Slurm. Each reads its role from the environment:
//   RANK, WORLD_SIZE             or those of Open MPI (OMPI_COMM_WORLD_RANK, ..._SIZE) or Slurm
//                                (SLURM_PROCID, SLURM_NTASKS)
//   MASTER_ADDR, MASTER_PORT     the address of rank 0; the default port is 29500
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace detector {

/// Gradients that are summed in one message.
struct shared_bucket {
  std::int64_t bytes;
  double ready;  ///< in the last step: seconds from begin_step() until it was ready to send
};

/// Seconds to sum a message over all processes when nothing else runs.
struct timed_message {
  std::int64_t bytes;
  double seconds;
};

/// One of several processes, or the only one; for the only one, everything here costs nothing. If
/// another process ends or does not answer in time, every function, and backward(), throws
/// std::runtime_error with this reason. The time is a minute for each of the steps between two
/// messages, and at most a day: a process may be slower than the others in each of them.
class process_group {
 public:
  /// Reads the environment and waits for the other processes. Throws std::runtime_error if the
  /// environment is inconsistent.
  explicit process_group(std::int64_t steps_between_messages = 1);
  process_group(const process_group&) = delete;
  process_group& operator=(const process_group&) = delete;
  ~process_group();

  std::size_t rank() const noexcept { return rank_; }
  std::size_t size() const noexcept { return size_; }

  /// Copies these weights from rank 0.
  void copy_from_rank_0(const std::vector<at::Tensor>& weights);
  /// Starts to share the gradients of these weights. A step is begin_step(), backward, and
  /// end_step(), which leaves the mean of all processes' gradients in the weights. Every weight
  /// must have a gradient.
  void share_gradients(const std::vector<at::Tensor>& weights);
  void begin_step();
  void end_step();
  /// In the order in which they are sent; empty for a single process.
  std::vector<shared_bucket> buckets() const;

  /// Starts to average float tensors, in place, and to sum numbers over all processes. Both have
  /// the same sizes on each. The tensors may be read but not written until end_average().
  void begin_average(std::vector<at::Tensor> tensors, std::vector<double> numbers);
  /// Waits for all processes, and leaves the means in the tensors, with the same bits on each.
  /// Returns the sums of the numbers.
  std::vector<double> end_average();

  /// Sums element by element over all processes.
  std::vector<double> sum(std::vector<double> numbers);
  /// Returns all processes' numbers in the order of the ranks.
  std::vector<double> joined(const std::vector<double>& numbers);

  /// Seconds that this process has waited for the others so far.
  double waited() const noexcept;
  /// Sends a message of one number, and one of the size of the largest bucket of gradients, or of
  /// averages if gradients are not shared, a few times. Returns the shortest time of each; empty
  /// for a single process.
  std::vector<timed_message> time_messages();

 private:
  struct connection;
  std::vector<double> summed_;  ///< the numbers of begin_average(), which the connection writes
  std::unique_ptr<connection> connection_;
  std::size_t rank_ = 0, size_ = 1;
};

}  // namespace detector
