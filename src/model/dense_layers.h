// The Dense layers that an embedder has behind its pooling: y = act(W x + b) of the vector of a
// text, one after the other, as modules.json of Sentence Transformers lists them:
//
//   0 Transformer ── 1_Pooling ── 2_Dense ── 3_Dense ── 4_Normalize
//                                 config.json, model.safetensors
//
// A GGUF file has them as dense_2.weight, dense_3.weight, ... Those that stand anywhere else than
// right behind the pooling are not run. A listwise reranker has a projector instead, through which
// the vectors of single tokens go (jina-reranker-v3, arXiv 2509.25085):
//
//   hidden states ── projector.0 ── ReLU ── projector.2
//
// They are small beside the model, lie in host memory and are multiplied as they are; each number
// is a sum in double precision in one order, so its bits depend on its text alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/input_folder.h"
#include "model/config/declared.h"
#include "model/files/tensor_file.h"

namespace prefix {

enum class DenseActivation : uint8_t { kIdentity, kTanh, kRelu };

// One of them as the files say it.
struct DenseFile {
  std::string folder;  // or what else there is to call it by
  std::string weight = "linear.weight", bias_name = "linear.bias";  // tensors
  int32_t in = 0, out = 0;
  bool bias = false;
  DenseActivation activation = DenseActivation::kIdentity;
  std::shared_ptr<const TensorSource> tensors;
};

// Reads headers only. Throws kFormat for one that does not take what stands before it, of which the
// first has `hidden` values, and kUnsupportedModel naming what is not run.
std::vector<DenseFile> open_dense(const InputFolder& folder, const Declared& declared,
                                  int64_t hidden);

std::vector<DenseFile> open_dense_gguf(std::shared_ptr<const TensorSource> tensors, int64_t hidden);

// Whether the vectors of single tokens go through a projector.
bool has_projector(const Declared& declared);

// Its layers. Throws kFormat for one that is not there or has another shape.
std::vector<DenseFile> open_projector(std::shared_ptr<const TensorSource> tensors, int64_t hidden);

class DenseLayers {
 public:
  // Runs f(0) .. f(n - 1), in any order.
  using Parallel = std::function<void(int64_t n, const std::function<void(int64_t)>& f)>;

  DenseLayers() = default;
  // Throws kFormat naming a tensor of another shape. Without `read` it has no numbers.
  DenseLayers(const std::vector<DenseFile>& files, bool read);

  bool empty() const { return layers_.empty(); }
  int32_t count() const { return static_cast<int32_t>(layers_.size()); }
  int64_t bytes() const;
  // Puts what the layers make of each vector in its place.
  void apply(std::span<std::vector<float>* const> vectors, const Parallel& parallel) const;

 private:
  struct Layer {
    int64_t in, out;
    DenseActivation activation;
    std::vector<float> weight;  // [out, in]
    std::vector<float> bias;    // empty: none
  };
  std::vector<Layer> layers_;
};

}  // namespace prefix
