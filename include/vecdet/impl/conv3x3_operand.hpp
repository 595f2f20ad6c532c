// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of conv3x3.hpp, and their checks.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/views.hpp>

#include <string>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A feature_view or a head_view as a list of levels. T is const for inputs.
template <class T>
class conv3x3_operand {
 public:
  template <class U>
  conv3x3_operand(const feature_view<U>& map)
      : level_{map.data(), map.height(), map.width()},
        count_(map.images() > 0 ? 1 : 0),
        images_(map.images()),
        channels_(map.channels()),
        location_(map.channels()),
        is_nhwc_(map.layout() == feature_layout::nhwc) {}
  template <class U>
  conv3x3_operand(const head_view<U>& head)
      : count_(head.levels().size()),
        images_(head.images()),
        channels_(head.anchors() * head.classes()),
        location_(head.anchors() * head.channels()),
        is_nhwc_(head.layout() == head_layout::nhwc),
        has_gaps_(head.anchors() > 1 && head.channels() != head.classes()) {
    levels<U>() = head.levels();
  }

  index_t count() const { return count_; }
  index_t images() const { return images_; }
  index_t channels() const { return channels_; }
  bool is_nhwc() const { return is_nhwc_; }
  bool has_gaps() const { return has_gaps_; }
  head_level<T> level(index_t l) const {
    if (!levels_.empty()) return {levels_[l].data, levels_[l].height, levels_[l].width};
    if (!const_levels_.empty()) return level_of(const_levels_[l]);
    return level_;
  }

  conv3x3_map<T> map(index_t l) const {
    const index_t locations = level(l).height * level(l).width;
    return {level(l).data, locations * location_, is_nhwc_ ? location_ : 1,
            is_nhwc_ ? 1 : locations};
  }
  /// The memory of a level: the channels of each location, or the planes of each image.
  memory_runs memory(index_t l) const {
    const index_t locations = level(l).height * level(l).width;
    if (images_ * channels_ * locations == 0) return address_range(level(l).data, 0);
    const index_t run = is_nhwc_ ? channels_ : channels_ * locations;
    const index_t step = is_nhwc_ ? location_ : location_ * locations;
    const index_t runs = is_nhwc_ ? images_ * locations : images_;
    return {address_range(level(l).data, run), step * index_t{sizeof(T)}, runs};
  }
  std::string name(const char* argument, index_t l) const {
    return levels_.empty() && const_levels_.empty() ? std::string(argument)
                                                    : argument + element(".levels()", l);
  }

 private:
  using stored = std::remove_const_t<T>;

  template <class U>
  auto& levels() {
    if constexpr (std::is_const<U>::value)
      return const_levels_;
    else
      return levels_;
  }
  static head_level<T> level_of(const head_level<const stored>& level) {
    if constexpr (std::is_const<T>::value)
      return level;
    else
      return {};  // an output has no constant levels
  }

  vector_view<const head_level<stored>> levels_;
  vector_view<const head_level<const stored>> const_levels_;
  head_level<T> level_;
  index_t count_, images_, channels_, location_;
  bool is_nhwc_, has_gaps_ = false;
};

/// Throws unless the operand `name` has this number of channels, which `channels_source` describes,
/// and the same level sizes as `like`, which is named `model`.
template <class A, class B>
void check_conv_operand(const char* function, const char* name, const conv3x3_operand<A>& operand,
                        index_t channels, const char* channels_source, const char* model,
                        const conv3x3_operand<B>& like) {
  const auto refuse = [&](const char* what, const auto& actual, const std::string& expected) {
    throw_invalid_argument(function, (std::string(name) + what).c_str(), actual, expected.c_str());
  };
  const auto as_model = [&](const std::string& value) { return value + ", as in " + model; };
  if (operand.has_gaps())
    refuse(".channels()", "above classes()", "classes(), because there are several anchors");
  if (operand.channels() != channels)
    refuse("'s number of channels", operand.channels(),
           std::to_string(channels) + ", " + channels_source);
  if (operand.count() != like.count())
    refuse("'s number of levels", operand.count(), as_model(std::to_string(like.count())));
  if (operand.images() != like.images())
    refuse(".images()", operand.images(), as_model(std::to_string(like.images())));
  for (index_t l = 0; l < like.count(); ++l) {
    const auto& level = operand.level(l);
    const auto& expected = like.level(l);
    if (level.height == expected.height && level.width == expected.width) continue;
    const auto text = [](const auto& size) {
      return std::to_string(size.height) + " x " + std::to_string(size.width);
    };
    throw_invalid_argument(function, operand.name(name, l).c_str(), text(level),
                           as_model(text(expected)).c_str());
  }
}

/// Throws if a level of the output shares memory with the input. Names are made only before an
/// exception is thrown, because making them may allocate.
template <class A>
void check_conv_apart(const char* function, const char* output, const conv3x3_operand<A>& out,
                      const char* input, const memory_runs& in) {
  for (index_t l = 0; l < out.count(); ++l)
    if (!are_apart(out.memory(l), in)) throw_shared_memory(function, out.name(output, l), input);
}
template <class B>
void check_conv_apart(const char* function, const char* output, const memory_runs& out,
                      const char* input, const conv3x3_operand<B>& in) {
  for (index_t l = 0; l < in.count(); ++l)
    if (!are_apart(out, in.memory(l))) throw_shared_memory(function, output, in.name(input, l));
}
template <class A, class B>
void check_conv_apart(const char* function, const char* output, const conv3x3_operand<A>& out,
                      const char* input, const conv3x3_operand<B>& in) {
  for (index_t l = 0; l < out.count(); ++l)
    for (index_t m = 0; m < in.count(); ++m)
      if (!are_apart(out.memory(l), in.memory(m)))
        throw_shared_memory(function, out.name(output, l), in.name(input, m));
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
