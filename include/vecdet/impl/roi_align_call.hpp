// SPDX-License-Identifier: Apache-2.0
// Shared by RoIAlign on one map and on a pyramid: checks of the boxes, their order by level and
// image, their tables, and the tasks.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/roi_align.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <string>
#include <vector>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/roi_align/roi_align.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class Real>
void check_roi_boxes(const char* function, const roi_boxes<Real>& boxes, index_t images) {
  const index_t count = boxes.boxes.size();
  check_optional_size(function, "boxes.images.size()", boxes.images.size(), count,
                      "the number of boxes");
  check(count == 0 || images > 0, function, "the number of images", images,
        "1 or more if there are boxes");
  for (index_t i = 0; i < boxes.images.size(); ++i) {
    const index_t image = boxes.images[i];
    if (image < 0 || image >= images) {
      throw_invalid_argument(function, element("boxes.images", i), label_text(boxes.images, i),
                             index_range(images, "images"));
    }
  }
  const vector_view<const index_t>& offsets = boxes.image_offsets;
  if (offsets.empty()) return;
  check(boxes.images.size() == 0, function, "boxes.images.size()", boxes.images.size(),
        "0 if image_offsets are given");
  check_size(function, "boxes.image_offsets.size()", offsets.size(), images + 1,
             "the number of images + 1");
  check_offsets(function, "boxes.image_offsets", offsets, count, "the number of boxes");
}

inline void check_roi_params(const char* function, const roi_align_params& params) {
  check(fits_float(params.spatial_scale) && static_cast<float>(params.spatial_scale) > 0, function,
        "params.spatial_scale", params.spatial_scale, "a finite float above 0");
  check(params.sampling_ratio <= 1024, function, "params.sampling_ratio", params.sampling_ratio,
        "at most 1024");
}

/// Throws unless the bins have one image per box, this number of channels and this layout.
template <class T>
void check_bins(const char* function, const char* name, const feature_view<T>& bins, index_t boxes,
                index_t channels, feature_layout layout) {
  const auto check_dimension = [&](const char* of, index_t size, index_t expected,
                                   const char* what) {
    if (size != expected)
      check_size(function, (std::string(name) + of).c_str(), size, expected, what);
  };
  check_dimension(".images()", bins.images(), boxes, "the number of boxes");
  check_dimension(".channels()", bins.channels(), channels, "the channels of the features");
  if (bins.layout() != layout)
    throw_invalid_argument(
        function, std::string(name) + ".layout()",
        bins.layout() == feature_layout::nchw ? "nchw" : "nhwc",
        std::string(layout == feature_layout::nchw ? "nchw" : "nhwc") + ", the features' layout");
}

template <class T, class Out>
void check_apart_from_boxes(const char* function, const char* name, const Out& out,
                            const roi_boxes<T>& boxes) {
  check_apart(function, name, out, "boxes.boxes", boxes.boxes);
  check_apart(function, name, out, "boxes.images", boxes.images);
  check_apart(function, name, out, "boxes.image_offsets", boxes.image_offsets);
}

/// A call whose arguments have been checked. `T` is the stored type.
template <class T>
class roi_align_call {
 public:
  using real = compute_type<T>;

  roi_align_call(const char* function, vector_view<const roi_level<T>> levels, index_t images,
                 const roi_boxes<real>& boxes, const feature_view<const T>& bins,
                 const roi_align_params& params, roi_align_buffers& buffers, threading policy)
      : function_(function),
        levels_(levels),
        boxes_(boxes),
        bins_(bins),
        params_(params),
        buffers_(buffers),
        policy_(policy),
        target_(active_isa()),
        kernels_(kernels<roi_align_kernels<T>>(target_)) {
    args_.levels = levels.data();
    args_.boxes = boxes.boxes.data();
    args_.images = images;
    args_.channels = bins.channels();
    args_.rows = bins.height();
    args_.columns = bins.width();
    args_.sampling_ratio = params.sampling_ratio;
    args_.aligned = params.aligned;
    args_.add = params.add_to_grad;
  }

  /// level_of(box) returns an index of `levels`.
  template <class LevelOf>
  void forward(T* out, const LevelOf& level_of) {
    if (bins_.size() == 0) return;
    const profile::scope timing([&] { return problem(); });
    args_.out = out;
    plan(level_of);
    if (is_nchw()) {
      forward_nchw();
    } else {
      const chunking chunks(bins_.images(), 8);
      for_each_chunk(policy_, chunks, [&](index_t, index_t first, index_t last) {
        kernels_.forward_nhwc(args_, {0, 0, first, last, 0, args_.channels, 0, 0});
      });
    }
  }

  template <class LevelOf>
  void backward(const LevelOf& level_of) {
    index_t elements = 0;
    for (const roi_level<T>& level : levels_)
      elements += args_.images * args_.channels * level.height * level.width;
    if (elements == 0) return;
    const profile::scope timing([&] { return problem(); });
    args_.upstream = bins_.data();
    plan(level_of);
    run_backward();
  }

 private:
  bool is_nchw() const { return bins_.layout() == feature_layout::nchw; }
  index_t groups() const { return levels_.size() * args_.images; }

  profile::problem problem() const {
    static constexpr const char* fixed[2][2] = {
        {"aligned0_sampling", "aligned1_sampling"},
        {"nhwc_aligned0_sampling", "nhwc_aligned1_sampling"}};
    static constexpr const char* adaptive[2][2] = {
        {"aligned0_adaptive", "aligned1_adaptive"},
        {"nhwc_aligned0_adaptive", "nhwc_aligned1_adaptive"}};
    const int layout = is_nchw() ? 0 : 1, aligned = params_.aligned ? 1 : 0;
    return {
        function_,
        params_.sampling_ratio > 0
            ? profile::numbered_name(fixed[layout][aligned],
                                     static_cast<double>(params_.sampling_ratio))
            : adaptive[layout][aligned],
        dtype_name<T>(),
        {profile::rounded_count(bins_.images()), bins_.channels(), bins_.height(), bins_.width()},
        isa_name(target_),
        policy_.threads(),
        bins_.size() * index_t{sizeof(T)}};
  }

  /// Divides `items` into few chunks per thread, because neighbouring items share work.
  chunking few_chunks(index_t items) const {
    const index_t threads = usable_threads(policy_), pieces = threads == 1 ? 1 : 8 * threads;
    return {items, std::max(index_t{1}, (items + pieces - 1) / pieces)};
  }

  /// Calls run(first, last, memory) for each chunk, with memory for `size` numbers.
  template <class Run>
  void run_chunks_with_memory(const chunking& chunks, index_t size, const Run& run) {
    for_each_chunk_with_memory(policy_, chunks, buffers_.memory, lines_for<real>(size),
                               [&](index_t first, index_t last, cache_line* memory) {
                                 run(first, last, reinterpret_cast<real*>(memory));
                               });
  }

  /// Sorts the boxes by level and image and fills their tables.
  template <class LevelOf>
  void plan(const LevelOf& level_of) {
    const index_t count = bins_.size() == 0 ? 0 : boxes_.boxes.size();
    index_t* const group_of = grown(buffers_.group_of, count);
    index_t* const begin = grown(buffers_.group_begin, groups() + 1);
    std::fill(begin, begin + groups() + 1, index_t{0});
    index_t image = 0;
    for (index_t i = 0; i < count; ++i) {
      if (boxes_.images.size() > 0) image = boxes_.images[i];
      if (!boxes_.image_offsets.empty())
        while (i >= boxes_.image_offsets[image + 1]) ++image;
      group_of[i] = level_of(i) * args_.images + image;
      ++begin[group_of[i] + 1];
    }
    for (index_t g = 0; g < groups(); ++g) begin[g + 1] += begin[g];
    roi_plan* const plans = grown(buffers_.plans, count);
    for (index_t i = 0; i < count; ++i) {
      roi_plan& to = plans[begin[group_of[i]]++];
      to.box = i;
      to.level = group_of[i] / args_.images;
      to.image = group_of[i] % args_.images;
    }
    for (index_t g = groups(); g > 0; --g) begin[g] = begin[g - 1];
    begin[0] = 0;
    args_.plans = plans;
    for (index_t g = 0; g < groups(); ++g)
      for (index_t i = begin[g]; i < begin[g + 1]; ++i)
        plans[i].by_planes = is_nchw() && args_.out != nullptr && !is_transposed(g);

    index_t widest = 0;
    for (const roi_level<T>& level : levels_) widest = std::max(widest, level.width);
    const chunking chunks = few_chunks(count);
    std::int32_t* const is_touched = grown(buffers_.is_touched, chunks.count * widest);
    for_each_chunk(policy_, chunks, [&](index_t, index_t first, index_t last) {
      kernels_.measure(args_, first, last);
    });
    if (is_nchw() && args_.out != nullptr)
      for (index_t g = 0; g < groups(); ++g)
        if (is_transposed(g))
          std::sort(plans + begin[g], plans + begin[g + 1],
                    [](const roi_plan& a, const roi_plan& b) {
                      return a.first_row != b.first_row ? a.first_row < b.first_row : a.box < b.box;
                    });
    index_t bytes = 0;
    for (index_t i = 0; i < count; ++i) {
      plans[i].offset = bytes;
      bytes += plans[i].bytes;
    }
    args_.tables = reinterpret_cast<unsigned char*>(grown(buffers_.tables, bytes / 64));
    for_each_chunk(policy_, chunks, [&](index_t c, index_t first, index_t last) {
      kernels_.fill(args_, first, last, is_touched + c * widest);
    });
  }

  /// Whether the forward pass in NCHW transposes the map of a level and image. It pays off from
  /// about one bin per 25 locations; it is done from one bin per 16 locations. Lanes are 16
  /// channels.
  bool is_transposed(index_t group) const {
    const roi_level<T>& level = levels_[group / args_.images];
    const index_t boxes = buffers_.group_begin[static_cast<std::size_t>(group + 1)] -
                          buffers_.group_begin[static_cast<std::size_t>(group)];
    return args_.channels >= roi_transposed_channels / 2 &&
           level.height * level.width <= 16 * args_.rows * args_.columns * boxes;
  }

  /// A work item is one channel of a group that is processed by planes, or a block of 16 channels
  /// and a part of the boxes of a group that is transposed.
  void forward_nchw() {
    const index_t blocks = (args_.channels + roi_transposed_channels - 1) / roi_transposed_channels;
    const index_t bins = args_.rows * args_.columns;
    index_t all_blocks = 0, by_planes = 0, memory_size = 0;
    for (index_t g = 0; g < groups(); ++g) {
      const index_t begin = buffers_.group_begin[static_cast<std::size_t>(g)];
      const index_t end = buffers_.group_begin[static_cast<std::size_t>(g + 1)];
      if (begin == end) continue;
      const roi_level<T>& level = levels_[g / args_.images];
      const index_t plane = level.height * level.width;
      if (is_transposed(g)) {
        all_blocks += blocks;
        index_t highest = 0;
        for (index_t i = begin; i < end; ++i)
          highest = std::max(highest, index_t{args_.plans[i].end_row - args_.plans[i].first_row});
        memory_size = std::max(memory_size, roi_transposed_memory(highest, level.width, bins));
      } else {
        by_planes += args_.channels;
        memory_size =
            std::max(memory_size,
                     roi_planes_memory(level.width, bins, roi_channel_block(plane) * (plane + 16)));
      }
    }
    // Boxes are divided into parts, each of which transposes its rows, only if there are fewer
    // blocks than threads can use.
    const index_t threads = usable_threads(policy_);
    const index_t enough = threads == 1 ? 1 : std::min(4 * threads, chunking::max_count);
    const index_t parts = std::max(index_t{1}, enough / std::max(index_t{1}, all_blocks));
    const chunking chunks = few_chunks(by_planes + all_blocks * parts);
    run_chunks_with_memory(chunks, memory_size, [&](index_t first, index_t last, real* memory) {
      index_t item = 0;  // the group's first item
      for (index_t g = 0; g < groups() && item < last; ++g) {
        const index_t begin = buffers_.group_begin[static_cast<std::size_t>(g)];
        const index_t end = buffers_.group_begin[static_cast<std::size_t>(g + 1)];
        if (begin == end) continue;
        const bool transposed = is_transposed(g);
        const index_t items = transposed ? blocks * parts : args_.channels;
        const index_t from = std::max(first - item, index_t{0});
        const index_t to = std::min(last - item, items);
        roi_task task{g / args_.images, g % args_.images, begin, end, from, to, 0, 0};
        if (transposed) {
          for (index_t i = from; i < to; ++i) {
            task.first_plan = begin + (end - begin) * (i % parts) / parts;
            task.last_plan = begin + (end - begin) * (i % parts + 1) / parts;
            task.first_channel = i / parts * roi_transposed_channels;
            task.last_channel =
                std::min(task.first_channel + roi_transposed_channels, args_.channels);
            kernels_.forward_transposed(args_, task, memory);
          }
        } else if (from < to) {
          kernels_.forward_planes(args_, task, memory);
        }
        item += items;
      }
    });
  }

  /// The division of all maps into tiles of as many channels and rows as stay in the cache, or of
  /// fewer rows if there are too few tiles for the threads.
  struct tiling {
    index_t channels, rows;         ///< per tile
    index_t channel_blocks, bands;  ///< per image
    index_t memory;
  };
  tiling tiles_of(const roi_level<T>& level) const {
    constexpr index_t cached = index_t{1} << 17, least_rows = 4;
    tiling tiles{};
    tiles.channels = std::min(args_.channels, is_nchw() ? roi_transposed_channels : index_t{64});
    const index_t row = level.width * roi_padded(tiles.channels);
    const index_t most = std::max(index_t{1}, cached / std::max(index_t{1}, row));
    tiles.channel_blocks = (args_.channels + tiles.channels - 1) / tiles.channels;
    const index_t threads = usable_threads(policy_), enough = threads == 1 ? 1 : 4 * threads;
    const index_t others = std::max(index_t{1}, groups() * tiles.channel_blocks);
    const index_t bands =
        std::max({index_t{1}, (level.height + most - 1) / most,
                  std::min(level.height / least_rows, (enough + others - 1) / others)});
    tiles.rows = (level.height + bands - 1) / bands;
    tiles.bands =
        level.width == 0 || level.height == 0 ? 0 : (level.height + tiles.rows - 1) / tiles.rows;
    tiles.memory = roi_backward_memory(tiles.rows * row, level.width, args_.rows * args_.columns);
    return tiles;
  }

  void run_backward() {
    index_t items = 0, memory_size = 0;
    for (const roi_level<T>& level : levels_) {
      const tiling tiles = tiles_of(level);
      items += args_.images * tiles.bands * tiles.channel_blocks;
      memory_size = std::max(memory_size, tiles.memory);
    }
    run_chunks_with_memory({items, 1}, memory_size, [&](index_t first, index_t last, real* memory) {
      index_t item = 0;  // the level's first item
      for (index_t l = 0; l < levels_.size() && item < last; ++l) {
        const tiling tiles = tiles_of(levels_[l]);
        const index_t per_image = tiles.bands * tiles.channel_blocks;
        const index_t per_level = args_.images * per_image;
        for (index_t i = std::max(first - item, index_t{0}); i < std::min(last - item, per_level);
             ++i)
          run_tile(l, i / per_image, i % per_image, tiles, memory);
        item += per_level;
      }
    });
  }

  void run_tile(index_t level, index_t image, index_t tile, const tiling& tiles, real* memory) {
    const index_t group = level * args_.images + image;
    roi_task task{};
    task.level = level;
    task.image = image;
    task.first_plan = buffers_.group_begin[static_cast<std::size_t>(group)];
    task.last_plan = buffers_.group_begin[static_cast<std::size_t>(group + 1)];
    if (args_.add && task.first_plan == task.last_plan) return;
    task.first_channel = tile % tiles.channel_blocks * tiles.channels;
    task.last_channel = std::min(task.first_channel + tiles.channels, args_.channels);
    task.first_row = tile / tiles.channel_blocks * tiles.rows;
    task.last_row = std::min(task.first_row + tiles.rows, levels_[level].height);
    (is_nchw() ? kernels_.backward_nchw : kernels_.backward_nhwc)(args_, task, memory);
  }

  const char* function_;
  vector_view<const roi_level<T>> levels_;
  const roi_boxes<real>& boxes_;
  const feature_view<const T>& bins_;
  const roi_align_params& params_;
  roi_align_buffers& buffers_;
  threading policy_;
  isa target_;
  const roi_align_kernels<T>& kernels_;
  roi_align_args<T> args_{};
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
