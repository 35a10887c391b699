// Weight matrices made of rows of tensors, as the loader packs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/files/tensor_file.h"
#include "ops/weights.h"

namespace prefix {

// A matrix that is made of tensors.
class TensorMatrix : public ops::WeightSource {
 public:
  virtual std::vector<const Tensor*> tensors() const = 0;
  // The same numbers in the blocks that weights=packed keeps, where they lie otherwise in the file.
  virtual ops::TensorType kept_type(int64_t row) const { return type(row); }
  virtual void read_kept(int64_t row, std::byte* out) const { read(row, out); }
};

// The same of a tensor.
inline ops::TensorType kept_type_of(const Tensor& tensor) {
  return tensor.computed ? tensor.computed->blocks().value_or(tensor.type) : tensor.type;
}
inline void read_kept_row(const Tensor& tensor, int64_t row, std::byte* out) {
  if (tensor.computed && tensor.computed->blocks())
    tensor.computed->read_row_blocks(row, out);
  else
    read_blocks(tensor, row, out);
}

// Rows of one or more tensors, one below the other.
class TensorRows final : public TensorMatrix {
 public:
  struct Part {
    const Tensor* tensor = nullptr;
    int64_t first = 0;  // of the tensor's rows
    int64_t count = 0;
    // Row r of the matrix is stored as permuted_row(r, head_dim); 0: as row r.
    int64_t permuted_head_dim = 0;
  };
  explicit TensorRows(std::vector<Part> parts) : parts_(std::move(parts)) {}

  std::vector<const Tensor*> tensors() const override {
    std::vector<const Tensor*> all;
    for (const Part& part : parts_) all.push_back(part.tensor);
    return all;
  }
  ops::TensorType type(int64_t row) const override { return part_of(row).tensor->type; }
  void read(int64_t row, std::byte* out) const override {
    const Tensor& tensor = tensor_of(row);
    read_blocks(tensor, row, out);
  }
  ops::TensorType kept_type(int64_t row) const override {
    return kept_type_of(*part_of(row).tensor);
  }
  void read_kept(int64_t row, std::byte* out) const override {
    const Tensor& tensor = tensor_of(row);
    read_kept_row(tensor, row, out);
  }
  // GGUF stores the query and key rows of "llama" with the two halves of a head interleaved.
  static int64_t permuted_row(int64_t row, int64_t head_dim) {
    const int64_t i = row % head_dim;
    return row - i + 2 * (i % (head_dim / 2)) + i / (head_dim / 2);
  }

 private:
  // Makes `row` one of the tensor's rows.
  const Tensor& tensor_of(int64_t& row) const {
    const Part& part = part_of(row);
    if (part.permuted_head_dim > 0) row = permuted_row(row, part.permuted_head_dim);
    row += part.first;
    return *part.tensor;
  }
  // Makes `row` one of the part's rows.
  const Part& part_of(int64_t& row) const {
    for (const Part& part : parts_) {
      if (row < part.count) return part;
      row -= part.count;
    }
    fail(Code::kInternal, "a matrix has no row ", row, " beyond its last");
  }

  std::vector<Part> parts_;
};

// A tensor whose columns come in blocks of another order: GGUF stores the value heads of a gated
// delta rule in turns of the key heads,
//
//   ours    v0 v1 v2 | v3 v4 v5      of key heads 0 | 1
//   stored  v0 v3 | v1 v4 | v2 v5    `groups` of them at a time
class TurnedColumns final : public TensorMatrix {
 public:
  TurnedColumns(const Tensor& tensor, int64_t groups, int64_t heads, int64_t width)
      : tensor_(tensor), groups_(groups), heads_(heads), width_(width) {}

  // Where head `h` of ours is stored.
  static int64_t stored(int64_t h, int64_t groups, int64_t heads) {
    const int64_t each = heads / groups;
    return h % each * groups + h / each;
  }

  std::vector<const Tensor*> tensors() const override { return {&tensor_}; }
  ops::TensorType type(int64_t) const override { return ops::TensorType::kF32; }
  void read(int64_t row, std::byte* out) const override {
    std::vector<float> values(static_cast<size_t>(heads_ * width_));
    read_row(tensor_, row, values.data());
    const auto bytes = static_cast<size_t>(width_) * sizeof(float);
    for (int64_t h = 0; h < heads_; ++h)
      std::memcpy(out + static_cast<size_t>(h) * bytes,
                  values.data() + stored(h, groups_, heads_) * width_, bytes);
  }

 private:
  const Tensor& tensor_;
  int64_t groups_, heads_, width_;
};

}  // namespace prefix
