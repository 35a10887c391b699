// A model whose matrices lie in its file as compute=int8 has them in memory: rotated, in whole
// numbers, in panels (ops/weights.h). `prefix pack` writes it, a load only copies it.
//
//   a directory     its files, but prefix_int8.safetensors in place of its weights; or
//   a GGUF file     its metadata, with other tensors
//
//   int8.layers.0.mixer_in.panels   U8 (GGUF: I8) [panels, k_padded / 4, 32 * 4]
//   int8.layers.0.mixer_in.scales   F32 [columns up to whole pairs of panels]
//   model.norm.weight, ...          what is in no such matrix, as the model's own file has it
//   metadata "prefix.int8"          {"version": 2, "shapes": {tensors that are in matrices: shape}}
//
// The layout is the same for every level of the CPU. The signs of the rotation follow from k. A
// matrix has the name of its place and kind: embedding.head, output.head, layers.N.KIND,
// layers.N.experts.N.KIND.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/tensor_file.h"
#include "ops/packed_load.h"

namespace prefix {

inline constexpr char kPackedFile[] = "prefix_int8.safetensors";
inline constexpr char kPackedKey[] = "prefix.int8";  // of the metadata
inline constexpr int64_t kPackedVersion = 2;

std::string packed_matrix_name(std::string_view place, ops::MatrixKind kind);
// The names and shapes of the two tensors of a matrix.
std::string panels_name(const std::string& matrix);
std::string scales_name(const std::string& matrix);
std::vector<int64_t> panels_shape(const ops::PackedWeights& matrix);

class PackedModel {
 public:
  // `text`: of the metadata. Takes the tensors of matrices out of `source`, and puts those in that
  // the matrices are made of: with shapes, but nothing to read. Throws kFormat, and
  // kUnsupportedModel for another version; `file` is named.
  static void open(const std::string& text, const std::string& file, TensorSource& source);
  // Null for a source that was not opened.
  static std::shared_ptr<PackedModel> of(const TensorSource& source);
  // Whether a tensor is one that matrices are made of.
  static bool has(const Tensor& tensor);

  // The kinds of which there is at least one matrix: bits of ops::int8_bit().
  uint32_t kinds() const { return kinds_; }
  // Throws kInvalidArgument when one of them shall be something else.
  void check(const ops::NumericTypes& types) const;

  // The matrix of this name, which has this shape; without a device only that is looked at. Throws
  // kFormat for one that is not there or has another shape, and for a scale that is negative or not
  // finite.
  ops::PackedWeights load(const std::string& name, const ops::PackedWeights& shape,
                          ops::Device* device) const;
  std::vector<std::string> names() const;

 private:
  struct Matrix {
    Tensor panels, scales;  // their file lives as long as the TensorSource
  };
  void take(const Tensor& tensor, const std::string& matrix);

  std::string file_;
  std::map<std::string, Matrix> matrices_;
  uint32_t kinds_ = 0;
};

}  // namespace prefix
