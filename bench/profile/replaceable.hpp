// SPDX-License-Identifier: Apache-2.0
// Recognises what vecdet can replace in a trace: single operators, and chains of operators as
// networks, torchvision and Deformable DETR write them. A chain's backward is tied to it by
// sequence number.
#pragma once

#include "torch_rules.hpp"
#include "torch_trace.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// All calls of one operator, or of one chain, with the same shapes.
struct replaceable {
  std::string what;  ///< in the trace
  std::string by;    ///< vecdet's functions
  /// vecdet's problems that replace one call, without implementation and threads.
  std::vector<entry> problems;
  std::string why_unknown;  ///< why they are not known; empty if they are
  std::uint64_t calls = 0;
  double observed_ns = 0;  ///< forward, and backward if it is tied to it
  bool has_backward = false;
};

/// Finds replaceable parts. Call visit() for the operators of each thread, in the order in which
/// they begin.
class replacement_finder {
 public:
  void begin_thread() {
    chain_.clear();
    attention_.is_open = false;
  }

  /// `e` is the operator's entry. `is_outermost`: it is not within another operator.
  void visit(const torch_operator& o, const entry& e, const trace_record& record,
             bool is_outermost) {
    const auto ns = static_cast<double>(record.end_ns - record.begin_ns);
    visit_single(o, e, ns);
    if (!is_outermost) return;
    constexpr const char* backward = "autograd::engine::evaluate_function: ";
    if (starts_with(o.name, backward)) {
      const auto tied = chain_of_.find(record.sequence);
      if (tied == chain_of_.end()) return;
      found_[tied->second].observed_ns += ns;
      found_[tied->second].has_backward = true;
      return;
    }
    if (attention_.is_open) visit_after_attention(o);
    // A call without a gradient carries the number of the next call with one. The backward of that
    // number is not its own.
    if (record.sequence >= 0) chain_of_.erase(record.sequence);
    chain_.push_back({&o, ns, record.sequence, is_view(o.name)});
    if (chain_.size() > longest_chain) chain_.pop_front();
    if (!chain_.back().is_view) visit_chains();
  }

  /// What was found, by observed time, largest first.
  std::vector<replaceable> take() {
    for (replaceable& each : found_) {
      if (each.by == "deformable_attention" || each.by == "batch_norm" || each.by == "max_pool") {
        if (!each.problems.empty()) each.why_unknown.clear();
        if (!each.has_backward) continue;
        const std::string backward = each.by + "_grad";
        each.by += ", " + backward;
        each.what += " and its backward";
        if (each.problems.empty()) continue;
        each.problems.push_back(each.problems[0]);
        each.problems[1].function = backward;
        continue;
      }
      if (each.by != "sigmoid_focal_loss" || !each.has_backward) continue;
      each.by = "sigmoid_focal_loss_and_grad";
      each.what += " and its backward";
      for (entry& problem : each.problems) problem.function = each.by;
    }
    std::stable_sort(found_.begin(), found_.end(), [](const replaceable& a, const replaceable& b) {
      return a.observed_ns > b.observed_ns;
    });
    return std::move(found_);
  }

 private:
  /// Links with views: the longest chain, deformable attention, has about 20 for each of 4 levels.
  static constexpr std::size_t longest_chain = 128;
  /// More than any model has. Other groups, or longer names, are left out.
  static constexpr std::size_t most_groups = 4096, longest_name = 4096;

  struct link {
    const torch_operator* call;
    double ns;
    std::int64_t sequence;
    bool is_view;  ///< an operator that does not compute, such as a slice
  };

  static bool is_view(const std::string& name) {
    static const std::set<std::string> views{
        "slice",     "select",     "unsqueeze", "squeeze",
        "view",      "reshape",    "expand",    "flatten",
        "transpose", "permute",    "alias",     "detach",
        "to",        "as_strided", "split",     "split_with_sizes",
        "unbind",    "contiguous", "narrow",    "unflatten",
        "t",         "chunk",      "numpy_T",   "expand_as",
        "view_as",   "result_type"};
    return starts_with(name, "aten::") && views.count(name.substr(6)) != 0;
  }

  static entry problem(const char* function, std::string variant, const std::string& type,
                       tensor_sizes shape) {
    entry e;
    e.function = function;
    e.variant = std::move(variant);
    e.type = type;
    e.shape = std::move(shape);
    return e;
  }

  /// Adds a call to the group of that name, which `describe` completes if it is new. Returns the
  /// group's number; found_.size() if there is no room for it.
  template <class Describe>
  std::size_t add_call(const std::string& what, double ns, const Describe& describe) {
    const auto known = by_name_.find(what);
    const std::size_t number = known != by_name_.end() ? known->second : found_.size();
    if (number == found_.size()) {
      if (number >= most_groups || what.size() > longest_name) return number;
      by_name_[what] = number;
      found_.emplace_back();
      found_.back().what = what;
      describe(found_.back());
      if (found_.back().problems.empty() && found_.back().why_unknown.empty())
        found_.back().why_unknown = "its shapes were not recorded";
    }
    ++found_[number].calls;
    found_[number].observed_ns += ns;
    return number;
  }

  void visit_single(const torch_operator& o, const entry& e, double ns) {
    const bool is_roi = o.name == "torchvision::roi_align",
               is_roi_backward = o.name == "torchvision::_roi_align_backward";
    const vecdet_convolution convolution =
        is_convolution(o) ? convolution_of(o, e) : vecdet_convolution();
    const bool is_other = o.name == "torchvision::nms" || is_roi || is_roi_backward;
    if (convolution.function.empty() && !is_other) return;
    add_call(e.name, ns, [&](replaceable& made) {
      if (is_convolution(o)) return describe_convolution(o, e, convolution, made);
      if (is_roi || is_roi_backward) return describe_roi_align(o, e.type, is_roi, made);
      made.by = "nms";
      if (o.sizes(0).size() == 2)
        made.problems.push_back(problem("nms", "", e.type, {o.sizes(0)[0]}));
    });
  }

  /// What computes a convolution in vecdet.
  struct vecdet_convolution {
    std::string function;  ///< of the output; empty: none
    std::string variant;
    tensor_sizes shape;
  };

  /// The sizes after `prefix` in the variant, up to the next comma.
  static tensor_sizes sizes_after(const std::string& variant, char prefix) {
    for (const std::string& word : split_text(variant, ','))
      if (!word.empty() && word[0] == prefix) return onednn_dimensions(word.substr(1));
    return {};
  }

  static vecdet_convolution convolution_of(const torch_operator& o, const entry& e) {
    const std::vector<std::string> shapes = split_text(e.implementation, ',');
    const std::size_t first = is_forward_convolution(o) ? 0 : 1;
    if (shapes.size() < first + 2 || e.type != "f32" ||
        e.variant.find("transposed") != e.variant.npos)
      return {};
    const tensor_sizes source = onednn_dimensions(shapes[first]),
                       weights = onednn_dimensions(shapes[first + 1]), one{1};
    const tensor_sizes stride = sizes_after(e.variant, 's'), groups = sizes_after(e.variant, 'g');
    if (source.size() != 4 || weights.size() != 4 || weights[2] != 3 || weights[3] != 3 ||
        sizes_after(e.variant, 'p') != one || sizes_after(e.variant, 'd') != one ||
        stride.size() != 1 || stride[0] < 1 || groups.size() != 1 || groups[0] < 1 ||
        source[1] / groups[0] != weights[1] || source[1] % groups[0] != 0)
      return {};
    const auto output = [&](std::int64_t side) { return (side + stride[0] - 1) / stride[0]; };
    const conv_layer layer{source[1],
                           weights[0],
                           groups[0],
                           stride[0],
                           e.variant.find("channels_last") != e.variant.npos,
                           source[0] * output(source[2]) * output(source[3])};
    const tensor_sizes shape{source[0], source[1], source[2], source[3], weights[0]};
    if (is_for_conv3x3(layer)) return {"conv3x3", layer.is_channels_last ? "nhwc" : "", shape};
    if (!is_for_grouped_conv3x3(layer)) return {};
    return {"grouped_conv3x3",
            std::string(layer.is_channels_last ? "nhwc_" : "") +
                (layer.stride == 2 ? "stride2_" : "") + "groups" + std::to_string(layer.groups),
            shape};
  }

  static void describe_convolution(const torch_operator& o, const entry& e,
                                   const vecdet_convolution& by, replaceable& made) {
    const std::size_t gradients = e.variant.find("grads");
    const auto add = [&](const char* suffix) {
      const std::string function = by.function + suffix;
      made.by += (made.by.empty() ? "" : ", ") + function;
      made.problems.push_back(problem(function.c_str(), by.variant, e.type, by.shape));
    };
    if (is_forward_convolution(o)) return add("");
    if (gradients == e.variant.npos || gradients + 7 > e.variant.size()) return;
    if (e.variant[gradients + 5] == '1') add("_input_grad");
    if (e.variant[gradients + 6] == '1') add("_weight_grad");
  }

  static void describe_roi_align(const torch_operator& o, const std::string& type, bool forward,
                                 replaceable& made) {
    made.by = forward ? "roi_align" : "roi_align_grad";
    const std::size_t sampling_at = forward ? 5 : 9;
    std::int64_t rows = 0, columns = 0;
    if (o.concrete(sampling_at + 1).empty() || !parse_size(o.concrete(3), rows) ||
        !parse_size(o.concrete(4), columns)) {
      made.why_unknown = "its arguments were not recorded, which PyTorch does since 2.1";
      return;
    }
    const tensor_sizes& boxes = o.sizes(1);
    const tensor_sizes& channels_of = o.sizes(0);
    if (boxes.size() != 2 || channels_of.size() != 4) return;
    std::int64_t sampling = 0;
    const bool fixed = parse_size(o.concrete(sampling_at), sampling) && sampling > 0;
    made.problems.push_back(
        problem(made.by.c_str(),
                std::string(o.concrete(sampling_at + 1) == "True" ? "aligned1_" : "aligned0_") +
                    (fixed ? "sampling" + std::to_string(sampling) : "adaptive"),
                type, {boxes[0], channels_of[1], rows, columns}));
  }

  /// Whether the last links, apart from views, are these operators; then `first` is the first of
  /// them.
  bool ends_in(const std::vector<const char*>& names, std::size_t& first) const {
    std::size_t wanted = names.size();
    for (std::size_t i = chain_.size(); i-- > 0;) {
      if (chain_[i].is_view) continue;
      const std::string& name = chain_[i].call->name;
      if (std::strncmp(name.c_str(), "aten::", 6) != 0 || name.substr(6) != names[wanted - 1])
        return false;
      if (--wanted == 0) {
        first = i;
        return true;
      }
    }
    return false;
  }

  /// The link that is the n-th after `first`, apart from views.
  const torch_operator& at(std::size_t first, std::size_t n) const {
    for (std::size_t i = first;; ++i) {
      if (chain_[i].is_view) continue;
      if (n-- == 0) return *chain_[i].call;
    }
  }

  void visit_chains() {
    // p, cross entropy, p_t, (1 - p_t)^gamma, alpha_t
    static const std::vector<const char*> focal_loss{"sigmoid", "binary_cross_entropy_with_logits",
                                                     "mul",     "rsub",
                                                     "rsub",    "mul",
                                                     "add",     "rsub",
                                                     "pow",     "mul",
                                                     "mul",     "rsub",
                                                     "mul",     "add",
                                                     "mul"};
    // areas of both lists, corners, width and height, intersection, union, quotient
    static const std::vector<const char*> box_iou{"sub", "sub", "mul", "sub", "sub",
                                                  "mul", "max", "min", "sub", "clamp",
                                                  "mul", "add", "sub", "div"};
    static const std::vector<const char*> attention_stack{"grid_sampler", "stack", "mul", "sum"},
        attention_cat{"grid_sampler", "cat", "mul", "sum"}, max_pool{"max_pool2d"};
    static const std::vector<std::vector<const char*>> normalisations{{"batch_norm", "silu"},
                                                                      {"batch_norm", "silu_"},
                                                                      {"batch_norm", "relu"},
                                                                      {"batch_norm", "relu_"}};
    std::size_t first = 0;
    if (ends_in(focal_loss, first)) {
      const torch_operator& loss = at(first, 1);
      const tensor_sizes& logits = loss.sizes(0);
      finish(first, "torchvision.ops.sigmoid_focal_loss", loss, {&logits}, [&](replaceable& made) {
        made.by = "sigmoid_focal_loss";
        if (logits.empty() || logits.back() < 1) return;
        const auto classes = logits.back();
        std::int64_t rows = 1;
        for (std::size_t i = 0; i + 1 < logits.size(); ++i) {
          if (logits[i] < 1 || rows > (std::int64_t{1} << 40) / logits[i]) return;
          rows *= logits[i];
        }
        made.problems.push_back(
            problem("sigmoid_focal_loss", "labels", type_of(loss), {rows, classes}));
      });
    } else if (ends_in(box_iou, first)) {
      const torch_operator& corners = at(first, 6);
      const tensor_sizes &a = corners.sizes(0), &b = corners.sizes(1);
      if (a.size() != 3 || a[1] != 1 || b.size() < 2 || b.size() > 3) return;
      finish(first, "torchvision.ops.box_iou", corners, {&a, &b}, [&](replaceable& made) {
        made.by = "pairwise_iou";
        made.problems.push_back(
            problem("pairwise_iou", "torchvision", type_of(corners), {a[0], b[b.size() - 2]}));
      });
    } else if (ends_in(attention_stack, first) || ends_in(attention_cat, first)) {
      visit_attention(first);
    } else if (ends_in(max_pool, first)) {
      visit_max_pool(first);
    } else if (std::any_of(normalisations.begin(), normalisations.end(),
                           [&](const auto& names) { return ends_in(names, first); })) {
      visit_batch_norm(first);
    }
  }

  /// The shape of a map of images x channels x height x width, and whether it is channels_last.
  /// Empty for other tensors, and for layouts that vecdet's functions do not read in place.
  static tensor_sizes map_of(const torch_operator& o, bool& is_channels_last) {
    const tensor_sizes& sizes = o.sizes(0);
    if (sizes.size() != 4 || std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) {
          return size < 1 || size > std::int64_t{1} << 15;
        }))
      return {};
    const tensor_sizes none, &strides = o.inputs[0].strides.empty() ? none : o.inputs[0].strides[0];
    is_channels_last = !are_dense(sizes, strides);
    return !is_channels_last || are_dense(sizes, strides, true) ? sizes : tensor_sizes();
  }

  /// Training-mode batch normalisation and the activation that follows.
  void visit_batch_norm(std::size_t first) {
    const torch_operator &norm = at(first, 0), &after = at(first, 1);
    bool is_channels_last = false;
    const tensor_sizes map = map_of(norm, is_channels_last);
    const std::string type = type_of(norm), name = after.name.substr(6, 4);  // without "aten::"
    if (map.empty() || norm.concrete(5) == "False" || (type != "f32" && type != "bf16") ||
        !is_for_batch_norm(map[0] * map[1] * map[2] * map[3], map[1], is_channels_last,
                           type == "f32", name == "silu"))
      return;
    finish(first, std::string("batch_norm and ") + name + (is_channels_last ? "/nhwc" : ""), norm,
           {&norm.sizes(0)}, [&](replaceable& made) {
             made.by = "batch_norm";
             if (norm.concrete(5).empty())
               made.why_unknown = "its arguments were not recorded, which PyTorch does since 2.1";
             else
               made.problems.push_back(
                   problem("batch_norm", (is_channels_last ? "nhwc_" : "") + name, type, map));
           });
  }

  /// Max pooling of contiguous maps. Windows of the catalogue are square, with half of their side
  /// as padding.
  void visit_max_pool(std::size_t first) {
    const torch_operator& pool = at(first, 0);
    bool is_channels_last = false;
    tensor_sizes map = map_of(pool, is_channels_last);
    const std::string type = type_of(pool);
    if (map.empty() || is_channels_last || (type != "f32" && type != "bf16")) return;
    const tensor_sizes window = concrete_list(pool.concrete(1)),
                       padding = concrete_list(pool.concrete(3));
    tensor_sizes stride = concrete_list(pool.concrete(2));
    if (stride.empty()) stride = window;
    const auto is_square = [](const tensor_sizes& sizes) {
      return !sizes.empty() && sizes.front() == sizes.back();
    };
    const auto is_one = [&](const tensor_sizes& sizes) {
      return is_square(sizes) && sizes[0] == 1;
    };
    std::string name = "max_pool2d";
    if (!window.empty())
      name += "/" + pool.concrete(1) + "," + pool.concrete(2) + "," + pool.concrete(3);
    finish(first, name, pool, {&pool.sizes(0)}, [&](replaceable& made) {
      made.by = "max_pool";
      if (window.empty()) {
        made.why_unknown = "its arguments were not recorded, which PyTorch does since 2.1";
      } else if (!is_square(window) || !is_square(stride) || !is_square(padding) ||
                 padding[0] != window[0] / 2 || window[0] > 16 || stride[0] < 1 || stride[0] > 16 ||
                 !is_one(concrete_list(pool.concrete(4))) || pool.concrete(5) != "False") {
        made.why_unknown = "only square windows with half their side as padding are measured";
      } else {
        map.push_back(stride[0]);
        made.problems.push_back(
            problem("max_pool", "window" + std::to_string(window[0]), type, map));
      }
    });
  }

  /// Each level is sampled once; `last` is the sampling of the last one.
  void visit_attention(std::size_t last) {
    std::vector<const tensor_sizes*> levels, grids;
    std::size_t first = last;
    for (std::size_t i = last + 1; i-- > 0;) {
      if (chain_[i].is_view) continue;
      if (chain_[i].call->name != "aten::grid_sampler") break;
      levels.insert(levels.begin(), &chain_[i].call->sizes(0));
      grids.insert(grids.begin(), &chain_[i].call->sizes(1));
      first = i;
    }
    const torch_operator& sampler = *chain_[first].call;
    attention_ = attention_of(type_of(sampler), levels, grids);
    const bool is_uniform = std::all_of(
        grids.begin(), grids.end(), [&](const tensor_sizes* grid) { return *grid == *grids[0]; });
    if (is_uniform) grids.resize(1);
    levels.insert(levels.end(), grids.begin(), grids.end());
    attention_.group = finish(
        first, "deformable attention by grid_sample", sampler, levels, [](replaceable& made) {
          made.by = "deformable_attention";
          made.why_unknown = "its shapes, or how many heads it has, were not recorded";
        });
    if (attention_.group == found_.size()) attention_.is_open = false;
  }

  /// A call of deformable attention. Its operators show only the product of images and heads; an
  /// operator after it tells them apart.
  struct open_attention {
    bool is_open = false;
    std::size_t group = 0;
    std::string type;
    std::int64_t images_and_heads = 0, queries = 0, channels = 0, locations = 0, points = 0;
  };

  /// Values are (images x heads) x channels x height x width, grids (images x heads) x queries x
  /// points x 2. The result is not open for other shapes.
  static open_attention attention_of(const std::string& type,
                                     const std::vector<const tensor_sizes*>& levels,
                                     const std::vector<const tensor_sizes*>& grids) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    open_attention a;
    a.type = type;
    for (std::size_t l = 0; l < levels.size(); ++l) {
      const tensor_sizes &value = *levels[l], &grid = *grids[l];
      if (value.size() != 4 || grid.size() != 4 || value[0] != grid[0] || grid[3] != 2) return a;
      for (const tensor_sizes* sizes : {&value, &grid}) {
        for (const std::int64_t size : *sizes) {
          if (size < 1 || size >= most) return a;
        }
      }
      if (l > 0 &&
          (value[0] != a.images_and_heads || value[1] != a.channels || grid[1] != a.queries))
        return a;
      a.images_and_heads = value[0];
      a.channels = value[1];
      a.queries = grid[1];
      a.locations += value[2] * value[3];
      a.points += grid[2];
      if (a.locations >= most || a.points >= most) return a;
    }
    a.is_open = true;
    return a;
  }

  /// Models view the sum as images x (heads x channels) x queries, and transpose that.
  void visit_after_attention(const torch_operator& o) {
    if (o.name == "aten::view" || o.name == "aten::reshape") return;
    attention_.is_open = false;
    if (o.name != "aten::transpose" && o.name != "aten::permute") return;
    const tensor_sizes& sum = o.sizes(0);
    if (sum.size() != 3 || sum[0] < 1 || attention_.images_and_heads % sum[0] != 0) return;
    const std::int64_t heads = attention_.images_and_heads / sum[0];
    if (sum[1] != heads * attention_.channels || sum[2] != attention_.queries) return;
    std::vector<entry>& problems = found_[attention_.group].problems;
    if (!problems.empty()) return;
    problems.push_back(problem(
        "deformable_attention", "points" + std::to_string(attention_.points), attention_.type,
        {sum[0], attention_.locations, attention_.queries, heads, attention_.channels}));
  }

  static std::string type_of(const torch_operator& o) {
    return o.inputs.empty() ? std::string() : short_type(o.inputs[0].type);
  }

  /// Notes the chain from link `first` on, and forgets it. Returns its group's number.
  template <class Describe>
  std::size_t finish(std::size_t first, const std::string& name, const torch_operator& typed,
                     const std::vector<const tensor_sizes*>& shapes, const Describe& describe) {
    std::string what = name;
    const std::string type = type_of(typed);
    if (!type.empty()) what += "/" + type;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      what += (i == 0 ? "/" : ",") + joined(*shapes[i]);
    double ns = 0;
    for (std::size_t i = first; i < chain_.size(); ++i) ns += chain_[i].ns;
    const std::size_t number = add_call(what, ns, describe);
    for (std::size_t i = first; i < chain_.size() && number < found_.size(); ++i) {
      if (chain_[i].sequence >= 0) chain_of_[chain_[i].sequence] = number;
    }
    chain_.clear();
    return number;
  }

  std::vector<replaceable> found_;
  std::map<std::string, std::size_t> by_name_;
  std::deque<link> chain_;
  open_attention attention_;
  std::unordered_map<std::int64_t, std::size_t> chain_of_;
};

}  // namespace vecdet::profile
