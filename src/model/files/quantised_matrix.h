// A matrix stored as small numbers with scales, in several tensors of a file.
//
//   codes   [rows, columns]            integers of 4 or 8 bits, F8_E4M3 or E2M1
//   scales  [rows / a, columns / b]    of blocks of a x b weights; a whole row or matrix is one, too
//   zeros   likewise, or none
//   groups  [columns]                  which column of scales and zeros a column has, where it is
//                                      not column / b
//
//   weight = (code - zero) * scale     in f32
//
// A product of codes and scales of up to 16 bits is exact in f32: rounded to the type of the scales
// it is what the packages that write the files make of them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/files/strips.h"
#include "model/files/tensor_file.h"

namespace prefix {

// Numbers in a tensor [i, j], as rows of a matrix.
//
//   transposed   i is the column: a row of the matrix is a column of the tensor
//   bits         the elements are words of 32 bits (I32) that hold 32 / bits numbers each, lowest
//                bits first: along j, or with `down` along i; 0: an element is a number
struct SmallNumbers {
  enum class Meaning : uint8_t { kUnsigned, kCentred, kE2M1 };  // of packed ones

  Tensor tensor;
  bool transposed = false;
  int bits = 0;
  bool down = false;
  Meaning meaning = Meaning::kUnsigned;  // kCentred: the middle of the range stands for 0
  bool interleaved = false;              // AWQ: of 8 numbers first the even ones, then the odd ones
  uint32_t added = 0;                    // to a word
  int64_t rows_each = 1;                 // rows of the matrix that share one here

  // out: [columns]. Any thread. Throws kIo.
  void read(Strips& strips, int64_t row, int64_t columns, float* out) const;
};

class QuantisedMatrix final : public ComputedRows {
 public:
  struct Parts {
    SmallNumbers codes;
    SmallNumbers scales;
    std::optional<SmallNumbers> zeros;
    std::optional<Tensor> groups;  // I32; all -1: as without it
    int64_t columns = 0;
    int64_t group = 1;  // columns of a scale
    int64_t scale_columns = 0;
    std::string_view kind;  // "INT4", "F8_E4M3"
  };
  QuantisedMatrix(Parts parts, std::shared_ptr<Strips> strips);

  // Throws kFormat naming the tensor for a scale that is not finite and a group that is not there.
  void read_row(int64_t row, float* out) const override;
  std::string_view kind() const override { return parts_.kind; }
  std::optional<TensorType> blocks() const override;
  void read_row_blocks(int64_t row, std::byte* out) const override;

 private:
  struct Scales {
    std::vector<float> scales, zeros;
  };
  Scales read_scales(int64_t row) const;
  std::vector<int32_t> read_groups() const;

  Parts parts_;
  std::shared_ptr<Strips> strips_;
  mutable std::once_flag blocks_found_;
  mutable std::optional<TensorType> blocks_;
};

}  // namespace prefix
