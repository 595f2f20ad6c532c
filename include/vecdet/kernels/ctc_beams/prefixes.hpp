// SPDX-License-Identifier: Apache-2.0
// The prefixes of a beam search as a tree. Each class that follows a prefix is one node, even if
// the prefix leaves the beam and comes back: a table of (parent, class) finds it.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

class ctc_prefixes {
 public:
  ctc_prefixes() = default;
  ctc_prefixes(unsigned char* memory, index_t most) : slots_(slots_for(most)) {
    nodes_ = reinterpret_cast<node*>(memory);
    table_ = reinterpret_cast<index_t*>(memory + most * index_t{sizeof(node)});
    for (index_t i = 0; i < slots_; ++i) table_[i] = -1;
    nodes_[0] = {-1, -1, -1};
  }
  /// In bytes.
  static index_t size(index_t most) {
    return most * index_t{sizeof(node)} + slots_for(most) * index_t{sizeof(index_t)};
  }

  static index_t root() { return 0; }
  index_t parent(index_t prefix) const { return nodes_[prefix].parent; }
  /// The last class.
  index_t last(index_t prefix) const { return nodes_[prefix].last; }
  /// Where the prefix is in the beam, or -1.
  index_t place(index_t prefix) const { return nodes_[prefix].place; }
  void set_place(index_t prefix, index_t place) { nodes_[prefix].place = place; }

  /// The prefix with one more class.
  index_t child(index_t prefix, index_t next) {
    const auto mixed = (static_cast<std::uint64_t>(prefix) * 0x9e3779b97f4a7c15u) ^
                       (static_cast<std::uint64_t>(next) * 0xc2b2ae3d27d4eb4fu);
    auto slot =
        static_cast<index_t>((mixed ^ (mixed >> 29)) & static_cast<std::uint64_t>(slots_ - 1));
    for (; table_[slot] >= 0; slot = (slot + 1) & (slots_ - 1)) {
      const node& known = nodes_[table_[slot]];
      if (known.parent == prefix && known.last == next) return table_[slot];
    }
    nodes_[count_] = {prefix, next, -1};
    return table_[slot] = count_++;
  }

  /// Writes the classes of a prefix and returns their number.
  index_t write(index_t prefix, index_t* classes) const {
    index_t length = 0;
    for (index_t i = prefix; i != root(); i = nodes_[i].parent) ++length;
    index_t k = length;
    for (index_t i = prefix; i != root(); i = nodes_[i].parent) classes[--k] = nodes_[i].last;
    return length;
  }

 private:
  struct node {
    index_t parent, last, place;
  };

  /// At least twice as many slots as nodes, a power of two.
  static index_t slots_for(index_t most) {
    index_t slots = 2;
    while (slots < 2 * most) slots *= 2;
    return slots;
  }

  node* nodes_ = nullptr;
  index_t* table_ = nullptr;
  index_t count_ = 1, slots_ = 0;
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
