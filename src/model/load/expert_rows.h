// The matrix of one expert in a tensor that holds those of all experts of a layer.
//
//   [experts, n, k]    rows of outputs, as quantised files have them: a block lies in a row
//   [experts, k, n]    transposed, as plain files have them
//
// Where gate and up are one matrix, their rows take turns: gate 0, up 0, gate 1, up 1, ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/files/strips.h"
#include "model/files/tensor_file.h"
#include "model/load/tensor_rows.h"

namespace prefix {

class ExpertRows final : public TensorMatrix {
 public:
  // Row r of the matrix is row first + r * step of the expert's. `strips`: null where the tensor is
  // not transposed; else of plain numbers, and columns are read through these.
  ExpertRows(const Tensor& tensor, int64_t expert, int64_t first, int64_t step,
             std::shared_ptr<Strips> strips);

  std::vector<const Tensor*> tensors() const override { return {&tensor_}; }
  ops::TensorType type(int64_t) const override { return expert_.type; }
  // Any thread. Throws kIo.
  void read(int64_t row, std::byte* out) const override;
  ops::TensorType kept_type(int64_t) const override { return kept_type_of(expert_); }
  void read_kept(int64_t row, std::byte* out) const override;

 private:
  const Tensor& tensor_;
  Tensor expert_;         // transposed: [k, n] of the expert alone
  int64_t first_, step_;  // of the rows of the tensor, or of its columns
  std::shared_ptr<Strips> strips_;
};

}  // namespace prefix
