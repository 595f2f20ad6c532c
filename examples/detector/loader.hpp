// SPDX-License-Identifier: Apache-2.0
// Batches of pictures, read and drawn by threads while the network computes. What a batch holds
// depends on the seed, the epoch and the step alone, not on the threads.
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

/// What one place of a batch holds.
struct drawn_picture {
  std::size_t index = 0;  ///< of the data set's pictures
  placement place;
  int width = 0, height = 0;    ///< of the picture's file
  std::vector<object> objects;  ///< on the canvas
};

struct batch {
  at::Tensor images;  ///< pictures x 3 x height x width
  std::vector<drawn_picture> pictures;
  /// Of the pictures that could not be read: which of the data set's, and why.
  std::vector<std::pair<std::size_t, std::string>> broken;
};

/// The batches of an epoch, one after the other.
///
/// In training, a picture that cannot be read is replaced by the next of the epoch's order that
/// can, so that all batches and all ranks have the same size; in evaluation it is left out. Where
/// none can be read, next() throws std::runtime_error with the first reason.
class loader {
 public:
  /// Both have to outlive the loader. Begins with batch `first` of the epoch.
  loader(const dataset& data, const loader_params& params, std::uint64_t epoch,
         std::size_t first = 0);
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;
  ~loader();

  /// Of the whole epoch. A last global batch that would not be full is left out in training, unless
  /// it is the only one: then pictures come twice.
  std::size_t batches() const noexcept { return batches_; }

  /// The next batch. To be called as often as there are batches from `first` on: beyond them it
  /// would wait for ever.
  batch next();

 private:
  struct pending {
    batch content;
    std::vector<std::vector<std::pair<std::size_t, std::string>>> broken;  ///< of each place
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
  std::size_t place_ = 0;                         ///< next to draw, of the batch begun last
  std::exception_ptr failure_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace detector
