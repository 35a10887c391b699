#include "model/tensor_file.h"

#include "base/status.h"
#include "model/dequant.h"

namespace prefix {
namespace {

struct TypeInfo {
  std::string_view name;
  int64_t values;
  int64_t bytes;
};

const TypeInfo& info(TensorType type) {
  static constexpr TypeInfo kTypes[] = {
      {"F32", 1, 4},   {"F16", 1, 2},    {"BF16", 1, 2},   {"Q8_0", 32, 34},
      {"Q4_0", 32, 18}, {"Q4_1", 32, 20}, {"Q5_0", 32, 22}, {"Q5_1", 32, 24},
      {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
  };
  return kTypes[static_cast<size_t>(type)];
}

}  // namespace

std::string_view tensor_type_name(TensorType type) { return info(type).name; }
int64_t block_values(TensorType type) { return info(type).values; }
int64_t block_bytes(TensorType type) { return info(type).bytes; }

int64_t element_count(const std::string& name, const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = int64_t{1} << 48;
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d < 0 || (d > 0 && n > kMost / d))
      fail(Code::kFormat, "tensor \"", name, "\" has a dimension of ", d,
           "; a tensor may have at most ", kMost, " values");
    n *= d;
  }
  return n;
}

std::vector<std::string> TensorSource::names() const {
  std::vector<std::string> names;
  for (const Tensor& t : tensors_) names.push_back(t.name);
  return names;
}

void TensorSource::check_files() const {
  for (const auto& file : files_) file->check_size();
}

void TensorSource::add(std::shared_ptr<const MappedFile> file, std::vector<Tensor> tensors) {
  for (Tensor& t : tensors) {
    if (!by_name_.emplace(t.name, tensors_.size()).second)
      fail(Code::kFormat, file->path(), ": tensor \"", t.name, "\" occurs twice");
    tensors_.push_back(std::move(t));
  }
  files_.push_back(std::move(file));
}

void TensorSource::add_all(TensorSource other) {
  for (size_t i = 0; i < other.files_.size(); ++i)
    add(std::move(other.files_[i]), i == 0 ? std::move(other.tensors_) : std::vector<Tensor>());
}

void read_row(const Tensor& tensor, int64_t row, float* out) {
  const int64_t values = tensor.shape.empty() ? 1 : tensor.shape.back();
  const int64_t row_bytes = values / block_values(tensor.type) * block_bytes(tensor.type);
  dequantise(tensor.type, tensor.data + row * row_bytes, values, out);
}

}  // namespace prefix
