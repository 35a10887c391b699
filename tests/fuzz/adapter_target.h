// What the target of adapters runs. An input is an adapter
// of PEFT: the length of adapter_config.json in two bytes, the object, and the bytes of
// adapter_model.safetensors. What is accepted is packed for a model of two layers, every row of it.
#pragma once

#include <span>
#include <vector>

#include "base/input_folder.h"
#include "base/status.h"
#include "fuzz/still_device.h"
#include "fuzz/target.h"
#include "model/adapter.h"

namespace prefix::fuzz {

// Packing reads all rows; nothing is computed with them.
class PackingDevice final : public StillDevice {
 public:
  ops::NumericTypes types() const override { return {.weights = ops::WeightFormat::kF32}; }
  ops::PackedWeights pack_sources(ops::WeightFormat format, int64_t n, int64_t k,
                                  std::span<const ops::WeightSource* const> sources,
                                  const ops::CalibrationRows*) override {
    ops::PackedWeights packed = sources.size() == 1
                                    ? ops::PackedWeights::of_shape(format, n, k)
                                    : ops::PackedWeights::of_gated_shape(format, n, k);
    for (const ops::WeightSource* source : sources) read(*source, n, k);
    packed.data = allocate(packed.bytes());
    return packed;
  }

 private:
  static void read(const ops::WeightSource& source, int64_t n, int64_t k) {
    ops::RowReader reader(ops::WeightFormat::kF32, k);
    std::vector<std::byte> row(static_cast<size_t>(k) * sizeof(float));
    for (int64_t i = 0; i < n; ++i) reader.read(source, i, row.data());
  }
};

struct AdaptedModel {
  AdaptedModel() {
    config.architecture = "llama";
    config.hidden = 8;
    config.layers = 2;
    config.heads = 2;
    config.kv_heads = 1;
    config.head_dim = 4;
    config.intermediate = 12;
    layers = resolve_layers(config, architecture);
  }
  ModelConfig config;
  const Architecture& architecture = find_architecture("llama");
  std::vector<LayerSpec> layers;
};

// Returns whether the input was accepted.
inline bool adapter(std::span<const std::byte> bytes) {
  static const AdaptedModel model;
  static PackingDevice device;
  if (bytes.size() < 2) return false;
  const auto length = static_cast<size_t>(bytes[0]) | static_cast<size_t>(bytes[1]) << 8;
  bytes = bytes.subspan(2);
  if (length > bytes.size()) return false;
  FedFiles files;
  files.add("adapter_config.json", bytes.first(length));
  files.add("adapter_model.safetensors", bytes.subspan(length));
  try {
    const AdapterFiles opened = open_adapter(files);
    const Adapter adapter(opened, model.config, model.architecture, model.layers, device, nullptr);
    // A pair at least, of a rank that can be.
    KEEP(adapter.matrices() > 0 && adapter.bytes() > 0);
    KEEP(adapter.widest() > 0 && adapter.widest() <= 3 * kMaxAdapterRank);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace prefix::fuzz
