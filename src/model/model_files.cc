#include "model/model_files.h"

#include <filesystem>
#include <utility>
#include <vector>

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
void naming(const InputFile& file, Read read) {
  try {
    read();
  } catch (const Error& e) {
    fail(e.code(), file.name(), ": ", e.message());
  }
}

// The first of "architectures"; the model type where there is none.
std::string declared_architecture(const Json& config, const std::string& model_type) {
  const auto list = config.find("architectures");
  const bool named =
      list != config.end() && list->is_array() && !list->empty() && list->front().is_string();
  return named ? list->front().get<std::string>() : model_type;
}

ModelFiles open_gguf(std::shared_ptr<const InputFile> file) {
  ModelFiles files;
  files.tensors = std::make_unique<TensorSource>();
  GgufMetadata metadata;
  read_gguf(file, metadata, *files.tensors);
  naming(*file, [&] { files.config = config_from_gguf(metadata, *files.tensors); });
  files.declared_as = metadata.text("general.architecture");
  return files;
}

// Python writes Infinity for a float that JSON has no digits for. Here it becomes a text of the same
// length, so that places in messages stay.
std::string with_infinities(std::string text) {
  constexpr std::string_view kInfinity = "Infinity", kText = "\"+inf\"  ";
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text.compare(i, kInfinity.size(), kInfinity) == 0) {
      text.replace(i, kText.size(), kText);
    }
  }
  return text;
}

// Calls use(JSON) of a file.
template <typename Use>
void with_json(const InputFile& file, const Use& use) {
  naming(file, [&] {
    const JsonLimits limits;
    const JsonDocument document(
        parse_json(with_infinities(read_text(file, limits.bytes)), "the file", limits));
    use(document.tree());
  });
}

constexpr char kConfig[] = "config.json";

ModelFiles open_folder(const InputFolder& folder) {
  constexpr char kGeneration[] = "generation_config.json";
  constexpr char kSingle[] = "model.safetensors";
  constexpr char kIndex[] = "model.safetensors.index.json";
  ModelFiles files;
  with_json(*folder.open(kConfig), [&](const Json& json) {
    files.config = config_from_json(json);
    files.declared_as = declared_architecture(json, files.config.architecture);
  });
  if (folder.has(kGeneration))
    with_json(*folder.open(kGeneration),
              [&](const Json& json) { apply_generation_config(json, files.config); });

  files.tensors = std::make_unique<TensorSource>();
  if (folder.has(kSingle))
    read_safetensors(folder.open(kSingle), *files.tensors);
  else if (folder.has(kIndex))
    read_sharded_safetensors(folder, kIndex, *files.tensors);
  else
    fail(Code::kNotFound, folder.name(), " has neither ", kSingle, " nor ", kIndex);
  return files;
}

ModelFiles open_path(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail(Code::kNotFound, "no model at ", quote_path(path));
  if (!fs::is_directory(status)) return open_gguf(std::make_shared<InputFile>(path));
  const Directory folder(path);
  if (!folder.has(kConfig))
    fail(Code::kNotFound, folder.name(), " is a directory without ", kConfig);
  return open_folder(folder);
}

// The GGUF files among them.
std::vector<std::string> gguf_names(const FedFiles& files) {
  std::vector<std::string> names = files.names();
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".gguf"); });
  return names;
}

ModelFiles open_fed(const FedFiles& files) {
  if (files.has(kConfig)) return open_folder(files);
  const std::vector<std::string> names = gguf_names(files);
  if (names.empty())
    fail(Code::kNotFound, files.name(), " has neither ", kConfig, " nor a .gguf file");
  if (names.size() > 1)
    fail(Code::kInvalidArgument, files.name(), " has ", names.size(),
         " .gguf files; a model is one of them");
  return open_gguf(files.open(names.front()));
}

}  // namespace

std::string ModelSource::name() const {
  if (!files) return path;
  const std::vector<std::string> names = gguf_names(*files);
  return names.size() == 1 ? names.front() : "model";
}

ModelFiles open_model(const ModelSource& source) {
  return source.files ? open_fed(*source.files) : open_path(source.path);
}

}  // namespace prefix
