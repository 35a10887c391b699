// What `prefix info` shows of a model: names, sizes and types from the headers of its files.
//
// The library checks models strictly and runs them; this only describes, so that looking at a model
// costs no memory. Models that the library refuses never get here, because the estimate comes
// first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace prefix_cli {

// Tensors with the same role and the same type in the file.
struct TensorGroup {
  std::string name;  // embedding, attention, mlp, norm, output
  std::string dtype;
  int64_t tensors = 0;
  int64_t parameters = 0;
};

struct ModelHeader {
  std::string format;
  std::string architecture;
  std::vector<std::pair<std::string, int64_t>> sizes;  // "layers" -> 28
  std::vector<TensorGroup> groups;
  int64_t parameters = 0;
  bool has_output = false;  // an output matrix of its own, not the embedding

  // Two operations per weight that takes part in a product: all matrices, and the embedding when it
  // serves as output. Attention comes on top, in proportion to the context.
  int64_t flops_per_token() const;
  void add_tensor(const std::string& name, const std::string& dtype,
                  const std::vector<int64_t>& shape);
};

// path: a Hugging Face directory or a .gguf file.
ModelHeader read_model_header(const std::string& path);

}  // namespace prefix_cli
