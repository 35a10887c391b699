// A model on disk: a Hugging Face directory or a GGUF file.
#pragma once

#include <memory>
#include <string>

#include "model/config.h"
#include "model/tensor_file.h"

namespace prefix {

struct ModelFiles {
  ModelConfig config;
  std::string declared_as;  // the architecture by the name in the file, "LlamaForCausalLM"
  std::unique_ptr<TensorSource> tensors;
};

// `path`: a directory with config.json and model.safetensors (or its sharded index), or a file that
// begins with GGUF. Reads headers only. Throws kNotFound, kIo, kFormat or kUnsupportedModel, naming
// the file.
ModelFiles open_model(const std::string& path);

}  // namespace prefix
