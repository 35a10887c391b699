// Tensors of a model file as the loader sees them, whatever the format.
//
//   safetensors ─┐
//   shards ──────┼─> TensorSource: name -> { type, shape, place in a file } ── read_row ──> f32
//   GGUF ────────┘        │                                         └─ read_blocks ──> as stored
//                         └─ quantised parts become one: { F32, shape, computed rows }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/input_file.h"
#include "ops/tensor_type.h"

namespace prefix {

using ops::TensorType;

// Rows that are made of other tensors.
class ComputedRows {
 public:
  virtual ~ComputedRows() = default;
  // Any thread. Throws kIo, and kFormat for numbers that cannot be computed with.
  virtual void read_row(int64_t row, float* out) const = 0;
  // How they are stored: "INT4".
  virtual std::string_view kind() const = 0;
  // The type of blocks that have the numbers of all rows, bit for bit; none where there is no such.
  // Any thread. Throws kIo, kFormat.
  virtual std::optional<TensorType> blocks() const { return std::nullopt; }
  // A row in these, as read_row().
  virtual void read_row_blocks(int64_t row, std::byte* out) const;
};

struct Tensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;       // slowest dimension first, in every format
  const InputFile* file = nullptr;  // valid while the TensorSource lives
  uint64_t offset = 0;              // of its bytes in the file
  size_t bytes = 0;
  std::shared_ptr<const ComputedRows> computed;  // instead of a place in a file; then of type F32
  bool may_be_left = false;  // the writer of the file adds it to models that have no such tensor
  std::string unread;        // of type kUnread: the file's word for it

  std::string_view kind() const {
    if (type == TensorType::kUnread) return unread;
    return computed ? computed->kind() : tensor_type_name(type);
  }

  int64_t row_values() const { return shape.empty() ? 1 : shape.back(); }
};

// A file may have tensors of any type that no model uses; what is used has numbers. Throws
// kUnsupportedModel for a type that is not read, or that is only a part of a quantised weight.
void require_numbers(const Tensor& tensor);

// Dequantises row `row` (the last dimension; the only row of a vector is 0) to f32, with the bits
// that the Python `gguf` package gives. Any thread. Throws kInternal for a row that is not there,
// kIo when the file is shorter than it was.
void read_row(const Tensor& tensor, int64_t row, float* out);
// The same row as the file has it.
void read_blocks(const Tensor& tensor, int64_t row, std::byte* out);

class TensorSource {
 public:
  // Null when there is none.
  const Tensor* find(std::string_view name) const {
    const auto found = by_name_.find(std::string(name));
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::vector<std::string> names() const;
  // Throws kIo when a file was changed since it was opened.
  void check_files() const;

  // Puts others of the same files in their place. Throws kFormat when a name occurs twice.
  void replace(std::vector<Tensor> tensors);

  // For the readers: takes a file and its tensors; throws kFormat when a name occurs twice.
  void add(std::shared_ptr<const InputFile> file, std::vector<Tensor> tensors);
  void add_all(TensorSource other);

 private:
  std::vector<std::shared_ptr<const InputFile>> files_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
};

inline constexpr int64_t kMaxTensorValues = int64_t{1} << 48;
inline constexpr size_t kMaxTensors = 1000000;  // of one file

// [3, 4], for messages.
std::string shape_text(const std::vector<int64_t>& shape);

// Elements of a shape; throws kFormat naming the tensor when a dimension is negative or the product
// passes kMaxTensorValues.
int64_t element_count(const std::string& name, const std::vector<int64_t>& shape);

}  // namespace prefix
