#include "model/model_files.h"

#include <filesystem>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"
#include "model/gguf.h"
#include "model/safetensors.h"

namespace prefix {
namespace {

namespace fs = std::filesystem;

// Runs `read`, and names `file` in what it complains about.
template <typename Read>
void naming(const std::string& file, Read read) {
  try {
    read();
  } catch (const Error& e) {
    fail(e.code(), quote_path(file), ": ", e.message());
  }
}

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The first of "architectures"; the model type where there is none.
std::string declared_architecture(const Json& config, const std::string& model_type) {
  const auto list = config.find("architectures");
  const bool named =
      list != config.end() && list->is_array() && !list->empty() && list->front().is_string();
  return named ? list->front().get<std::string>() : model_type;
}

ModelFiles open_gguf(const std::string& path) {
  ModelFiles files;
  files.tensors = std::make_unique<TensorSource>();
  GgufMetadata metadata;
  read_gguf(path, metadata, *files.tensors);
  naming(path, [&] { files.config = config_from_gguf(metadata, *files.tensors); });
  files.declared_as = files.config.architecture;
  return files;
}

ModelFiles open_directory(const std::string& path) {
  const std::string config = path + "/config.json";
  const std::string generation = path + "/generation_config.json";
  const std::string single = path + "/model.safetensors";
  const std::string index = single + ".index.json";
  if (!is_there(config))
    fail(Code::kNotFound, quote_path(path), " is a directory without config.json");
  ModelFiles files;
  const JsonLimits limits;
  const auto parse = [&](const std::string& file) {
    return JsonDocument(parse_json(read_text_file(file, limits.bytes), "the file", limits));
  };
  naming(config, [&] {
    const JsonDocument document = parse(config);
    files.config = config_from_json(document.tree());
    files.declared_as = declared_architecture(document.tree(), files.config.architecture);
  });
  if (is_there(generation))
    naming(generation, [&] { apply_generation_config(parse(generation).tree(), files.config); });

  files.tensors = std::make_unique<TensorSource>();
  if (is_there(single))
    read_safetensors(single, *files.tensors);
  else if (is_there(index))
    read_sharded_safetensors(index, *files.tensors);
  else
    fail(Code::kNotFound, quote_path(path), " has neither model.safetensors nor ",
         "model.safetensors.index.json");
  return files;
}

}  // namespace

ModelFiles open_model(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail(Code::kNotFound, "no model at ", quote_path(path));
  return fs::is_directory(status) ? open_directory(path) : open_gguf(path);
}

}  // namespace prefix
