// A libcublasLt.so that multiplies on the CPU, offers as many algorithms as a test wants, and
// refuses what it wants. Host memory stands for the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace prefix::ops::gpu {

struct FakeCublasLt {
  // What it does. Algorithms are numbered from 0, in the order in which they are proposed.
  size_t version = 130100;
  int algorithms = 4;
  using Refuses = std::function<bool(int algorithm, int64_t rows, int64_t n)>;
  Refuses check_refuses, matmul_refuses;
  int refusal = 15;       // CUBLAS_STATUS_NOT_SUPPORTED
  int matmul_answer = 0;  // unless 0, all that matmul says
  size_t workspace = 1024;
  std::vector<float> waves;  // of each algorithm: tiles over what runs at once

  // What was asked of it.
  struct Product {
    int algorithm;
    int64_t rows, n;
  };
  std::vector<Product> products;
  int heuristics = 0, checks = 0, created = 0, alive = 0, mistakes = 0, refused = 0;
  uint32_t reduction_mask = ~0u;  // of the last preference
};

FakeCublasLt& fake_cublaslt();

}  // namespace prefix::ops::gpu
