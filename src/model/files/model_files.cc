#include "model/files/model_files.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/error_text.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/status.h"
#include "model/files/gguf.h"
#include "model/files/json_file.h"
#include "model/files/quantised_tensors.h"
#include "model/files/safetensors.h"
#include "model/label_head.h"
#include "model/load/packed_model.h"
#include "model/load/tensor_names.h"
#include "model/load/weights.h"

namespace prefix {
namespace {

namespace fs = std::filesystem;

// The first of "architectures"; the model type where there is none.
std::string declared_architecture(const Json& config, const std::string& model_type) {
  const auto list = config.find("architectures");
  const bool named =
      list != config.end() && list->is_array() && !list->empty() && list->front().is_string();
  return named ? list->front().get<std::string>() : model_type;
}

ModelFiles open_gguf(std::shared_ptr<const InputFile> file) {
  ModelFiles files;
  files.tensors = std::make_shared<TensorSource>();
  GgufMetadata metadata;
  read_gguf(file, metadata, *files.tensors);
  if (metadata.has(kPackedKey))
    PackedModel::open(metadata.text(kPackedKey), file->name(), *files.tensors);
  naming(*file, [&] { files.config = config_from_gguf(metadata, *files.tensors); });
  naming(*file, [&] { files.config.labels = label_count(*files.tensors); });
  naming(*file, [&] { files.dense = open_dense_gguf(files.tensors, files.config.hidden); });
  if (!files.dense.empty()) files.config.dense_width = files.dense.back().out;
  files.declared_as = metadata.text("general.architecture");
  naming(*file, [&] { declare_gguf(metadata, files.declared); });
  return files;
}

constexpr char kConfig[] = "config.json";

// prefix_int8.safetensors, in place of the model's own weights.
void read_packed(std::shared_ptr<const InputFile> file, ModelFiles& files) {
  std::map<std::string, std::string> metadata;
  const std::string name = file->name();
  read_safetensors(std::move(file), *files.tensors, &metadata);
  const auto text = metadata.find(kPackedKey);
  if (text == metadata.end())
    fail(Code::kFormat, name, ": its metadata have no entry ", quote(kPackedKey));
  PackedModel::open(text->second, name, *files.tensors);
}

// Whether two tensors hold the same numbers; the first row that differs ends it. They have any
// shape: the loader looks whether it is that of a matrix.
bool same_values(const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape || a.type != b.type || a.computed || b.computed) return false;
  if (needs_scales(a.type)) return false;  // no numbers
  const int64_t values = element_count(a.name, a.shape);
  if (values == 0) return true;
  const int64_t rows = values / a.row_values();
  std::vector<std::byte> x(static_cast<size_t>(blocks_bytes(a.type, a.row_values()))), y(x.size());
  for (int64_t row = 0; row < rows; ++row) {
    read_blocks(a, row, x.data());
    read_blocks(b, row, y.data());
    if (x != y) return false;
  }
  return true;
}

// A model whose head was trained apart from its embedding often still says that they are one
// (tie_word_embeddings). As in Transformers from version 5 on, what the file has counts; many files
// repeat the embedding under the other name.
void untie_another_output(const std::string& embedding, const std::string& output,
                          ModelFiles& files) {
  const Tensor* const in = files.tensors->find(embedding);
  const Tensor* const out = files.tensors->find(output);
  if (!in || !out) return;
  const bool packed = PackedModel::has(*out);  // never of one that is tied
  if (!packed && (PackedModel::has(*in) || same_values(*in, *out))) return;
  files.config.tie_embeddings = false;
  if (!packed)
    log_message(
        LogLevel::kWarning,
        cat("config.json ties the output matrix to the embedding, but the values of tensor ",
            quote(output), " are others than those of ", quote(embedding),
            ": they are used as they are in the file (\"tie_word_embeddings\": false says so)"));
}

// Published embedders leave the output matrix out, whatever their configuration says of it.
void note_output(ModelFiles& files) {
  const FileNames names(*files.tensors, find_architecture(files.config.architecture), false);
  const std::string output = names(names.patterns().output);
  if (files.config.tie_embeddings)
    untie_another_output(names(names.patterns().embedding), output, files);
  else if (!files.tensors->find(output))
    files.config.missing_output = output;
}

ModelFiles open_folder(const InputFolder& folder) {
  constexpr char kGeneration[] = "generation_config.json";
  constexpr char kSingle[] = "model.safetensors";
  constexpr char kIndex[] = "model.safetensors.index.json";
  ModelFiles files;
  with_json(*folder.open(kConfig), [&](const Json& json) {
    files.config = config_from_json(json);
    files.declared_as = declared_architecture(json, files.config.architecture);
    declare_config(json, files.declared);
  });
  if (folder.has(kGeneration))
    with_json(*folder.open(kGeneration),
              [&](const Json& json) { apply_generation_config(json, files.config); });

  declare_folder(folder, files.declared);
  declare_recipe(folder, files.declared);
  files.dense = open_dense(folder, files.declared, files.config.hidden);
  files.tensors = std::make_shared<TensorSource>();
  if (folder.has(kSingle))
    read_safetensors(folder.open(kSingle), *files.tensors);
  else if (folder.has(kIndex))
    read_sharded_safetensors(folder, kIndex, *files.tensors);
  else if (folder.has(kPackedFile))
    read_packed(folder.open(kPackedFile), files);
  else
    fail(Code::kNotFound, folder.name(), " has neither ", kSingle, " nor ", kIndex);
  if (!PackedModel::of(*files.tensors)) {
    const Architecture& architecture = find_architecture(files.config.architecture);
    assemble_quantised(files.config.quantization, *files.tensors, [&](std::string_view name) {
      return is_left_out(name, files.config, architecture);
    });
  }
  if (has_projector(files.declared)) {
    files.dense = open_projector(files.tensors, files.config.hidden);
    files.config.dense_of_tokens = true;
  }
  if (!files.dense.empty()) files.config.dense_width = files.dense.back().out;
  note_output(files);
  files.config.labels = label_count(*files.tensors);
  return files;
}

ModelFiles open_path(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  // It may be there, behind a folder that is closed.
  if (status.type() == fs::file_type::none && error != std::errc::filename_too_long)
    fail(Code::kIo, quote_path(path), ": ", error_text(error.value()));
  if (!fs::exists(status)) fail(Code::kNotFound, "no model at ", quote_path(path));
  ModelFiles files;
  if (fs::is_directory(status)) {
    const Directory folder(path);
    if (!folder.has(kConfig))
      fail(Code::kNotFound, folder.name(), " is a directory without ", kConfig);
    files = open_folder(folder);
  } else {
    files = open_gguf(std::make_shared<InputFile>(path));
    declare_recipe(Directory(fs::path(path).parent_path().string()), files.declared);
  }
  declare_path(path, files.declared);
  return files;
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
  ModelFiles model = open_gguf(files.open(names.front()));
  declare_path(names.front(), model.declared);
  declare_recipe(files, model.declared);
  return model;
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
