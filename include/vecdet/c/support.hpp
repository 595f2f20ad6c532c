// SPDX-License-Identifier: Apache-2.0
// Shared by the functions of the C interface: errors, threads, workspaces, element types, and the
// conversion of parameters.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/box_coding.hpp>
#include <vecdet/box_selection.hpp>
#include <vecdet/c/generated/fields.hpp>
#include <vecdet/c/types.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/iou_kind.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#define VECDET_C extern "C" __attribute__((visibility("default")))

/// Workspaces of all families, each created when it is first used.
struct vecdet_workspace {
  template <class Workspace>
  Workspace& get() {
    for (const part& p : parts)
      if (p.key == &key_of<Workspace>) return *static_cast<Workspace*>(p.workspace.get());
    parts.push_back({&key_of<Workspace>, std::make_shared<Workspace>()});
    return *static_cast<Workspace*>(parts.back().workspace.get());
  }

  bool is_used = false;  // whether a call uses it; only set for a thread's own workspace

 private:
  template <class Workspace>
  static inline const char key_of = 0;
  struct part {
    const char* key;
    std::shared_ptr<void> workspace;
  };
  std::vector<part> parts;
};

namespace vecdet_c {

using namespace vecdet;

/// The text of the exception being handled, for vecdet_last_error(), and its status.
vecdet_status record_failure() noexcept;

/// Runs the body of a function; no exception leaves it.
template <class Body>
vecdet_status guarded(const Body& body) noexcept {
  try {
    body();
    return VECDET_OK;
  } catch (...) {
    return record_failure();
  }
}

/// Calls body(policy) on the threads set by vecdet_set_threads().
void on_threads(void (*run)(const void* body, threading policy), const void* body);
template <class Body>
void on_threads(const Body& body) {
  on_threads(
      [](const void* stored, threading policy) { (*static_cast<const Body*>(stored))(policy); },
      &body);
}

/// The caller's workspace, or the thread's own. If a waiting thread takes a task that calls another
/// function, that inner call gets a new workspace.
class scratch {
 public:
  explicit scratch(vecdet_workspace* callers);
  ~scratch();
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  template <class Workspace>
  Workspace& get() {
    return workspace_->get<Workspace>();
  }

 private:
  vecdet_workspace* workspace_;
  bool is_threads_ = false;
  std::unique_ptr<vecdet_workspace> new_;
};

/// Throws if a pointer is null although there are elements.
inline void check_pointer(const void* pointer, const char* function, const char* argument,
                          index_t elements = 1) {
  detail::check(pointer != nullptr || elements <= 0, function, argument, "null", "a valid pointer");
}

/// The product of two sizes.
inline index_t product(index_t a, index_t b, const char* function, const char* argument) {
  detail::check(a >= 0, function, argument, a, "0 or more");
  index_t result = 0;
  detail::check(!__builtin_mul_overflow(a, b, &result), function, argument, a,
                "at most what memory can address");
  return result;
}

/// The type of a call's elements, and views of memory that has such elements.
template <class Element>
struct element {
  using type = Element;

  vector_view<const Element> vector(const void* data, index_t size) const {
    return {in(data), size};
  }
  vector_view<Element> vector(void* data, index_t size) const { return {out(data), size}; }
  boxes_view<const Element> boxes(const void* data, index_t count) const {
    return {in(data), count};
  }
  boxes_view<Element> boxes(void* data, index_t count) const { return {out(data), count}; }
  /// `sizes` are rows, columns and, if there are gaps, the stride.
  template <class... Sizes>
  matrix_view<const Element> matrix(const void* data, Sizes... sizes) const {
    return {in(data), sizes...};
  }
  template <class... Sizes>
  matrix_view<Element> matrix(void* data, Sizes... sizes) const {
    return {out(data), sizes...};
  }

 private:
  static const Element* in(const void* data) { return static_cast<const Element*>(data); }
  static Element* out(void* data) { return static_cast<Element*>(data); }
};

/// Calls body(element<T>()) with the type of the elements.
template <class... Types, class Body>
void with_type(vecdet_dtype type, const char* function, const Body& body) {
  const auto is = [&](auto of) {
    using T = typename decltype(of)::type;
    constexpr vecdet_dtype own = std::is_same<T, float>::value    ? VECDET_FLOAT32
                                 : std::is_same<T, double>::value ? VECDET_FLOAT64
                                                                  : VECDET_BFLOAT16;
    if (type != own) return false;
    body(of);
    return true;
  };
  if ((is(element<Types>()) || ...)) return;
  detail::throw_invalid_argument(
      function, "type", static_cast<int>(type),
      sizeof...(Types) == 3 ? "VECDET_FLOAT32, VECDET_FLOAT64 or VECDET_BFLOAT16"
      : (std::is_same<Types, double>::value || ...) ? "VECDET_FLOAT32 or VECDET_FLOAT64"
                                                    : "VECDET_FLOAT32 or VECDET_BFLOAT16");
}
template <class Body>
void with_any_type(vecdet_dtype type, const char* function, const Body& body) {
  with_type<float, double, bfloat16>(type, function, body);
}

/// Calls body(element<T>(), policy) with the type of the elements, on the threads set by
/// vecdet_set_threads(). Without Types, the type may be any.
template <class... Types, class Body>
void on_type(vecdet_dtype type, const char* function, const Body& body) {
  const auto run = [&](auto of) { on_threads([&](threading policy) { body(of, policy); }); };
  if constexpr (sizeof...(Types) == 0)
    with_any_type(type, function, run);
  else
    with_type<Types...>(type, function, run);
}
/// The same as a function's whole body.
template <class... Types, class Body>
vecdet_status call_on_type(vecdet_dtype type, const char* function, const Body& body) noexcept {
  return guarded([&] { on_type<Types...>(type, function, body); });
}
/// The same for functions with a workspace: calls body(element<T>(), memory, policy).
template <class... Types, class Body>
vecdet_status call_on_type(vecdet_dtype type, const char* function, vecdet_workspace* workspace,
                           const Body& body) noexcept {
  return guarded([&] {
    scratch memory(workspace);
    on_type<Types...>(type, function, [&](auto of, threading policy) { body(of, memory, policy); });
  });
}
/// A whole body without element types: calls body(memory, policy).
template <class Body>
vecdet_status call_on_threads(vecdet_workspace* workspace, const Body& body) noexcept {
  return guarded([&] {
    scratch memory(workspace);
    on_threads([&](threading policy) { body(memory, policy); });
  });
}

template <class T>
const T* as(const void* pointer) {
  return static_cast<const T*>(pointer);
}
template <class T>
T* as(void* pointer) {
  return static_cast<T*>(pointer);
}

/// A view of `count` elements; empty if the pointer is null.
template <class T>
vector_view<T> optional_view(T* pointer, index_t count) {
  return pointer == nullptr ? vector_view<T>() : vector_view<T>(pointer, count);
}
inline labels_view optional_labels(const int64_t* pointer, index_t count) {
  return pointer == nullptr ? labels_view() : labels_view(pointer, count);
}
/// The classes and images of `count` boxes or masks; each may be null.
inline nms_groups groups_of(const int64_t* classes, const int64_t* images, int64_t count) {
  nms_groups groups;
  groups.classes = optional_labels(classes, count);
  groups.images = optional_labels(images, count);
  return groups;
}

template <class From, class To>
void copy_view(const vector_view<From>& from, To* to) {
  std::copy(from.begin(), from.end(), to);
}

// ---- Parameters

template <class Enum, class CEnum>
Enum enum_of(CEnum value, const char* function, const char* argument) {
  static_assert(enumerators<CEnum> > 0, "not an enumeration of the C interface");
  const int number = static_cast<int>(value);
  detail::check(number >= 0 && number < enumerators<CEnum>, function, argument, number,
                "one of the enumerators");
  return static_cast<Enum>(number);
}

inline angle_convention angles_of(vecdet_angle_convention angles, const char* function) {
  return enum_of<angle_convention>(angles, function, "angles");
}

template <class CField>
constexpr bool is_list = std::is_same<CField, vecdet_integer_list>::value ||
                         std::is_same<CField, vecdet_number_list>::value;

/// Copies a field from C.
struct from_c_field {
  const char* function;
  index_t rows;  // of the arrays

  template <class Field, class CField>
  void operator()(Field& field, const CField& c, const char* name) const {
    if constexpr (is_list<CField>)
      field = list_of<Field>(c, name);
    else if constexpr (std::is_class<CField>::value)
      fields_of<CField>::each(field, c, *this);
    else if constexpr (std::is_array<CField>::value)
      std::copy(std::begin(c), std::end(c), field);
    else if constexpr (std::is_pointer<CField>::value)
      field = optional_view(c, rows);
    else if constexpr (std::is_same<Field, bool>::value)
      field = c != 0;
    else if constexpr (std::is_enum<Field>::value)
      field = enum_of<Field>(c, function, name);
    else
      field = c;
  }

 private:
  template <class Field, class CField>
  Field list_of(const CField& c, const char* name) const {
    detail::check_member(c.size >= 0, function, name, "size", c.size, "0 or more");
    detail::check_member(c.data != nullptr || c.size == 0, function, name, "data", "null",
                         "memory of `size` elements");
    return {c.data, c.size};
  }
};
/// Copies a field to C.
struct to_c_field {
  template <class Field, class CField>
  void operator()(const Field& field, CField& c, const char*) const {
    if constexpr (is_list<CField>)
      c = {nullptr, 0};  // presets have no lists
    else if constexpr (std::is_class<CField>::value)
      fields_of<CField>::each(field, c, *this);
    else if constexpr (std::is_array<CField>::value)
      std::copy(std::begin(field), std::end(field), c);
    else if constexpr (std::is_pointer<CField>::value)
      c = nullptr;  // presets have no arrays
    else
      c = static_cast<CField>(field);
  }
};

/// The parameters of a call, whose arrays have `rows` elements; null: the defaults.
template <class Params, class C>
Params params_of(const C* c, const char* function, index_t rows) {
  detail::check(rows >= 0, function, "rows", rows, "0 or more");
  Params params;
  if (c != nullptr) fields_of<C>::each(params, *c, from_c_field{function, rows});
  return params;
}
/// The same for parameters without arrays.
template <class Params, class C>
Params params_of(const C* c, const char* function) {
  static_assert(!fields_of<C>::has_arrays, "pass the number of rows");
  return params_of<Params>(c, function, 0);
}
template <class C, class Params>
C c_params_of(const Params& params) {
  C c{};
  fields_of<C>::each(params, c, to_c_field{});
  return c;
}

inline box_selection selection_of(const vecdet_box_selection* selection, index_t boxes) {
  if (selection == nullptr) return box_selection::all();
  if (selection->indices != nullptr) {
    return box_selection::list(
        vector_view<const index_t>(selection->indices, selection->index_count));
  }
  return box_selection(labels_view(selection->labels, boxes), selection->background,
                       selection->ignore);
}

inline index_t images_in(const vecdet_ground_truth* truth) {
  return truth != nullptr && truth->image_offsets != nullptr ? truth->images : 1;
}

inline ground_truth truth_of(const vecdet_ground_truth* truth, const char* function) {
  ground_truth result;
  check_pointer(truth, function, "truth");
  result.boxes = boxes_view<const float>(truth->boxes, truth->box_count);
  result.classes = optional_labels(truth->classes, truth->box_count);
  if (truth->image_offsets != nullptr) {
    detail::check(truth->images >= 0 && truth->images < detail::max_elements<index_t>, function,
                  "truth.images", truth->images, "0 or more");
    result.image_offsets = vector_view<const index_t>(truth->image_offsets, truth->images + 1);
  }
  if (truth->regions != nullptr)
    result.regions = boxes_view<const float>(truth->regions, truth->region_count);
  if (truth->region_offsets != nullptr)
    result.region_offsets = vector_view<const index_t>(truth->region_offsets, truth->images + 1);
  return result;
}

}  // namespace vecdet_c
