#include "model/dense_layers.h"

#include <algorithm>
#include <utility>

#include "base/elementary.h"
#include "base/quote.h"
#include "base/status.h"
#include "model/config/config.h"
#include "model/files/json_file.h"
#include "model/files/safetensors.h"

namespace prefix {
namespace {

constexpr int64_t kMaxWidth = ConfigLimits::kIntermediate;

DenseActivation activation_of(const std::string& name) {
  const std::string_view last = std::string_view(name).substr(name.find_last_of('.') + 1);
  if (last == "Identity") return DenseActivation::kIdentity;
  if (last == "Tanh") return DenseActivation::kTanh;
  if (last == "ReLU") return DenseActivation::kRelu;
  fail(Code::kUnsupportedModel, "activation_function ", quote(name),
       " is not supported (supported: Identity, Tanh, ReLU)");
}

float activated(DenseActivation activation, float y) {
  switch (activation) {
    case DenseActivation::kIdentity:
      return y;
    case DenseActivation::kTanh:
      return static_cast<float>(portable_tanh(y));
    case DenseActivation::kRelu:
      return y < 0 ? 0 : y;  // NaN stays
  }
  return y;
}

// A layer that the model's own file has, without bias.
DenseFile open_matrix(const std::shared_ptr<const TensorSource>& tensors, const Tensor& t,
                      const std::string& name, int64_t width) {
  if (t.shape.size() != 2 || t.shape[1] != width || t.shape[0] > kMaxWidth)
    fail(Code::kFormat, "tensor ", quote(t.name), " has shape ", shape_text(t.shape),
         "; it must be a matrix of at most ", kMaxWidth, " rows of ", width);
  return {.folder = name,
          .weight = t.name,
          .in = static_cast<int32_t>(width),
          .out = static_cast<int32_t>(t.shape[0]),
          .tensors = tensors};
}

void read_config(const Json& json, DenseFile& dense) {
  if (!json.is_object()) fail(Code::kFormat, "it is ", json_shown(json), ", not an object");
  const auto width = [&](const char* key) {
    return static_cast<int32_t>(json_int(json, key, 1, kMaxWidth));
  };
  dense.in = width("in_features");
  dense.out = width("out_features");
  dense.bias = json_bool(json, "bias", true);
  dense.activation =
      activation_of(json_string(json, "activation_function", "torch.nn.modules.activation.Tanh"));
  if (json_bool(json, "use_residual", false))
    fail(Code::kUnsupportedModel,
         "\"use_residual\" is true, which adds the layer's input to its "
         "output; such layers are not supported");
  constexpr const char* kText = "sentence_embedding";
  for (const char* key : {"module_input_name", "module_output_name"}) {
    const std::string name = json_string(json, key, kText);
    if (name != kText)
      fail(Code::kUnsupportedModel, "\"", key, "\" is ", quote(name), "; it must be \"", kText,
           "\", the vector of a text");
  }
}

DenseFile open_one(const InputFolder& folder, const std::string& path) {
  if (!plain_file_name(path))
    fail(Code::kFormat, "modules.json has a module \"Dense\" at ", quote(path),
         ", which is not the name of a folder");
  DenseFile dense{.folder = path};
  with_json(
      *folder.open(path + "/config.json"), [&](const Json& json) { read_config(json, dense); },
      kSmallJson);
  const std::string weights = path + "/model.safetensors";
  if (!folder.has(weights) && folder.has(path + "/pytorch_model.bin"))
    fail(Code::kUnsupportedModel, path, " has pytorch_model.bin and no model.safetensors; weights ",
         "are read from the latter only");
  auto tensors = std::make_shared<TensorSource>();
  read_safetensors(folder.open(weights), *tensors);
  dense.tensors = std::move(tensors);
  return dense;
}

std::vector<float> values_of(const DenseFile& dense, const std::string& name,
                             const std::vector<int64_t>& shape, bool read) {
  const Tensor* const t = dense.tensors->find(name);
  if (!t) fail(Code::kFormat, dense.folder, " has no tensor ", quote(name));
  if (t->shape != shape)
    fail(Code::kFormat, "tensor ", quote(name), " of ", dense.folder, " has shape ",
         shape_text(t->shape), "; its configuration asks for ", shape_text(shape));
  require_numbers(*t);
  std::vector<float> out;
  if (!read) return out;
  const int64_t width = shape.back(), rows = shape.size() == 2 ? shape.front() : 1;
  out.resize(static_cast<size_t>(rows * width));
  for (int64_t row = 0; row < rows; ++row) read_row(*t, row, out.data() + row * width);
  return out;
}

// Eight sums side by side, for the compiler to keep in vectors, added up in one order.
float dot(const float* w, const float* x, int64_t n, float bias) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += double{w[i + lane]} * double{x[i + lane]};
  for (int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += double{w[i]} * double{x[i]};
  double sum = bias;
  for (const double lane : lanes) sum += lane;
  return static_cast<float>(sum);
}

}  // namespace

std::vector<DenseFile> open_dense(const InputFolder& folder, const Declared& declared,
                                  int64_t hidden) {
  std::vector<DenseFile> files;
  const auto& modules = declared.modules;
  auto at = std::ranges::find(modules, "Pooling");
  if (at == modules.end()) return files;
  int64_t width = hidden;
  for (++at; at != modules.end() && (*at == "Dense" || *at == "Dropout"); ++at) {
    if (*at == "Dropout") continue;  // does nothing but in training
    DenseFile dense =
        open_one(folder, declared.module_paths[static_cast<size_t>(at - modules.begin())]);
    if (dense.in != width)
      fail(Code::kFormat, dense.folder, " takes ", dense.in, " values (in_features); ",
           files.empty() ? "the model's hidden states have " : "the layer before it gives ", width);
    width = dense.out;
    files.push_back(std::move(dense));
  }
  const auto behind = std::ranges::find_if(
      at, modules.end(), [](const std::string& m) { return m == "Dense" || m == "LayerNorm"; });
  if (behind != modules.end())
    fail(Code::kUnsupportedModel, "modules.json has a module ", quote(*behind), " behind ",
         quote(*(behind - 1)), "; behind Pooling only Dense layers are run");
  return files;
}

std::vector<DenseFile> open_dense_gguf(std::shared_ptr<const TensorSource> tensors,
                                       int64_t hidden) {
  std::vector<DenseFile> files;
  for (int number = 2;; ++number) {
    const std::string name = "dense_" + std::to_string(number);
    const Tensor* const t = tensors->find(name + ".weight");
    if (!t) return files;
    files.push_back(open_matrix(tensors, *t, name, files.empty() ? hidden : files.back().out));
  }
}

bool has_projector(const Declared& declared) {
  return std::ranges::count(declared.architectures, "JinaForRanking") > 0;
}

std::vector<DenseFile> open_projector(std::shared_ptr<const TensorSource> tensors, int64_t hidden) {
  std::vector<DenseFile> files;
  for (const char* const name : {"projector.0", "projector.2"}) {
    const Tensor* const t = tensors->find(std::string(name) + ".weight");
    if (!t) fail(Code::kFormat, "the model is a JinaForRanking without tensor ", name, ".weight");
    files.push_back(open_matrix(tensors, *t, name, files.empty() ? hidden : files.back().out));
  }
  files.front().activation = DenseActivation::kRelu;
  return files;
}

DenseLayers::DenseLayers(const std::vector<DenseFile>& files, bool read) {
  for (const DenseFile& dense : files) {
    Layer layer{dense.in, dense.out, dense.activation, {}, {}};
    layer.weight = values_of(dense, dense.weight, {dense.out, dense.in}, read);
    if (dense.bias) layer.bias = values_of(dense, dense.bias_name, {dense.out}, read);
    if (read) dense.tensors->check_files();
    layers_.push_back(std::move(layer));
  }
}

int64_t DenseLayers::bytes() const {
  int64_t bytes = 0;
  for (const Layer& layer : layers_)
    bytes += static_cast<int64_t>(sizeof(float)) * layer.out * layer.in;
  return bytes;
}

void DenseLayers::apply(std::span<std::vector<float>* const> vectors,
                        const Parallel& parallel) const {
  constexpr int64_t kRows = 64;  // of weights, read once for all vectors
  std::vector<std::vector<float>> out(vectors.size());
  for (const Layer& layer : layers_) {
    for (std::vector<float>& y : out) y.resize(static_cast<size_t>(layer.out));
    parallel((layer.out + kRows - 1) / kRows, [&](int64_t block) {
      const int64_t begin = block * kRows, end = std::min(layer.out, begin + kRows);
      for (size_t v = 0; v < vectors.size(); ++v) {
        const float* const x = vectors[v]->data();
        for (int64_t row = begin; row < end; ++row) {
          const auto r = static_cast<size_t>(row);
          const float y = dot(layer.weight.data() + row * layer.in, x, layer.in,
                              layer.bias.empty() ? 0 : layer.bias[r]);
          out[v][r] = activated(layer.activation, y);
        }
      }
    });
    for (size_t v = 0; v < vectors.size(); ++v) std::swap(*vectors[v], out[v]);
  }
}

}  // namespace prefix
