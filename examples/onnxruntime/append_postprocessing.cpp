// SPDX-License-Identifier: Apache-2.0
// Appends vecdet's postprocessing to an exported YOLOv8 model in memory, with ONNX Runtime's model
// editor, and compares it with a model that ends in ONNX's own operators: equal detections, and the
// time of both. The Python example beside this one writes the two models.
//
//   append_postprocessing libvecdet_onnxruntime.so head.onnx standard.onnx
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

namespace {

using values = std::vector<Ort::Value>;

/// A session of the model with the node PostprocessYolo behind its output.
Ort::Session with_postprocessing(const Ort::Env& env, const char* model,
                                 const Ort::SessionOptions& options) {
  Ort::Session session = Ort::Session::CreateModelEditorSession(env, model, options);
  const std::string raw = session.GetOutputNames().at(0);
  const char family[] = "yolov8";
  const std::int64_t multi_label = 1;
  std::vector<Ort::OpAttr> attributes;
  attributes.emplace_back("model", family, static_cast<int>(sizeof family - 1), ORT_OP_ATTR_STRING);
  attributes.emplace_back("multi_label", &multi_label, 1, ORT_OP_ATTR_INT);
  Ort::Node node("PostprocessYolo", "ai.vecdet", "postprocess", {raw},
                 {"boxes", "scores", "labels", "offsets"}, attributes);

  const auto output = [](const char* name, ONNXTensorElementDataType type,
                         const std::vector<std::int64_t>& shape) {
    const Ort::TensorTypeAndShapeInfo info(type, shape);
    return Ort::ValueInfo(name, Ort::TypeInfo::CreateTensorInfo(info.GetConst()).GetConst());
  };
  std::vector<Ort::ValueInfo> outputs;
  outputs.push_back(output("boxes", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, {-1, 4}));
  outputs.push_back(output("scores", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, {-1}));
  outputs.push_back(output("labels", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, {-1}));
  Ort::Graph graph;
  graph.SetOutputs(outputs);
  graph.AddNode(node);
  Ort::Model changes({{"", session.GetOpset("")}, {"ai.vecdet", 1}});
  changes.AddGraph(graph);
  session.FinalizeModelEditorSession(changes, options);
  return session;
}

/// Raw numbers of 100 objects, each found by 8 of 8400 boxes.
std::vector<float> scene() {
  constexpr int boxes = 8400;
  std::mt19937 random(0);
  std::uniform_real_distribution<float> position(0, 640), side(8, 200), logit(-2, 2);
  std::vector<float> numbers(84 * boxes, -8.0f);
  for (int object = 0; object < 100; ++object) {
    const float middle[] = {position(random), position(random), side(random), side(random)};
    const int row = 4 + static_cast<int>(random() % 80);
    for (int box = 8 * object; box < 8 * object + 8; ++box) {
      for (int k = 0; k < 4; ++k) numbers[k * boxes + box] = middle[k] + logit(random);
      numbers[row * boxes + box] = logit(random);
    }
  }
  return numbers;
}

values run(Ort::Session& session, const Ort::Value& input) {
  const std::string name = session.GetInputNames().at(0);
  const char* const inputs[] = {name.c_str()};
  const char* const outputs[] = {"boxes", "scores", "labels"};
  return session.Run(Ort::RunOptions(), inputs, &input, 1, outputs, 3);
}

bool are_equal(const values& ours, const values& theirs) {
  const std::size_t count = ours[1].GetTensorTypeAndShapeInfo().GetElementCount();
  if (theirs[1].GetTensorTypeAndShapeInfo().GetElementCount() != count) return false;
  const auto close = [](float a, float b) { return std::abs(a - b) <= 1e-4f * (1 + std::abs(a)); };
  for (const std::size_t k : {0, 1}) {
    const float* const numbers = ours[k].GetTensorData<float>();
    if (!std::equal(numbers, numbers + (k == 0 ? 4 : 1) * count, theirs[k].GetTensorData<float>(),
                    close))
      return false;
  }
  const auto* const labels = ours[2].GetTensorData<std::int64_t>();
  return std::equal(labels, labels + count, theirs[2].GetTensorData<std::int64_t>());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s libvecdet_onnxruntime.so head.onnx standard.onnx\n", argv[0]);
    return 2;
  }
  const Ort::Env env(ORT_LOGGING_LEVEL_ERROR);
  Ort::SessionOptions options;
  options.RegisterCustomOpsLibrary(argv[1]);
  // Else the idle threads of one session slow down the other.
  options.AddConfigEntry("session.intra_op.allow_spinning", "0");
  Ort::Session vecdet = with_postprocessing(env, argv[2], options);
  Ort::Session standard(env, argv[3], options);

  std::vector<float> numbers = scene();
  const std::int64_t shape[] = {1, 84, 8400};
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeCPU);
  const Ort::Value input =
      Ort::Value::CreateTensor<float>(memory, numbers.data(), numbers.size(), shape, 3);
  if (!are_equal(run(vecdet, input), run(standard, input))) {
    std::fprintf(stderr, "the detections differ\n");
    return 1;
  }
  std::vector<double> times[2];
  for (int round = 0; round < 30; ++round) {
    for (const int k : {0, 1}) {
      const auto start = std::chrono::steady_clock::now();
      run(k == 0 ? vecdet : standard, input);
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - start;
      times[k].push_back(taken.count());
    }
  }
  for (auto& every : times) std::nth_element(every.begin(), every.begin() + 15, every.end());
  std::printf("equal detections; the whole model takes %.2f ms with vecdet, %.2f ms without\n",
              times[0][15], times[1][15]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
