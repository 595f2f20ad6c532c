// SPDX-License-Identifier: Apache-2.0
// Training by several processes, each with a share of every batch. Their gradients are averaged by
// c10d over Gloo, which sums buckets of gradients while the backward pass computes others. (c10d's
// own Reducer does the same, but Debian's libtorch-dev lacks headers that its header includes.)
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
/// another process ends or does not answer within `timeout_seconds`, every function, and
/// backward(), throws std::runtime_error with this reason.
class process_group {
 public:
  /// Reads the environment and waits for the other processes. Throws std::runtime_error if the
  /// environment is inconsistent.
  explicit process_group(int timeout_seconds = 60);
  process_group(const process_group&) = delete;
  process_group& operator=(const process_group&) = delete;
  ~process_group();

  std::size_t rank() const noexcept { return rank_; }
  std::size_t size() const noexcept { return size_; }

  /// Starts to share the gradients of these weights, and copies the weights from rank 0. A step is
  /// begin_step(), backward, and end_step(), which leaves the mean of all processes' gradients in
  /// the weights. Every weight must have a gradient.
  void share_gradients(const std::vector<at::Tensor>& weights);
  void begin_step();
  void end_step();
  /// In the order in which they are sent; empty for a single process.
  std::vector<shared_bucket> buckets() const;

  /// Sums element by element over all processes.
  std::vector<double> sum(std::vector<double> numbers);
  /// Returns all processes' numbers in the order of the ranks.
  std::vector<double> joined(const std::vector<double>& numbers);

  /// Seconds that this process has waited for the others so far.
  double waited() const noexcept;
  /// Sends a message of one number, and one of the size of the largest bucket, a few times. Returns
  /// the shortest time of each; empty for a single process.
  std::vector<timed_message> time_messages();

 private:
  struct connection;
  std::unique_ptr<connection> connection_;
  std::size_t rank_ = 0, size_ = 1;
};

}  // namespace detector
