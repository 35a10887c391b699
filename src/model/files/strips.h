// Columns of tensors that lie in rows: a file has them in as many pieces as there are rows, so many
// columns are read together.
//
//             columns ──>
//            ┌──────┬──────┬──────┬──┐
//       rows │strip │strip │strip │  │    a strip: whole rows of a few columns, kBytes or less
//            └──────┴──────┴──────┴──┘
//
// The strips used last are kept, kKept in all, however many tensors there are. A thread that
// wants a strip that another one reads waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "model/files/tensor_file.h"

namespace prefix {

class Strips {
 public:
  // 4 tensors of codes, scales and zeros, each at the border of two strips, and their indices.
  static constexpr size_t kKept = 32;
  static constexpr int64_t kBytes = 2 << 20;

  // Column `column` of a tensor [rows, columns] of plain numbers, one behind the other in `out`.
  // Any thread. Throws kIo.
  void column(const Tensor& tensor, int64_t column, std::byte* out);

 private:
  struct Strip {
    const InputFile* file = nullptr;
    uint64_t offset = 0;  // of the tensor
    int64_t first = 0;    // column
    int64_t columns = 0;
    std::vector<std::byte> bytes;  // [rows][columns]
  };
  std::shared_ptr<const Strip> strip_of(const Tensor& tensor, int64_t first, int64_t columns);

  std::mutex mutex_;
  std::list<std::shared_ptr<const Strip>> kept_;  // used last: first
};

}  // namespace prefix
