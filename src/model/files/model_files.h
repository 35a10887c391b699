// The files of a model: those of a Hugging Face directory, or a GGUF file.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/input_folder.h"
#include "model/config/config.h"
#include "model/config/declared.h"
#include "model/dense_layers.h"
#include "model/files/tensor_file.h"

namespace prefix {

struct ModelFiles {
  ModelConfig config;
  std::string declared_as;  // the architecture by the name in the file, "LlamaForCausalLM"
  Declared declared;
  std::shared_ptr<TensorSource> tensors;
  std::vector<DenseFile> dense;  // behind the pooling, in order
};

// Where they are: at a path, or with a caller who feeds them.
struct ModelSource {
  ModelSource(std::string p) : path(std::move(p)) {}  // NOLINT: a path is a source
  ModelSource(const char* p) : path(p) {}             // NOLINT
  explicit ModelSource(std::shared_ptr<const FedFiles> fed) : files(std::move(fed)) {}

  std::string path;
  std::shared_ptr<const FedFiles> files;  // null: at the path
  // The path, or what comes nearest to one.
  std::string name() const;
};

// A directory, or fed files, with config.json and model.safetensors (or its sharded index); or a
// file that begins with GGUF, which has a name ending with .gguf where it is fed. Reads headers
// only. Throws kNotFound, kIo, kFormat or kUnsupportedModel, naming the file.
ModelFiles open_model(const ModelSource& source);

}  // namespace prefix
