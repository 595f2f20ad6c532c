// SPDX-License-Identifier: Apache-2.0
// Batches of pictures, read and drawn by threads while the network computes. A batch depends only
// on the seed, the epoch and the step, not on the threads.
#pragma once

#include "canvas.hpp"
#include "dataset.hpp"
#include "options.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace detector {

/// One picture of a batch.
struct drawn_picture {
  std::size_t index = 0;  ///< index into the data set's pictures
  placement place;
  int width = 0, height = 0;    ///< of the picture's file
  std::vector<object> objects;  ///< on the canvas
};

struct batch {
  at::Tensor images;  ///< pictures x 3 x height x width
  std::vector<drawn_picture> pictures;
  /// The pictures that could not be read: index into the data set, and reason.
  std::vector<std::pair<std::size_t, std::string>> broken;
};

/// The batches of an epoch, in order.
///
/// In training, an unreadable picture is replaced by the next readable one in the epoch's order, so
/// that all batches and all ranks have the same size; in evaluation, it is left out. If no picture
/// can be read, next() throws std::runtime_error with the first reason.
class loader {
 public:
  /// Both must outlive the loader. Begins with batch `first` of the epoch.
  loader(const dataset& data, const loader_params& params, std::uint64_t epoch,
         std::size_t first = 0);
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;
  ~loader();

  /// The number of batches in the whole epoch. In training, a last global batch that would not be
  /// full is left out, unless it is the only one: pictures are then used twice.
  std::size_t batches() const noexcept { return batches_; }

  /// Returns the next batch. Call it exactly once per batch from `first` on: after the last batch
  /// it would wait forever.
  batch next();

 private:
  struct pending {
    batch content;
    std::vector<std::vector<std::pair<std::size_t, std::string>>> broken;  ///< by place
    std::vector<char> is_drawn;
    std::size_t left = 0;
  };

  std::size_t size_of(std::size_t batch_number) const noexcept;
  void work();
  void draw(pending& into, std::size_t batch_number, std::size_t place);
  bool try_to_draw(pending& into, std::size_t place, std::size_t index);

  const dataset& data_;
  const loader_params params_;
  const std::uint64_t epoch_;
  std::vector<std::size_t> order_;
  std::size_t batches_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<pending>> pending_;  ///< from batch `taken_` on
  std::size_t taken_ = 0, begun_ = 0;             ///< batches
  std::size_t place_ = 0;                         ///< next place to draw, in the batch started last
  std::exception_ptr failure_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace detector
