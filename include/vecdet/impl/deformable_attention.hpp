// SPDX-License-Identifier: Apache-2.0
// The functions of deformable_attention.hpp.
#pragma once

#include <vecdet/args/deformable_attention.hpp>
#include <vecdet/deformable_attention.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/attention_checks.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/deformable_attention/deformable_attention.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A call whose arguments have been checked.
template <class T>
class attention_call {
 public:
  using real = compute_type<T>;
  using corners = attention_corners<real>;

  attention_call(const char* function, const attention_shape& shape,
                 deformable_attention_buffers& buffers, threading policy)
      : function_(function),
        shape_(shape),
        buffers_(buffers),
        policy_(policy),
        target_(active_isa()),
        kernels_(kernels<attention_kernels<T>>(target_)),
        blocks_(attention_blocks(shape.points())) {
    args_.images = shape.images;
    args_.locations = shape.locations();
    args_.queries = shape.queries;
    args_.heads = shape.heads;
    args_.channels = shape.channels;
    args_.point_count = shape.points();
  }

  attention_args<T>& args() { return args_; }

  void forward() {
    if (outputs() == 0) return;
    const profile::scope timing([&] { return problem(8, args_.locations * values(), outputs()); });
    const attention_levels* const levels = set_levels();
    run_queries([&](const auto& source, const attention_queries& queries, corners* scratch, real*) {
      const auto run = kernel_for(source, kernels_.forward, kernels_.forward_packed);
      run(args_, source, levels, queries, scratch);
    });
  }

  void backward() {
    const bool by_points = args_.point_grad != nullptr || args_.weight_grad != nullptr;
    const bool by_value = args_.value_grad != nullptr;
    if (!by_points && !by_value) return;
    const profile::scope timing([&] {
      return problem((by_points ? 8 : 0) + (by_value ? 8 : 0),
                     ((by_points ? 1 : 0) + (by_value ? 1 : 0)) * args_.locations * values(),
                     outputs());
    });
    const index_t value_parts = by_points && by_value ? parts_beside_queries() : 0;
    if (by_points) {
      const attention_levels* const levels = set_levels();
      run_queries(
          [&](const auto& source, const attention_queries& queries, corners* scratch, real* sums) {
            const auto run = kernel_for(source, kernels_.point_grads, kernels_.point_grads_packed);
            run(args_, source, levels, queries, scratch, sums);
          },
          value_parts);
    }
    if (by_value && value_parts == 0) run_value_grad();
  }

 private:
  index_t values() const { return args_.images * args_.heads * args_.channels; }
  index_t outputs() const { return args_.queries * values(); }

  /// Images x locations x queries x heads x channels of a head.
  profile::problem problem(index_t flops, index_t value_size, index_t output_size) const {
    profile::problem p;
    p.function = function_;
    p.variant = profile::numbered_name("points", static_cast<double>(args_.point_count));
    p.type = dtype_name<T>();
    p.shape = {args_.images, args_.locations, args_.queries, args_.heads, args_.channels};
    p.implementation = isa_name(target_);
    p.threads = policy_.threads();
    p.bytes =
        (value_size + output_size) * index_t{sizeof(T)} +
        3 * args_.images * args_.queries * args_.heads * args_.point_count * index_t{sizeof(real)};
    p.flops = flops * output_size * args_.point_count;
    return p;
  }

  /// Sets the levels of all points.
  const attention_levels* set_levels() {
    attention_levels* const levels = grown(buffers_.levels, blocks_);
    index_t point = 0, location = 0;
    for (index_t l = 0; l < shape_.levels.size(); ++l) {
      const attention_level& level = shape_.levels[l];
      for (index_t k = 0; k < level.points; ++k, ++point) set_level(levels, point, level, location);
      location += level.height * level.width;
    }
    for (; point < blocks_ * attention_block; ++point) set_level(levels, point, {}, 0);
    return levels;
  }
  static void set_level(attention_levels* levels, index_t point, const attention_level& level,
                        index_t origin) {
    attention_levels& block = levels[point / attention_block];
    const index_t i = point % attention_block;
    block.width[i] = static_cast<double>(level.width);
    block.height[i] = static_cast<double>(level.height);
    block.origin[i] = static_cast<double>(origin);
  }

  /// Calls run(first, last, scratch, sums) for each chunk, with `size` sums.
  template <class Run>
  void run_with_memory(const chunking& chunks, index_t size, const Run& run) {
    const index_t scratch_lines = blocks_ * index_t{sizeof(corners)} / 64;
    const index_t lines = scratch_lines + lines_for<real>(size);
    for_each_chunk_with_memory(policy_, chunks, buffers_.memory, lines,
                               [&](index_t first, index_t last, cache_line* memory) {
                                 run(first, last, reinterpret_cast<corners*>(memory),
                                     reinterpret_cast<real*>(memory + scratch_lines));
                               });
  }

  template <class Source, class Kernel, class PackedKernel>
  static auto kernel_for(const Source&, Kernel direct, PackedKernel packed) {
    if constexpr (std::is_same<Source, attention_source<T>>::value)
      return direct;
    else
      return packed;
  }

  /// Whether the channels of each head are first copied to consecutive memory. In the value, the
  /// channels of a head are a small part of each location's, so they fall into few sets of a cache.
  /// Copying costs about as much as two points per location and head.
  bool is_packed() const {
    return (args_.heads > 1 || std::is_same<T, bfloat16>::value) &&
           args_.queries * args_.point_count >= 8 * args_.locations;
  }

  index_t channel_blocks() const { return attention_blocks(args_.channels); }

  /// The parts of each head's channels in which the same loop computes the gradients of the value
  /// and those of points and weights; 0: one loop after the other is faster. In one loop, the
  /// latter keep threads busy for which there is no part.
  index_t parts_beside_queries() const {
    if (!is_packed()) return 0;
    const auto threads = static_cast<double>(usable_threads(policy_));
    const auto heads = static_cast<double>(args_.heads);
    // In units of a head's value on one thread, which is about as much as its points and weights.
    // Each part locates the points again. Without parts, points are sorted unless heads suffice.
    constexpr double located = 0.25, sorted = 2.5;
    const auto images = static_cast<double>(args_.images);
    const double apart = images * heads / threads * (1 + (has_enough_heads() ? 1 : sorted));
    index_t best = 0;
    double shortest = apart;
    for (index_t parts = 1;
         parts <= channel_blocks() && 2 * parts * args_.heads <= chunking::max_count; ++parts) {
      const auto count = static_cast<double>(parts);
      const double part = located + (1 - located) / count;
      const double time = images * std::max(part, heads * (1 + count * part) / threads);
      if (time >= shortest) continue;
      shortest = time;
      best = parts;
    }
    return best;
  }

  /// Calls run(source, queries, scratch, sums) for all queries and heads. Also computes the value's
  /// gradient if `value_parts` is above 0.
  template <class Run>
  void run_queries(const Run& run, index_t value_parts = 0) {
    const index_t sums = 4 * attention_block;
    if (!is_packed()) {
      const attention_source<T> source{args_.value, args_.locations * args_.heads * args_.channels,
                                       args_.channels, args_.heads * args_.channels};
      // A piece has some hundred points or more, which takes a few microseconds.
      const index_t all = args_.images * args_.queries;
      const index_t least = std::max(index_t{1}, 256 / (args_.heads * args_.point_count + 1));
      const index_t pieces = even_pieces(all, usable_threads(policy_));
      run_with_memory(chunking(all, std::max(least, (all + pieces - 1) / pieces)), sums,
                      [&](index_t first, index_t last, corners* scratch, real* memory) {
                        run(source, {first, last, 0, args_.heads}, scratch, memory);
                      });
      return;
    }
    const index_t head_size = args_.locations * args_.channels;
    real* const packed =
        reinterpret_cast<real*>(grown(buffers_.packed, lines_for<real>(args_.heads * head_size)));
    const attention_source<real> source{packed, 0, head_size, args_.channels};
    // Chunks of the locations and queries of one head.
    const index_t ranges = args_.heads * value_parts;
    const index_t parts = std::max(index_t{1}, (chunking::max_count - ranges) / args_.heads);
    const auto for_each_part = [&](index_t first, index_t last, index_t count, const auto& use) {
      for (index_t i = first; i < last; ++i) {
        const index_t part = i % parts;
        use(i / parts, count * part / parts, count * (part + 1) / parts);
      }
    };
    for (index_t image = 0; image < args_.images; ++image) {
      const chunking chunks(args_.heads * parts, 1);
      for_each_chunk(policy_, chunks, [&](index_t, index_t first, index_t last) {
        for_each_part(first, last, args_.locations, [&](index_t head, index_t begin, index_t end) {
          kernels_.pack(args_, image, head, begin, end,
                        packed + head * head_size + begin * args_.channels);
        });
      });
      const auto run_parts = [&](index_t first, index_t last, corners* scratch, real* memory) {
        for_each_part(first, last, args_.queries, [&](index_t head, index_t begin, index_t end) {
          const index_t query = image * args_.queries;
          run(source, {query + begin, query + end, head, head + 1}, scratch, memory);
        });
      };
      if (value_parts == 0) {
        run_with_memory(chunks, sums, run_parts);
        continue;
      }
      const index_t blocks = channel_blocks();
      const index_t most_blocks = (blocks + value_parts - 1) / value_parts;
      std::atomic<index_t> next{0};
      // The value's gradient comes first, regardless of the policy's order: it has longer pieces.
      run_with_memory(chunking(ranges + chunks.count, 1),
                      std::max(sums, args_.locations * most_blocks * attention_block),
                      [&](index_t first, index_t last, corners* scratch, real* memory) {
                        for (; first < last; ++first) {
                          const index_t i = next.fetch_add(1, std::memory_order_relaxed);
                          if (i >= ranges) {
                            run_parts(i - ranges, i - ranges + 1, scratch, memory);
                            continue;
                          }
                          const index_t part = i % value_parts;
                          const index_t begin = blocks * part / value_parts * attention_block;
                          const index_t end = blocks * (part + 1) / value_parts * attention_block;
                          kernels_.value_grad(
                              args_, buffers_.levels.data(),
                              {image, i / value_parts, begin, std::min(end, args_.channels)},
                              scratch, memory);
                        }
                      });
    }
  }

  /// Whether all threads have about the same number of images' heads.
  bool has_enough_heads() const {
    const index_t threads = usable_threads(policy_), heads = args_.images * args_.heads;
    const index_t turns = (heads + threads - 1) / threads;
    return 10 * heads >= 9 * turns * threads;
  }

  /// A task is an image and head, or a band of its locations if images x heads leave threads idle.
  void run_value_grad() {
    const attention_levels* const levels = set_levels();
    const index_t points = args_.queries * args_.point_count;
    if (!has_enough_heads() && points > 0 && points <= most_points_in_bands) {
      run_value_grad_in_bands(levels);
      return;
    }
    run_with_memory(chunking(args_.images * args_.heads, 1),
                    args_.locations * attention_padded(args_.channels),
                    [&](index_t first, index_t last, corners* scratch, real* sums) {
                      for (index_t i = first; i < last; ++i)
                        kernels_.value_grad(args_, levels,
                                            {i / args_.heads, i % args_.heads, 0, args_.channels},
                                            scratch, sums);
                    });
  }

  /// Sorted points of a head are counted in 32 bits.
  static constexpr index_t most_points_in_bands = index_t{1} << 29;

  /// Divides the locations into bands, which are touched by about the same number of points if
  /// these are spread over each level. Returns the number of locations in the largest band.
  index_t set_bands(index_t bands) {
    index_t* const borders = grown(buffers_.borders, bands + 1);
    std::int32_t* const band_of = grown(buffers_.band_of, args_.locations);
    index_t location = 0, points = 0, band = 1;
    borders[0] = 0;
    // Points are counted in parts of 1 / bands.
    for (index_t l = 0; l < shape_.levels.size(); ++l) {
      const attention_level& level = shape_.levels[l];
      const index_t size = level.height * level.width;
      for (; band * args_.point_count < (points + level.points) * bands; ++band)
        borders[band] =
            location + size * (band * args_.point_count - points * bands) / (level.points * bands);
      location += size;
      points += level.points;
    }
    borders[bands] = location;
    index_t most = 0;
    for (index_t b = 0; b < bands; ++b) {
      most = std::max(most, borders[b + 1] - borders[b]);
      std::fill(band_of + borders[b], band_of + borders[b + 1], static_cast<std::int32_t>(b));
    }
    return most;
  }

  /// First sorts the points of some heads by band, and then adds those of each band.
  void run_value_grad_in_bands(const attention_levels* levels) {
    using point = attention_point<real>;
    constexpr index_t bytes_per_thread = index_t{1} << 20, least_queries = 8;
    const index_t threads = usable_threads(policy_), heads = args_.images * args_.heads;
    const index_t points = args_.queries * args_.point_count;
    const index_t at_once =
        std::max(index_t{1}, std::min({heads, chunking::max_count,
                                       threads * bytes_per_thread /
                                           std::max(index_t{1}, points * index_t{sizeof(point)})}));
    // Several bands and segments per thread.
    const index_t bands = std::max(
        index_t{1}, std::min((4 * threads + at_once - 1) / at_once, chunking::max_count / at_once));
    const index_t segments = std::max(index_t{1}, std::min(bands, args_.queries / least_queries));
    const index_t capacity = 4 * ((args_.queries + segments - 1) / segments) * args_.point_count;
    const index_t largest = set_bands(bands);
    point* const sorted = reinterpret_cast<point*>(
        grown_scratch(buffers_.points, lines_for<point>(at_once * segments * capacity)));
    std::int32_t* const begin = grown(buffers_.begin, at_once * segments * (bands + 1));
    const index_t unsorted = 64 * lines_for<point>(capacity);
    for (index_t head = 0; head < heads; head += at_once) {
      const index_t count = std::min(at_once, heads - head);
      run_with_memory(chunking(count * segments, 1), unsorted / index_t{sizeof(real)},
                      [&](index_t first, index_t last, corners* scratch, real* memory) {
                        for (index_t i = first; i < last; ++i) {
                          const index_t h = head + i / segments, s = i % segments;
                          kernels_.sort_points(
                              args_, levels,
                              {h / args_.heads, h % args_.heads, args_.queries * s / segments,
                               args_.queries * (s + 1) / segments, buffers_.band_of.data(), bands,
                               reinterpret_cast<point*>(memory), sorted + i * capacity,
                               begin + i * (bands + 1)},
                              scratch);
                        }
                      });
      run_with_memory(chunking(count * bands, 1), largest * attention_padded(args_.channels),
                      [&](index_t first, index_t last, corners*, real* sums) {
                        for (index_t i = first; i < last; ++i) {
                          const index_t h = i / bands, band = i % bands;
                          const index_t* const borders = buffers_.borders.data() + band;
                          kernels_.value_grad_of_band(
                              args_,
                              {(head + h) / args_.heads, (head + h) % args_.heads, band, borders[0],
                               borders[1], sorted + h * segments * capacity, capacity,
                               begin + h * segments * (bands + 1), bands + 1, segments},
                              sums);
                        }
                      });
    }
  }

  const char* function_;
  const attention_shape& shape_;
  deformable_attention_buffers& buffers_;
  threading policy_;
  isa target_;
  const attention_kernels<T>& kernels_;
  index_t blocks_;
  attention_args<T> args_{};
};

}  // namespace detail

template <class T>
void deformable_attention(vector_view<T> value, vector_view<const compute_type<value_of<T>>> points,
                          vector_view<const compute_type<value_of<T>>> weights,
                          vector_view<value_of<T>> out, const attention_shape& shape,
                          deformable_attention_workspace& workspace, threading policy) {
  using stored = value_of<T>;
  constexpr const char* function = "deformable_attention";
  detail::check_attention_inputs<stored>(function, shape, value, points, weights);
  detail::check_attention_size(function, "out.size()", out.size(),
                               {shape.images, shape.queries, shape.heads, shape.channels},
                               "images x queries x heads x channels");
  detail::check_apart(function, "out", out, "value", value);
  detail::check_apart(function, "out", out, "points", points);
  detail::check_apart(function, "out", out, "weights", weights);
  if (out.empty()) return;
  detail::attention_call<stored> call(function, shape, detail::workspace_access::buffers(workspace),
                                      policy);
  call.args().value = value.data();
  call.args().points = points.data();
  call.args().weights = weights.data();
  call.args().out = out.data();
  call.forward();
}

template <class T>
void deformable_attention_grad(vector_view<T> upstream, vector_view<const value_of<T>> value,
                               vector_view<const compute_type<value_of<T>>> points,
                               vector_view<const compute_type<value_of<T>>> weights,
                               const deformable_attention_grads<value_of<T>>& grads,
                               const attention_shape& shape,
                               deformable_attention_workspace& workspace, threading policy) {
  using stored = value_of<T>;
  constexpr const char* function = "deformable_attention_grad";
  detail::check_attention_inputs<stored>(function, shape, value, points, weights);
  detail::check_attention_size(function, "upstream.size()", upstream.size(),
                               {shape.images, shape.queries, shape.heads, shape.channels},
                               "images x queries x heads x channels");
  const auto check_output = [&](const char* name, const auto& out, const char* size_name,
                                index_t expected, const char* meaning) {
    detail::check_optional_size(function, size_name, out.size(), expected, meaning);
    detail::check_apart(function, name, out, "upstream", upstream);
    detail::check_apart(function, name, out, "value", value);
    detail::check_apart(function, name, out, "points", points);
    detail::check_apart(function, name, out, "weights", weights);
  };
  check_output("grads.value", grads.value, "grads.value.size()", value.size(), "the value's size");
  check_output("grads.points", grads.points, "grads.points.size()", points.size(),
               "the points' size");
  check_output("grads.weights", grads.weights, "grads.weights.size()", weights.size(),
               "the weights' size");
  detail::check_apart(function, "grads.points", grads.points, "grads.value", grads.value);
  detail::check_apart(function, "grads.weights", grads.weights, "grads.value", grads.value);
  detail::check_apart(function, "grads.weights", grads.weights, "grads.points", grads.points);
  detail::attention_call<stored> call(function, shape, detail::workspace_access::buffers(workspace),
                                      policy);
  call.args().value = value.data();
  call.args().points = points.data();
  call.args().weights = weights.data();
  call.args().upstream = upstream.data();
  const auto or_null = [](const auto& view) { return view.empty() ? nullptr : view.data(); };
  call.args().value_grad = or_null(grads.value);
  call.args().point_grad = or_null(grads.points);
  call.args().weight_grad = or_null(grads.weights);
  call.backward();
}

}  // namespace VECDET_ABI
}  // namespace vecdet
