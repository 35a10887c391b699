#include "model/load/packed_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr std::string_view kStart = "int8.", kPanels = ".panels", kScales = ".scales";
// A shape of each tensor: a name, a list, and what is in it.
constexpr JsonLimits kLimits = {100'000'000, 12 * kMaxTensors};

// The matrix that a tensor belongs to; empty: none.
std::string matrix_of(std::string_view tensor) {
  if (!tensor.starts_with(kStart)) return {};
  tensor.remove_prefix(kStart.size());
  for (const std::string_view end : {kPanels, kScales})
    if (tensor.ends_with(end)) return std::string(tensor.substr(0, tensor.size() - end.size()));
  return {};
}

// Of a matrix, by the end of its name; null: it is of no kind.
const std::string_view* kind_of(std::string_view matrix) {
  const std::string_view last = matrix.substr(matrix.rfind('.') + 1);
  const auto* const found = std::ranges::find(ops::kMatrixKindNames, last);
  return found == std::end(ops::kMatrixKindNames) ? nullptr : found;
}

// Of a tensor that has its numbers in matrices of the file, and no place of its own.
class InMatrices final : public ComputedRows {
 public:
  InMatrices(std::string name, std::shared_ptr<PackedModel> model)
      : name_(std::move(name)), model_(std::move(model)) {}
  void read_row(int64_t, float*) const override {
    fail(Code::kFormat, "tensor ", quote(name_),
         " is needed by itself; the file has it in matrices only");
  }
  std::string_view kind() const override { return "int8"; }
  const std::shared_ptr<PackedModel>& model() const { return model_; }

 private:
  std::string name_;
  std::shared_ptr<PackedModel> model_;
};

const InMatrices* in_matrices(const Tensor& tensor) {
  return dynamic_cast<const InMatrices*>(tensor.computed.get());
}

std::vector<Tensor> read_shapes(const Json& shapes, const std::shared_ptr<PackedModel>& model) {
  std::vector<Tensor> tensors;
  for (const auto& [name, shape] : shapes.items()) {
    Tensor& t = tensors.emplace_back();
    t.name = name;
    t.computed = std::make_shared<InMatrices>(name, model);
    if (!shape.is_array() || shape.size() > 4)
      fail(Code::kFormat, "the shape of tensor ", quote(name), " is ", json_shown(shape),
           ", not a list of at most 4 sizes");
    for (const Json& size : shape) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t{kMaxTensorValues})
        fail(Code::kFormat, "the shape of tensor ", quote(name), " has ", json_shown(size),
             ", which is no size in [0, ", kMaxTensorValues, "]");
      t.shape.push_back(static_cast<int64_t>(size.get<uint64_t>()));
    }
    t.bytes = static_cast<size_t>(element_count(name, t.shape));  // scales are few beside
  }
  return tensors;
}

std::vector<Tensor> read_metadata(const std::string& text,
                                  const std::shared_ptr<PackedModel>& model) {
  const JsonDocument document(parse_json(text, quote(kPackedKey), kLimits));
  const Json& json = document.tree();
  if (!json.is_object() || !json.contains("version") || !json.contains("shapes") ||
      !json.at("shapes").is_object())
    fail(Code::kFormat, quote(kPackedKey), " is not an object with version and shapes");
  if (json.at("shapes").empty()) fail(Code::kFormat, quote(kPackedKey), " names no tensor");
  if (json.at("version") != kPackedVersion)
    fail(Code::kUnsupportedModel, "its matrices were packed in version ",
         json_shown(json.at("version")), "; this library reads version ", kPackedVersion);
  return read_shapes(json.at("shapes"), model);
}

class FileSource final : public ops::PackedSource {
 public:
  FileSource(const Tensor& panels, const Tensor& scales) : panels_(panels), scales_(scales) {}
  void read_panels(size_t at, size_t count, std::byte* out) const override {
    panels_.file->read(panels_.offset + at, count, out);
  }
  void read_scales(float* out) const override {
    scales_.file->read(scales_.offset, scales_.bytes, out);
  }

 private:
  const Tensor& panels_;
  const Tensor& scales_;
};

}  // namespace

std::string packed_matrix_name(std::string_view place, ops::MatrixKind kind) {
  return cat(place, ops::kMatrixKindNames[static_cast<size_t>(kind)]);
}

std::string panels_name(const std::string& matrix) { return cat(kStart, matrix, kPanels); }
std::string scales_name(const std::string& matrix) { return cat(kStart, matrix, kScales); }

std::vector<int64_t> panels_shape(const ops::PackedWeights& matrix) {
  return {matrix.panels(), matrix.k_padded / 4, 4 * ops::kPanelColumns};
}

void PackedModel::take(const Tensor& tensor, const std::string& matrix) {
  const std::string_view* const kind = kind_of(matrix);
  if (!kind)
    fail(Code::kFormat, file_, ": tensor ", quote(tensor.name), " is of no kind of matrix");
  kinds_ |= 1u << (kind - std::begin(ops::kMatrixKindNames));
  Matrix& both = matrices_[matrix];
  (tensor.name.ends_with(kPanels) ? both.panels : both.scales) = tensor;
}

void PackedModel::open(const std::string& text, const std::string& file, TensorSource& source) {
  const auto model = std::make_shared<PackedModel>();
  model->file_ = file;
  std::vector<Tensor> others;
  try {
    others = read_metadata(text, model);
  } catch (const Error& e) {
    fail(e.code(), file, ": ", e.message());
  }
  for (const Tensor& t : source.tensors()) {
    const std::string matrix = matrix_of(t.name);
    if (!matrix.empty())
      model->take(t, matrix);
    else if (needs_scales(t.type))
      fail(Code::kUnsupportedModel, file, ": tensor ", quote(t.name), " has dtype ", t.kind(),
           "; what is in no matrix has numbers of its own");
    else
      others.push_back(t);
  }
  for (const auto& [name, matrix] : model->matrices_)
    if (!matrix.panels.file || !matrix.scales.file)
      fail(Code::kFormat, file, ": tensor ",
           quote(matrix.panels.file ? scales_name(name) : panels_name(name)), " is missing");
  source.replace(std::move(others));
}

std::shared_ptr<PackedModel> PackedModel::of(const TensorSource& source) {
  for (const Tensor& tensor : source.tensors())
    if (const InMatrices* const in = in_matrices(tensor)) return in->model();
  return nullptr;
}

bool PackedModel::has(const Tensor& tensor) { return in_matrices(tensor) != nullptr; }

std::vector<std::string> PackedModel::names() const {
  std::vector<std::string> names;
  for (const auto& [name, matrix] : matrices_) names.push_back(name);
  return names;
}

void PackedModel::check(const ops::NumericTypes& types) const {
  const uint32_t other = kinds_ & ~types.int8;
  if (other == 0) return;
  if (types.int8 == 0)
    fail(Code::kInvalidArgument, file_,
         " has its matrices in whole numbers (prefix pack): they are computed with compute=int8 "
         "only");
  for (size_t kind = 0; kind < std::size(ops::kMatrixKindNames); ++kind)
    if ((other >> kind & 1) != 0)
      fail(
          Code::kInvalidArgument, file_, " has the matrices ", ops::kMatrixKindNames[kind],
          " in whole numbers (prefix pack): option compute_keep must leave them out, it cannot keep "
          "them as dtype says");
}

ops::PackedWeights PackedModel::load(const std::string& name, const ops::PackedWeights& shape,
                                     ops::Device* device) const {
  const auto found = matrices_.find(name);
  if (found == matrices_.end())
    fail(Code::kFormat, file_, ": tensor ", quote(panels_name(name)), " is missing");
  const Matrix& matrix = found->second;
  const auto check = [&](const Tensor& t, bool right_type, const std::vector<int64_t>& wanted) {
    if (!right_type || t.shape != wanted)
      fail(Code::kFormat, file_, ": tensor ", quote(t.name), " is ", t.kind(), " ",
           shape_text(t.shape), "; the configuration asks for ", shape_text(wanted));
  };
  const TensorType type = matrix.panels.type;
  check(matrix.panels, type == TensorType::kU8 || type == TensorType::kI8, panels_shape(shape));
  check(matrix.scales, matrix.scales.type == TensorType::kF32, {shape.scale_count()});
  if (!device) return shape;
  const ops::PackedWeights loaded =
      ops::load_packed(*device, shape, FileSource(matrix.panels, matrix.scales));
  for (int64_t i = 0; i < loaded.scale_count(); ++i) {
    const float scale = loaded.scales[i];
    if (std::isfinite(scale) && !std::signbit(scale)) continue;
    device->release(const_cast<std::byte*>(loaded.data), loaded.bytes());
    fail(Code::kFormat, file_, ": tensor ", quote(matrix.scales.name), ": scale ", i, " is ", scale,
         "; scales are finite and not negative");
  }
  return loaded;
}

}  // namespace prefix
