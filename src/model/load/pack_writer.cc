#include "model/load/pack_writer.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error_text.h"
#include "base/json_text.h"
#include "base/output_file.h"
#include "base/quote.h"
#include "base/status.h"
#include "model/architecture.h"
#include "model/files/pack_file.h"
#include "model/load/packed_model.h"
#include "model/load/tensor_names.h"
#include "model/load/weights.h"

namespace prefix {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;  // of a copy

Tensor tensor_of(std::string name, TensorType type, std::vector<int64_t> shape) {
  Tensor t;
  t.name = std::move(name);
  t.type = type;
  t.shape = std::move(shape);
  t.bytes = static_cast<size_t>(blocks_bytes(type, element_count(t.name, t.shape)));
  return t;
}

// Files that say how a model is used, and by what licence.
bool is_companion(const std::string& name) {
  if (name.ends_with(".index.json")) return false;
  const std::string file = name.substr(name.rfind('/') + 1);
  if (file.find('.') == std::string::npos) return file.starts_with("LICENSE") || file == "NOTICE";
  constexpr std::string_view kEnds[] = {".json", ".txt", ".jinja", ".model", ".tiktoken", ".md"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return file.ends_with(end); });
}

void copy_file(const InputFile& from, const std::string& to) {
  OutputFile out(to);
  std::vector<std::byte> piece(std::min<uint64_t>(kPieceBytes, from.size()));
  for (uint64_t at = 0; at < from.size(); at += piece.size()) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(piece.size(), from.size() - at));
    from.read(at, count, piece.data());
    out.write(at, piece.data(), count);
  }
  out.finish();
}

// What the new file will hold, from shapes alone.
class Plan final : public LoadObserver {
 public:
  void matrix(const std::string& name, ops::PackedWeights& packed,
              const std::vector<const Tensor*>& tensors) override {
    for (const Tensor* tensor : tensors) in_matrices_.emplace(tensor->name, tensor);
    panels_.push_back(tensor_of(panels_name(name), TensorType::kU8, panels_shape(packed)));
    scales_.push_back(tensor_of(scales_name(name), TensorType::kF32, {packed.scale_count()}));
  }
  void used(const std::set<std::string>& tensors) override { used_ = tensors; }

  // Panels first: they stay where pages begin. Then what is in no matrix.
  std::vector<Tensor> tensors(const ModelFiles& files) const {
    std::vector<Tensor> all = panels_;
    all.insert(all.end(), scales_.begin(), scales_.end());
    const Architecture& architecture = find_architecture(files.config.architecture);
    const FileNames names(*files.tensors, architecture, files.config.from_gguf);
    // Of a model that is tied the embedding under another name.
    const std::string repeated =
        files.config.tie_embeddings ? names(names.patterns().output) : std::string();
    for (const Tensor& t : files.tensors->tensors()) {
      if (in_matrices_.contains(t.name) || is_left_out(t.name, files.config, architecture) ||
          t.name == repeated || (t.may_be_left && !used_.contains(t.name)) ||
          needs_scales(t.type))  // what has no numbers is not used
        continue;
      all.push_back(tensor_of(t.name, t.type, t.shape));
    }
    return all;
  }
  std::string metadata() const {
    JsonText json;
    json.open('{').field("version", kPackedVersion).key("shapes").open('{');
    for (const auto& [name, tensor] : in_matrices_) json.list(name, tensor->shape);
    return std::move(json.close('}').close('}')).take();
  }
  bool empty() const { return panels_.empty(); }

 private:
  std::map<std::string, const Tensor*> in_matrices_;
  std::vector<Tensor> panels_, scales_;
  std::set<std::string> used_;
};

class PackWriter final : public LoadObserver {
 public:
  PackWriter(const ModelFiles& files, ops::Device& device, const std::string& path)
      : from_(*files.tensors), device_(device), gguf_(files.config.from_gguf) {
    Plan plan;
    weight_shapes(files, find_architecture(files.config.architecture), device.types(), &plan);
    if (plan.empty())
      fail(Code::kInvalidArgument, "compute_keep leaves no matrix in whole numbers to be written");
    tensors_ = plan.tensors(files);
    if (gguf_)
      for (Tensor& t : tensors_)
        if (t.type == TensorType::kU8) t.type = TensorType::kI8;
    const std::string begin =
        gguf_ ? packed_gguf(tensors_, plan.metadata(), *from_.tensors().front().file)
              : packed_safetensors(tensors_, plan.metadata());
    for (size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
    path_ = std::make_unique<NewPath>(path, gguf_ ? NewPath::Kind::kFile : NewPath::Kind::kFolder);
    file_ = std::make_unique<OutputFile>(gguf_ ? path_->part()
                                               : (fs::path(path_->part()) / kPackedFile).string());
    file_->write(0, begin.data(), begin.size());
  }

  void matrix(const std::string& name, ops::PackedWeights& packed,
              const std::vector<const Tensor*>& tensors) override {
    for (int64_t i = 0; i < packed.scale_count(); ++i)
      if (!(packed.scales[i] <= std::numeric_limits<float>::max()))
        fail(Code::kUnsupportedModel, "row ", i, " of matrix ", quote(name), ", which is made of ",
             quote(tensors.front()->name), ", has numbers that are not finite");
    const Tensor& panels = placed(panels_name(name));
    const Tensor& scales = placed(scales_name(name));
    file_->write(panels.offset, packed.data, panels.bytes);
    file_->write(scales.offset, packed.scales, scales.bytes);
    device_.release(const_cast<std::byte*>(packed.data), packed.bytes());
    packed.data = nullptr;
    packed.scales = packed.signs = nullptr;
  }
  void used(const std::set<std::string>&) override {}

  void write_others() {
    for (const Tensor& tensor : from_.tensors())
      if (by_name_.contains(tensor.name)) write_tensor(tensor, placed(tensor.name));
    from_.check_files();  // what was written may be of two versions
    file_->finish();
  }
  const std::string& folder() const { return path_->part(); }
  bool is_folder() const { return !gguf_; }
  void finish() { path_->finish(); }

 private:
  // In the new file.
  const Tensor& placed(const std::string& name) const {
    const auto found = by_name_.find(name);
    PREFIX_CHECK(found != by_name_.end());
    return tensors_[found->second];
  }
  void write_tensor(const Tensor& from, const Tensor& to) {
    if (!from.computed) {
      std::vector<std::byte> piece(std::min(kPieceBytes, from.bytes));
      for (size_t at = 0; at < from.bytes; at += piece.size()) {
        const size_t count = std::min(piece.size(), from.bytes - at);
        from.file->read(from.offset + at, count, piece.data());
        file_->write(to.offset + at, piece.data(), count);
      }
      return;
    }
    std::vector<float> row(static_cast<size_t>(from.row_values()));
    const size_t bytes = row.size() * sizeof(float);
    for (size_t at = 0, i = 0; at < to.bytes; at += bytes, ++i) {
      read_row(from, static_cast<int64_t>(i), row.data());
      file_->write(to.offset + at, row.data(), bytes);
    }
  }

  const TensorSource& from_;  // the model's own tensors
  ops::Device& device_;
  bool gguf_;
  std::vector<Tensor> tensors_;            // of the new file, with their places
  std::map<std::string, size_t> by_name_;  // in tensors_
  std::unique_ptr<NewPath> path_;
  std::unique_ptr<OutputFile> file_;
};

// Of the files in a directory and in those right below, "1_Pooling/config.json"; no hidden ones.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  const auto list = [&](const std::string& below, const auto& self) -> void {
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(path) / below)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with('.')) continue;
      if (entry.is_regular_file())
        names.push_back(below + name);
      else if (below.empty() && entry.is_directory())
        self(name + "/", self);
    }
  };
  try {
    list("", list);
  } catch (const fs::filesystem_error& e) {
    fail(Code::kIo, quote_path(path), ": ", error_text(e.code().value()));
  }
  return names;
}

void copy_files(const InputFolder& folder, const std::vector<std::string>& names,
                const std::vector<DenseFile>& dense, const std::string& to) {
  for (const std::string& name : names) {
    const size_t slash = name.find('/');
    const bool of_dense =
        slash != std::string::npos && name.ends_with(".safetensors") &&
        std::ranges::find(dense, name.substr(0, slash), &DenseFile::folder) != dense.end();
    if (!of_dense && !is_companion(name)) continue;
    const fs::path path = fs::path(to) / name;
    std::error_code error;
    if (slash != std::string::npos) fs::create_directory(path.parent_path(), error);
    if (error)
      fail(Code::kIo, "cannot make ", quote_path(path.parent_path().string()), ": ",
           error_text(error.value()));
    copy_file(*folder.open_listed(name, folder.name()), path.string());
  }
}

}  // namespace

void write_packed(const ModelSource& source, const ModelFiles& files, ops::Device& device,
                  const std::string& path, const std::function<Calibration()>& calibrate,
                  const Model::Progress& progress) {
  if (PackedModel::of(*files.tensors))
    fail(Code::kInvalidArgument, "the model ", quote_path(source.name()),
         " has its matrices in whole numbers (compute=int8) already");
  PackWriter writer(files, device, path);
  const Calibration calibration = calibrate();
  const Weights kept = load_weights(files, find_architecture(files.config.architecture), device,
                                    progress, {&writer, &calibration});
  release_weights(kept, device);
  writer.write_others();
  if (writer.is_folder() && source.files)
    copy_files(*source.files, source.files->names(), files.dense, writer.folder());
  else if (writer.is_folder())
    copy_files(Directory(source.path), names_in(source.path), files.dense, writer.folder());
  writer.finish();
}

}  // namespace prefix
