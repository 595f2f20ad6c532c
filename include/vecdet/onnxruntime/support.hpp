// SPDX-License-Identifier: Apache-2.0
// What ONNX Runtime's operators share: errors, attributes, tensors, threads, shapes.
//
// A kernel is a class with
//
//   static constexpr const char* name                       of the operator
//   static constexpr std::array<parameter, N> inputs, outputs
//   explicit kernel(const attributes&)                      reads and checks the attributes
//   void compute(const call&)                               may run on several threads at once
//
// operator_of<kernel> makes an operator of it. No exception leaves the library: errors become the
// runtime's status, with the exception's text.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// The runtime passes its functions to RegisterCustomOps(); the library does not link it.
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

namespace vecdet_onnxruntime {

using namespace vecdet;

/// The runtime's functions. Version 17 was the first that has all that is used here.
constexpr std::uint32_t api_version = 17;

/// Throws if a function of the runtime has failed.
void ensure(OrtStatus* status);

/// The status of the exception being handled.
OrtStatus* status_of_failure() noexcept;

/// Runs body(); no exception leaves it.
template <class Body>
OrtStatus* guarded(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return status_of_failure();
  }
}

/// An input or output. Any type is accepted by the runtime, and then checked by the kernel.
constexpr ONNXTensorElementDataType any_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
struct parameter {
  const char* name;
  ONNXTensorElementDataType type = any_type;
  bool is_optional = false;
};

/// The attributes of a node.
class attributes {
 public:
  attributes(const char* op, const OrtKernelInfo* info) : op_(op), info_(info) {}

  const char* op() const { return op_; }

  /// Each reads an attribute into `value`, which keeps its default if the node has none, and
  /// returns whether it has one. They throw if the attribute has another type. An integer is also a
  /// number.
  bool read(const char* name, double& value) const;
  bool read(const char* name, index_t& value) const;
  bool read(const char* name, bool& value) const;
  bool read(const char* name, std::string& value) const;
  bool read(const char* name, std::vector<double>& value) const;
  bool read(const char* name, std::vector<index_t>& value) const;

  /// The same for one of the names in a list.
  template <class Value, std::size_t N>
  bool read(const char* name, Value& value,
            const std::pair<const char*, Value> (&choices)[N]) const {
    std::string text;
    if (!read(name, text)) return false;
    for (const auto& choice : choices) {
      if (text == choice.first) {
        value = choice.second;
        return true;
      }
    }
    detail::throw_invalid_argument(op_, name, '"' + text + '"', names_of(choices));
  }

  /// The same for an attribute that the node must have.
  template <class Value, std::size_t N>
  Value required(const char* name, const std::pair<const char*, Value> (&choices)[N]) const {
    Value value{};
    if (!read(name, value, choices))
      detail::throw_invalid_argument(op_, name, "missing", names_of(choices));
    return value;
  }
  index_t required(const char* name) const;

 private:
  template <class Value, std::size_t N>
  static std::string names_of(const std::pair<const char*, Value> (&choices)[N]) {
    std::string names;
    for (const auto& choice : choices)
      names += (names.empty() ? "" : ", ") + std::string(choice.first);
    return names;
  }
  void check_absent(const char* name, const char* expected) const;

  const char* op_;
  const OrtKernelInfo* info_;
};

/// An input. Without a type, it is absent.
struct tensor {
  const char* op;
  const char* name;
  ONNXTensorElementDataType type = any_type;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;

  bool is_present() const { return type != any_type; }

  /// Throws unless the shape is `expected`, where -1 is any size; `text` describes it.
  void check_shape(const std::vector<std::int64_t>& expected, const char* text) const;
  void check_type(bool holds, const char* expected) const;

  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  /// [boxes] integers of 32 or 64 bits; none if the input is absent.
  labels_view labels(index_t boxes) const;
  /// Integers or floating-point numbers as double.
  std::vector<double> numbers() const;
};

/// The type of an input's elements, for with_type().
template <class Element>
struct element {
  using type = Element;
};
template <class T>
constexpr ONNXTensorElementDataType type_of =
    std::is_same<T, float>::value    ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
    : std::is_same<T, double>::value ? ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE
                                     : ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;

/// Calls body(element<T>()) with the type of the elements, one of Types.
template <class... Types, class Body>
void with_type(const tensor& input, const Body& body) {
  const auto is = [&](auto of) {
    if (input.type != type_of<typename decltype(of)::type>) return false;
    body(of);
    return true;
  };
  if ((is(element<Types>()) || ...)) return;
  input.check_type(false,
                   sizeof...(Types) == 3 ? "float, double or bfloat16" : "float or bfloat16");
}

/// The outputs of call::write_detections().
constexpr parameter boxes_output{"boxes", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT};
constexpr parameter scores_output{"scores", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT};
constexpr parameter labels_output{"labels", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64};
constexpr parameter offsets_output{"offsets", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64};

/// One execution of a node.
class call {
 public:
  call(const char* op, const parameter* inputs, OrtKernelContext* context);

  tensor input(std::size_t index) const;
  /// Memory for an output of the given shape; null if the node does not have this output.
  template <class T>
  T* output(std::size_t index, const std::vector<std::int64_t>& shape) const {
    return static_cast<T*>(output_data(index, shape));
  }
  /// The detections of a batch: boxes, scores, labels and offsets, the first four outputs.
  template <class Detections>
  void write_detections(const Detections& found) const {
    const index_t count = found.scores.size();
    std::copy_n(found.boxes.data(), 4 * count, output<float>(0, {count, 4}));
    std::copy(found.scores.begin(), found.scores.end(), output<float>(1, {count}));
    std::copy(found.labels.begin(), found.labels.end(), output<std::int64_t>(2, {count}));
    std::copy(found.offsets.begin(), found.offsets.end(),
              output<std::int64_t>(3, {found.offsets.size()}));
  }
  /// The threads of the session.
  threading threads() const;

 private:
  struct parallel_loop {
    OrtKernelContext* context;
    void operator()(index_t count, const task& work) const;
  };
  void* output_data(std::size_t index, const std::vector<std::int64_t>& shape) const;

  const char* op_;
  const parameter* inputs_;
  OrtKernelContext* context_;
  parallel_loop loop_;
  std::size_t input_count_;
};

/// The lists of parameters per class.
struct class_lists {
  std::vector<index_t> classes, groups;
  std::vector<double> thresholds;

  template <class Params>
  void read(const attributes& node, Params& params) {
    const auto read_list = [&](const char* name, auto& list) {
      if (node.read(name, list) && list.empty())
        detail::throw_invalid_argument(node.op(), name, "empty", "one element or more");
    };
    read_list("classes", classes);
    read_list("class_thresholds", thresholds);
    read_list("class_groups", groups);
    params.classes = classes;
    params.class_thresholds = thresholds;
    params.class_groups = groups;
  }
};

/// The workspaces of a kernel: each call on another thread takes one.
template <class Workspace>
class workspace_pool {
 public:
  template <class Body>
  void with_one(const Body& body) {
    std::unique_ptr<Workspace> own = take();
    body(*own);
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(own));
  }

 private:
  std::unique_ptr<Workspace> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Workspace> last = std::move(free_.back());
        free_.pop_back();
        return last;
      }
    }
    return std::make_unique<Workspace>();
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

template <class Kernel>
struct instance {
  explicit instance(const OrtKernelInfo* info) : kernel(attributes(Kernel::name, info)) {}

  OrtStatus* ComputeV2(OrtKernelContext* context) {
    return guarded([&] { kernel.compute(call(Kernel::name, Kernel::inputs.data(), context)); });
  }

  Kernel kernel;
};

template <class Kernel>
struct operator_of : Ort::CustomOpBase<operator_of<Kernel>, instance<Kernel>, true> {
  operator_of() { this->version = api_version; }

  OrtStatus* CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** made) const {
    return guarded([&] { *made = new instance<Kernel>(info); });
  }
  const char* GetName() const { return Kernel::name; }
  std::size_t GetInputTypeCount() const { return Kernel::inputs.size(); }
  std::size_t GetOutputTypeCount() const { return Kernel::outputs.size(); }
  ONNXTensorElementDataType GetInputType(std::size_t i) const { return Kernel::inputs[i].type; }
  ONNXTensorElementDataType GetOutputType(std::size_t i) const { return Kernel::outputs[i].type; }
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(std::size_t i) const {
    return Kernel::inputs[i].is_optional ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
  }
  OrtCustomOpInputOutputCharacteristic GetOutputCharacteristic(std::size_t i) const {
    return Kernel::outputs[i].is_optional ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
  }
};

/// The operators, which live as long as the library.
const OrtCustomOp* batched_nms_operator();
std::array<const OrtCustomOp*, 3> roi_align_operators();  ///< one per type
const OrtCustomOp* postprocess_yolo_operator();
const OrtCustomOp* postprocess_dense_operator();

}  // namespace vecdet_onnxruntime
