// cuBLASLt, opened at run time. Its header comes with a library of half a gigabyte, so the few
// functions and constants that are used are declared here, from NVIDIA's documentation of
// cuBLAS 13.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// The products of the backend: y = x w^T, f32 sums and results (GemmArgs). One thread at a time.
class CublasLt {
 public:
  CublasLt() = default;
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // False when the library is not there or does not work; `why` says so. `invariant`: one
  // algorithm for each weight matrix, whatever the number of rows, and no sums across blocks.
  bool open(bool invariant, std::string& why);

  enum class Answer { kDone, kUnsupported, kFailed };
  // kUnsupported: cuBLASLt has no algorithm for this shape.
  Answer gemm(const GemmArgs& args, cudaStream_t stream, std::string& why);

 private:
  struct Functions;
  struct Algorithm {
    uint64_t data[8];
    size_t workspace;
    bool found;
  };
  // rows (0: any), n, k, leading dimensions, add, bias, element
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int, int, int>;

  Functions* functions_ = nullptr;
  void* handle_ = nullptr;
  void* workspace_ = nullptr;
  bool invariant_ = false;
  std::map<Key, Algorithm> algorithms_;
};

}  // namespace prefix::ops::gpu
