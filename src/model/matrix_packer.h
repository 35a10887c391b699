// Where each matrix of a model comes from while it is loaded.
//
//   tensors of the file ── Device::pack() ────────┐
//                                                 ├──> PackedWeights ──> LoadObserver
//   matrices of a PackedModel ── load_packed() ───┘
//
// With weights=packed those whose blocks kernels multiply stay in them (PackedWeights::of_blocks), and so
// do whole numbers that such blocks have; the others become what dtype says.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "model/tensor_rows.h"
#include "ops/op.h"

namespace prefix {

class PackedModel;

// Sees what a load makes of the tensors.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  // An int8 matrix, by the name of packed_matrix_name(), and what it is made of. It has data when
  // there is a device; who takes that leaves null.
  virtual void matrix(const std::string& name, ops::PackedWeights& packed,
                      const std::vector<const Tensor*>& tensors) = 0;
  // Once, at the end: the tensors of the architecture.
  virtual void used(const std::set<std::string>& tensors) = 0;
};

class MatrixPacker {
 public:
  // device: null for shapes only. observer: may be null. Throws kInvalidArgument when the files
  // have matrices in whole numbers that `types` wants otherwise.
  MatrixPacker(const ModelFiles& files, ops::Device* device, const ops::NumericTypes& types,
               LoadObserver* observer);

  // W [n, k]; `place`: what the name begins with, "layers.3.".
  ops::PackedWeights plain(ops::MatrixKind kind, const std::string& place, int64_t n, int64_t k,
                           const TensorMatrix& rows);
  ops::PackedWeights gated(ops::MatrixKind kind, const std::string& place, int64_t n, int64_t k,
                           const TensorMatrix& gate, const TensorMatrix& up);
  // In the type of dtype, whatever compute says.
  ops::PackedWeights never_int8(int64_t n, int64_t k, const TensorMatrix& rows);
  // Throws kFormat naming a matrix of the files that was not asked for.
  void check_all_loaded() const;

  const ops::NumericTypes& types() const { return types_; }

 private:
  // The shape of a matrix that stays in the blocks of its file; else one without `blocks`.
  ops::PackedWeights in_blocks(std::span<const ops::WeightSource* const> sources, int64_t n,
                               int64_t k);
  ops::WeightFormat format(ops::MatrixKind kind, int64_t k) const;
  // `pack` makes it of the shape; `sources` are its rows.
  template <typename Pack>
  ops::PackedWeights make(ops::MatrixKind kind, const std::string& place,
                          const ops::PackedWeights& shape,
                          std::span<const TensorMatrix* const> sources, const Pack& pack);

  const std::shared_ptr<const PackedModel> packed_;  // null: none
  std::set<std::string> loaded_;                     // of its matrices
  ops::Device* device_;
  const ops::NumericTypes types_;
  LoadObserver* observer_;
};

}  // namespace prefix
