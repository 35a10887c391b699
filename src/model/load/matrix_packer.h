// Where each matrix of a model comes from while it is loaded.
//
//   tensors of the file ── Device::pack() ────────┐
//                                                 ├──> PackedWeights ──> LoadObserver
//   matrices of a PackedModel ── load_packed() ───┘
//
// With weights=packed those whose blocks kernels multiply stay in them (PackedWeights::of_blocks),
// and so do whole numbers that such blocks have; the others become what dtype says.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/files/model_files.h"
#include "model/load/load_extras.h"
#include "model/load/tensor_rows.h"
#include "ops/op.h"

namespace prefix {

class PackedModel;

class MatrixPacker {
 public:
  // device: null for shapes only. Throws kInvalidArgument when the files have matrices in whole
  // numbers that `types` wants otherwise.
  MatrixPacker(const ModelFiles& files, ops::Device* device, const ops::NumericTypes& types,
               const LoadExtras& extras);

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
  // Of this shape, from rows of one source or two: MatrixPacker::gated().
  ops::PackedWeights make(ops::MatrixKind kind, const std::string& place,
                          const ops::PackedWeights& shape, int64_t n,
                          std::span<const TensorMatrix* const> matrices);
  ops::PackedWeights pack(const ops::PackedWeights& shape, int64_t n,
                          std::span<const ops::WeightSource* const> sources,
                          const ops::CalibrationRows* calibration = nullptr);

  const std::shared_ptr<const PackedModel> packed_;  // null: none
  std::set<std::string> loaded_;                     // of its matrices
  ops::Device* device_;
  const ops::NumericTypes types_;
  const LoadExtras extras_;
};

}  // namespace prefix
