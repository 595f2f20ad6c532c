// SPDX-License-Identifier: Apache-2.0
#include "loader.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>

namespace detector {
namespace {

/// The number of batches drawn ahead of the current one.
constexpr std::size_t ahead = 4;

/// The boxes of an annotation refer to a picture of the size that it states. Throws
/// std::runtime_error if the picture has another one.
void check_size(const annotated_picture& source, const picture& image) {
  const std::int64_t width = image.file_width, height = image.file_height;
  const auto differs = [](std::int64_t stated, std::int64_t found) {
    return stated > 0 && stated != found;
  };
  if (!differs(source.width, width) && !differs(source.height, height)) return;
  const auto side = [](std::int64_t stated) {
    return stated > 0 ? std::to_string(stated) : std::string("?");
  };
  std::string text = source.file + ": the picture has " + std::to_string(width) + " x " +
                     std::to_string(height) + " pixels, its annotation states " +
                     side(source.width) + " x " + side(source.height);
  if (source.width == height && source.height == width)
    text += "; boxes must refer to the picture turned upright by its EXIF orientation";
  throw std::runtime_error(text);
}

}  // namespace

loader::loader(const dataset& data, const loader_params& params, std::uint64_t epoch,
               std::size_t first)
    : data_(data), params_(params), epoch_(epoch), taken_(first), begun_(first) {
  const std::size_t count = data.pictures.size();
  const std::size_t global = params.batch_size * params.ranks;
  if (params.training) {
    order_ = shuffled(count, params.seed, epoch);
    batches_ = std::max<std::size_t>(1, count / global);
  } else {
    for (std::size_t i = 0; i < count; ++i) order_.push_back(i);
    batches_ = (count + global - 1) / global;
  }
  for (std::size_t i = 0; i < std::max<std::size_t>(1, params.threads); ++i)
    threads_.emplace_back([this] { work(); });
}

loader::~loader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::size_t loader::size_of(std::size_t batch_number) const noexcept {
  if (params_.training) return params_.batch_size;
  const std::size_t first = (batch_number * params_.ranks + params_.rank) * params_.batch_size;
  return first >= order_.size() ? 0 : std::min(params_.batch_size, order_.size() - first);
}

batch loader::next() {
  std::unique_ptr<pending> ready;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] {
      return failure_ != nullptr || (!pending_.empty() && pending_.front()->left == 0);
    });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    ready = std::move(pending_.front());
    pending_.pop_front();
    ++taken_;
  }
  changed_.notify_all();
  batch& content = ready->content;
  for (auto& broken : ready->broken)
    content.broken.insert(content.broken.end(), broken.begin(), broken.end());
  // Evaluation drops unreadable pictures.
  std::vector<drawn_picture> kept;
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < content.pictures.size(); ++i) {
    if (!ready->is_drawn[i]) continue;
    places.push_back(static_cast<std::int64_t>(i));
    kept.push_back(std::move(content.pictures[i]));
  }
  if (kept.size() < content.pictures.size())
    content.images = content.images.index_select(0, at::tensor(places, at::kLong));
  content.pictures = std::move(kept);
  return std::move(content);
}

void loader::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] {
      const bool has_place = begun_ > taken_ && place_ < size_of(begun_ - 1);
      return is_over_ || has_place || (begun_ < batches_ && begun_ < taken_ + ahead);
    });
    if (is_over_) return;
    if (begun_ == taken_ || place_ >= size_of(begun_ - 1)) {
      auto fresh = std::make_unique<pending>();
      const std::size_t size = size_of(begun_);
      fresh->content.images = at::empty(
          {static_cast<std::int64_t>(size), 3, params_.canvas.height, params_.canvas.width});
      fresh->content.pictures.resize(size);
      fresh->broken.resize(size);
      fresh->is_drawn.assign(size, 0);
      fresh->left = size;
      pending_.push_back(std::move(fresh));
      ++begun_;
      place_ = 0;
      if (size == 0) changed_.notify_all();
      continue;
    }
    const std::size_t batch_number = begun_ - 1, place = place_++;
    pending& into = *pending_.back();
    lock.unlock();
    std::exception_ptr failure;
    try {
      draw(into, batch_number, place);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure != nullptr && failure_ == nullptr) failure_ = failure;
    --into.left;
    changed_.notify_all();
  }
}

void loader::draw(pending& into, std::size_t batch_number, std::size_t place) {
  const std::size_t at = (batch_number * params_.ranks + params_.rank) * params_.batch_size + place;
  const std::size_t tries = params_.training ? order_.size() : 1;
  for (std::size_t t = 0; t < tries; ++t)
    if (try_to_draw(into, place, order_[(at + t) % order_.size()])) {
      into.is_drawn[place] = 1;
      return;
    }
  if (params_.training)
    throw std::runtime_error("no picture could be read; the first error: " +
                             into.broken[place].front().second);
}

bool loader::try_to_draw(pending& into, std::size_t place, std::size_t index) {
  drawn_picture& drawn = into.content.pictures[place];
  const annotated_picture& source = data_.pictures[index];
  drawn.index = index;
  picture image;
  try {
    image = read_picture(source.file,
                         static_cast<int>(params_.canvas.width * params_.changes.largest_scale),
                         static_cast<int>(params_.canvas.height * params_.changes.largest_scale));
    check_size(source, image);
  } catch (const std::runtime_error& error) {
    into.broken[place].emplace_back(index, error.what());
    return false;
  }
  drawn.width = image.file_width;
  drawn.height = image.file_height;
  random_source random{params_.seed, epoch_, index};
  drawn.place = params_.training ? placement::random(drawn.width, drawn.height, params_.canvas,
                                                     params_.changes, random)
                                 : placement::fitted(drawn.width, drawn.height, params_.canvas);
  const std::int64_t size = 3 * std::int64_t{params_.canvas.height} * params_.canvas.width;
  draw_on_canvas(image, drawn.place, params_.canvas,
                 into.content.images.data_ptr<float>() + static_cast<std::int64_t>(place) * size);
  drawn.objects = objects_on_canvas(source.objects, drawn.place, params_.canvas);
  return true;
}

}  // namespace detector
