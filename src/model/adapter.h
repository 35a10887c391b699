// Adapters (LoRA): thin matrices that are added to those of a model for the rows of some requests.
//
//   PEFT directory                             Adapter                       a step
//   adapter_config.json      scale ─┐
//   adapter_model.safetensors       ├─ load ─> layer 0 { mixer_in, ... } ──> rows of its requests
//     ...q_proj.lora_A.weight   A ──┤          layer 1                       (ops/low_rank.h)
//     ...q_proj.lora_B.weight   B ──┘
//
// A model keeps some matrices as one (q, k and v; gate and up). Their A lie one below the other,
// and their B, times the scale, on a diagonal of blocks:
//
//   x A^T = [ of q | of k | of v ]        B = [ q 0 0 ]
//                                             [ 0 k 0 ]
//                                             [ 0 0 v ]
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/input_folder.h"
#include "base/sha256.h"
#include "model/architecture.h"
#include "model/config/adapter_config.h"
#include "model/config/config.h"
#include "model/files/tensor_file.h"
#include "model/layer.h"
#include "ops/low_rank.h"
#include "ops/op.h"

namespace prefix {

struct AdapterFiles {
  AdapterConfig config;
  TensorSource tensors;
  Sha256::Digest digest;  // of the bytes of both files
};

// Reads the headers, and all bytes once. Throws kNotFound, kIo, kFormat, kUnsupportedModel.
AdapterFiles open_adapter(const InputFolder& folder);

// What is added to the matrices of a layer that LayerWeights calls so.
struct AdapterLayer {
  ops::LowRank mixer_in, mixer_out, gate_up, down;
};

class Adapter {
 public:
  using Progress = std::function<bool()>;

  // Packs what fits the model. Throws kFormat and kUnsupportedModel naming a tensor that has no
  // place in it, kCancelled when progress returns false. Any thread.
  Adapter(const AdapterFiles& files, const ModelConfig& config, const Architecture& architecture,
          const std::vector<LayerSpec>& layers, ops::Device& device, const Progress& progress);
  ~Adapter() { release(); }
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  const AdapterLayer& layer(size_t i) const { return layers_[i]; }
  // The most columns that x A^T has anywhere.
  int64_t widest() const { return widest_; }
  int64_t bytes() const { return bytes_; }
  int64_t matrices() const { return matrices_; }  // of the file, pairs of A and B

 private:
  friend class AdapterLoader;
  void release();

  ops::Device& device_;
  std::vector<AdapterLayer> layers_;
  int64_t widest_ = 0, bytes_ = 0, matrices_ = 0;
};

// The adapters of a model, by numbers that a step plan names. Any thread; one that
// was found stays as long as it is held.
class Adapters {
 public:
  void put(int32_t number, std::shared_ptr<const Adapter> adapter) {
    std::lock_guard lock(mutex_);
    adapters_[number].swap(adapter);
  }
  std::shared_ptr<const Adapter> find(int32_t number) const {  // null: there is none
    std::lock_guard lock(mutex_);
    const auto found = adapters_.find(number);
    return found == adapters_.end() ? nullptr : found->second;
  }
  void remove(int32_t number) noexcept {
    std::shared_ptr<const Adapter> last;  // goes after the lock
    std::lock_guard lock(mutex_);
    const auto found = adapters_.find(number);
    if (found == adapters_.end()) return;
    last.swap(found->second);
    adapters_.erase(found);
  }

 private:
  mutable std::mutex mutex_;
  std::map<int32_t, std::shared_ptr<const Adapter>> adapters_;
};

}  // namespace prefix
