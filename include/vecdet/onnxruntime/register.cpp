// SPDX-License-Identifier: Apache-2.0
// RegisterCustomOps(), which the runtime calls to get the operators of the domain ai.vecdet, and
// the functions of support.hpp.
#include <vecdet/onnxruntime/support.hpp>

#include <algorithm>
#include <charconv>
#include <exception>
#include <iterator>
#include <new>
#include <stdexcept>

#include <tbb/info.h>

namespace vecdet_onnxruntime {
namespace {

/// Whether a function of the runtime has succeeded.
bool succeeds(OrtStatus* status) {
  if (status == nullptr) return true;
  Ort::GetApi().ReleaseStatus(status);
  return false;
}

/// The number that was written as a float attribute: 0.3, which is 0.300000012 as a float.
double as_written(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

const char* name_of(ONNXTensorElementDataType type) {
  constexpr const char* names[] = {"undefined",  "float",   "uint8",  "int8",   "uint16",
                                   "int16",      "int32",   "int64",  "string", "bool",
                                   "float16",    "double",  "uint32", "uint64", "complex64",
                                   "complex128", "bfloat16"};
  return static_cast<std::size_t>(type) < std::size(names) ? names[type] : "another type";
}

}  // namespace

void ensure(OrtStatus* status) {
  if (status != nullptr) Ort::ThrowOnError(status);
}

OrtStatus* status_of_failure() noexcept {
  const auto status = [](OrtErrorCode code, const char* text) {
    return Ort::GetApi().CreateStatus(code, text);
  };
  try {
    throw;
  } catch (const Ort::Exception& error) {
    return status(error.GetOrtErrorCode(), error.what());
  } catch (const std::invalid_argument& error) {
    return status(ORT_INVALID_ARGUMENT, error.what());
  } catch (const std::bad_alloc&) {
    return status(ORT_FAIL, "vecdet: not enough memory");
  } catch (const std::exception& error) {
    return status(ORT_FAIL, error.what());
  } catch (...) {
    return status(ORT_FAIL, "vecdet: unknown error");
  }
}

void attributes::check_absent(const char* name, const char* expected) const {
  const OrtApi& api = Ort::GetApi();
  float number = 0;
  std::int64_t integer = 0;
  std::size_t size = 0;
  const char* found =
      succeeds(api.KernelInfoGetAttribute_float(info_, name, &number))           ? "a float"
      : succeeds(api.KernelInfoGetAttribute_int64(info_, name, &integer))        ? "an integer"
      : succeeds(api.KernelInfoGetAttribute_string(info_, name, nullptr, &size)) ? "a string"
      : succeeds(api.KernelInfoGetAttributeArray_float(info_, name, nullptr, &size)) ||
              succeeds(api.KernelInfoGetAttributeArray_int64(info_, name, nullptr, &size))
          ? "a list"
          : nullptr;
  if (found != nullptr) detail::throw_invalid_argument(op_, name, found, expected);
}

bool attributes::read(const char* name, double& value) const {
  float number = 0;
  std::int64_t integer = 0;
  if (succeeds(Ort::GetApi().KernelInfoGetAttribute_float(info_, name, &number))) {
    value = as_written(number);
    return true;
  }
  if (succeeds(Ort::GetApi().KernelInfoGetAttribute_int64(info_, name, &integer))) {
    value = static_cast<double>(integer);
    return true;
  }
  check_absent(name, "a number");
  return false;
}

bool attributes::read(const char* name, index_t& value) const {
  std::int64_t integer = 0;
  if (!succeeds(Ort::GetApi().KernelInfoGetAttribute_int64(info_, name, &integer))) {
    check_absent(name, "an integer");
    return false;
  }
  value = integer;
  return true;
}

bool attributes::read(const char* name, bool& value) const {
  index_t integer = 0;
  if (!read(name, integer)) return false;
  detail::check(integer == 0 || integer == 1, op_, name, integer, "0 or 1");
  value = integer == 1;
  return true;
}

bool attributes::read(const char* name, std::string& value) const {
  std::size_t size = 0;
  if (!succeeds(Ort::GetApi().KernelInfoGetAttribute_string(info_, name, nullptr, &size))) {
    check_absent(name, "a string");
    return false;
  }
  value.resize(size);
  ensure(Ort::GetApi().KernelInfoGetAttribute_string(info_, name, value.data(), &size));
  value.resize(size - 1);  // without the 0 at its end
  return true;
}

bool attributes::read(const char* name, std::vector<double>& value) const {
  float number = 0;  // which ONNX Runtime would read as a list without elements
  if (succeeds(Ort::GetApi().KernelInfoGetAttribute_float(info_, name, &number)))
    detail::throw_invalid_argument(op_, name, as_written(number), "a list of floats");
  std::size_t size = 0;
  if (!succeeds(Ort::GetApi().KernelInfoGetAttributeArray_float(info_, name, nullptr, &size))) {
    check_absent(name, "a list of floats");
    return false;
  }
  std::vector<float> numbers(size);
  ensure(Ort::GetApi().KernelInfoGetAttributeArray_float(info_, name, numbers.data(), &size));
  value.clear();
  std::transform(numbers.begin(), numbers.end(), std::back_inserter(value), as_written);
  return true;
}

bool attributes::read(const char* name, std::vector<index_t>& value) const {
  std::int64_t number = 0;  // as for a float
  if (succeeds(Ort::GetApi().KernelInfoGetAttribute_int64(info_, name, &number)))
    detail::throw_invalid_argument(op_, name, number, "a list of integers");
  std::size_t size = 0;
  if (!succeeds(Ort::GetApi().KernelInfoGetAttributeArray_int64(info_, name, nullptr, &size))) {
    check_absent(name, "a list of integers");
    return false;
  }
  value.resize(size);
  ensure(Ort::GetApi().KernelInfoGetAttributeArray_int64(info_, name, value.data(), &size));
  return true;
}

index_t attributes::required(const char* name) const {
  index_t value = 0;
  if (!read(name, value)) detail::throw_invalid_argument(op_, name, "missing", "an integer");
  return value;
}

void tensor::check_shape(const std::vector<std::int64_t>& expected, const char* text) const {
  const bool holds =
      std::equal(shape.begin(), shape.end(), expected.begin(), expected.end(),
                 [](std::int64_t is, std::int64_t wanted) { return wanted == -1 || is == wanted; });
  if (!holds)
    detail::throw_invalid_argument(op, name + std::string(".shape"), text_of(shape), text);
}

void tensor::check_type(bool holds, const char* expected) const {
  if (!holds)
    detail::throw_invalid_argument(op, name + std::string(".type"), name_of(type), expected);
}

labels_view tensor::labels(index_t boxes) const {
  if (!is_present()) return {};
  check_shape({boxes}, "[boxes]");
  check_type(
      type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
      "int64 or int32");
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) return labels_view(as<std::int32_t>(), boxes);
  return labels_view(as<std::int64_t>(), boxes);
}

std::vector<double> tensor::numbers() const {
  index_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  const auto copied = [&](auto* from) { return std::vector<double>(from, from + count); };
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return copied(as<double>());
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return copied(as<std::int64_t>());
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return copied(as<std::int32_t>());
    default:
      check_type(type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "float, double, int64 or int32");
  }
  return copied(as<float>());
}

call::call(const char* op, const parameter* inputs, OrtKernelContext* context)
    : op_(op), inputs_(inputs), context_(context), loop_{context}, input_count_(0) {
  ensure(Ort::GetApi().KernelContext_GetInputCount(context, &input_count_));
}

tensor call::input(std::size_t index) const {
  tensor result{op_, inputs_[index].name, any_type, {}, nullptr};
  const OrtValue* value = nullptr;
  if (index < input_count_) ensure(Ort::GetApi().KernelContext_GetInput(context_, index, &value));
  if (value == nullptr) return result;
  const Ort::ConstValue view(value);
  const auto info = view.GetTensorTypeAndShapeInfo();
  result.type = info.GetElementType();
  result.shape = info.GetShape();
  result.data = view.GetTensorRawData();
  return result;
}

void* call::output_data(std::size_t index, const std::vector<std::int64_t>& shape) const {
  OrtValue* value = nullptr;
  ensure(
      Ort::GetApi().KernelContext_GetOutput(context_, index, shape.data(), shape.size(), &value));
  return value == nullptr ? nullptr : Ort::UnownedValue(value).GetTensorMutableRawData();
}

threading call::threads() const {
  const int count = tbb::info::default_concurrency();
  return count == 1 ? threading::sequential : threading::on(loop_, count);
}

void call::parallel_loop::operator()(index_t count, const task& work) const {
  ensure(Ort::GetApi().KernelContext_ParallelFor(
      context,
      [](void* stored, std::size_t i) {
        (*static_cast<const task*>(stored))(static_cast<index_t>(i));
      },
      static_cast<std::size_t>(count), 0, const_cast<task*>(&work)));
}

}  // namespace vecdet_onnxruntime

using namespace vecdet_onnxruntime;

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(api_version);
  if (api == nullptr) {
    const std::string text = std::string("vecdet: ONNX Runtime is ") + base->GetVersionString() +
                             ", expected 1.17 or newer";
    return base->GetApi(1)->CreateStatus(ORT_FAIL, text.c_str());
  }
  Ort::InitApi(api);
  return guarded([&] {
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made("ai.vecdet");
      for (const OrtCustomOp* op :
           {batched_nms_operator(), postprocess_yolo_operator(), postprocess_dense_operator()})
        made.Add(op);
      for (const OrtCustomOp* op : roi_align_operators()) made.Add(op);
      return made;
    }();
    ensure(Ort::GetApi().AddCustomOpDomain(options, domain));
  });
}
