// What the targets of model files run. tests/model/mutation_test.cc calls it too, with seeded
// mutations of good files, on every compiler. A parser may refuse an input with Error and nothing
// else; what it accepts must be readable to the last byte.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_file.h"
#include "base/json.h"
#include "base/status.h"
#include "fuzz/still_device.h"
#include "model/config/config.h"
#include "model/files/gguf.h"
#include "model/files/quantised_tensors.h"
#include "model/files/safetensors.h"
#include "model/load/packed_model.h"

namespace prefix::fuzz {

inline std::shared_ptr<const InputFile> as_file(std::span<const std::byte> bytes) {
  return std::make_shared<InputFile>("input", std::vector<std::byte>(bytes.begin(), bytes.end()));
}

// Reads every row of every tensor that can be expected to fit.
inline void read_all(const TensorSource& source) {
  std::vector<float> row;
  for (const Tensor& t : source.tensors()) {
    const int64_t width = t.row_values();
    const int64_t count = element_count(t.name, t.shape);
    if (count == 0 || t.type == TensorType::kUnread) continue;
    row.resize(static_cast<size_t>(width));
    for (int64_t r = 0; r < count / width; ++r) read_row(t, r, row.data());
  }
}

// Each returns whether the input was accepted.
inline bool safetensors(std::span<const std::byte> bytes) try {
  TensorSource source;
  read_safetensors(as_file(bytes), source);
  read_all(source);
  return true;
} catch (const Error&) {
  return false;
}

inline bool gguf(std::span<const std::byte> bytes) try {
  TensorSource source;
  GgufMetadata metadata;
  read_gguf(as_file(bytes), metadata, source);
  read_all(source);
  config_from_gguf(metadata, source);
  return true;
} catch (const Error&) {
  return false;
}

// The length of a quantization_config in two bytes, the object, and a file of its tensors.
inline bool quantised(std::span<const std::byte> bytes) try {
  if (bytes.size() < 2) return false;
  const size_t length = static_cast<size_t>(bytes[0]) | static_cast<size_t>(bytes[1]) << 8;
  bytes = bytes.subspan(2);
  if (length > bytes.size()) return false;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), length);
  const JsonDocument whole(
      parse_json("{\"quantization_config\":" + std::string(text) + "}", "input"));
  TensorSource source;
  read_safetensors(as_file(bytes.subspan(length)), source);
  assemble_quantised(quant_config_from_json(whole.tree()), source);
  read_all(source);
  return true;
} catch (const Error&) {
  return false;
}

// The device of matrices that were packed before: memory of the host, and one thread.
class LoadingDevice final : public StillDevice {
 public:
  void parallel(int64_t n, const std::function<void(int64_t)>& task) override {
    for (int64_t i = 0; i < n; ++i) task(i);
  }
};

// A file of packed matrices, of which one with 40 columns of 8 numbers is wanted.
inline bool packed(std::span<const std::byte> bytes) try {
  TensorSource source;
  std::map<std::string, std::string> metadata;
  read_safetensors(as_file(bytes), source, &metadata);
  PackedModel::open(metadata[kPackedKey], "input", source);
  const auto model = PackedModel::of(source);
  KEEP(model && model->kinds() < 32);
  LoadingDevice device;
  const auto shape = ops::PackedWeights::of_shape(ops::WeightFormat::kInt8, 40, 8);
  const ops::PackedWeights loaded = model->load("layers.0.down", shape, &device);
  for (int64_t i = 0; i < loaded.scale_count(); ++i) KEEP(loaded.scales[i] >= 0);
  device.release(const_cast<std::byte*>(loaded.data), loaded.bytes());
  std::vector<Tensor> plain;
  for (const Tensor& t : source.tensors())
    if (!PackedModel::has(t)) plain.push_back(t);
  source.replace(std::move(plain));
  read_all(source);
  return true;
} catch (const Error&) {
  return false;
}

inline bool config(std::span<const std::byte> bytes) try {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ModelConfig c = config_from_json(parse_json(text, "input"));
  apply_generation_config(parse_json(text, "input"), c);
  return true;
} catch (const Error&) {
  return false;
}

inline bool json(std::span<const std::byte> bytes) try {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Json value = parse_json(text, "input");
  // What was read must survive writing and reading again.
  if (parse_json(value.dump(), "output") != value) __builtin_trap();
  return true;
} catch (const Error&) {
  return false;
}

}  // namespace prefix::fuzz
