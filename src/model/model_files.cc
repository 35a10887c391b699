#include "model/model_files.h"

#include <filesystem>

#include "base/status.h"
#include "model/gguf.h"
#include "model/safetensors.h"

namespace prefix {
namespace {

constexpr size_t kMaxConfig = 16 << 20;

}  // namespace

ModelFiles open_model(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail(Code::kNotFound, "no model at \"", path, "\"");
  ModelFiles files;
  files.tensors = std::make_unique<TensorSource>();
  if (!fs::is_directory(status)) {
    GgufMetadata metadata;
    read_gguf(path, metadata, *files.tensors);
    files.config = config_from_gguf(metadata, *files.tensors);
    return files;
  }
  const std::string config = path + "/config.json";
  try {
    files.config = config_from_json(parse_json(read_text_file(config, kMaxConfig), "config.json"));
  } catch (const Error& e) {
    if (e.code() == Code::kNotFound)
      fail(Code::kNotFound, "\"", path, "\" is a directory without config.json");
    fail(e.code(), config, ": ", e.message());
  }
  const std::string single = path + "/model.safetensors";
  const std::string index = single + ".index.json";
  if (fs::exists(single, error)) {
    read_safetensors(single, *files.tensors);
  } else if (fs::exists(index, error)) {
    read_sharded_safetensors(index, *files.tensors);
  } else {
    fail(Code::kNotFound, "\"", path, "\" has neither model.safetensors nor ",
         "model.safetensors.index.json");
  }
  return files;
}

}  // namespace prefix
