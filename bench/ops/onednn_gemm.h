// A matrix product by oneDNN: the second opinion of the tests and the speed to beat in the
// benchmark. Built only with PREFIX_WITH_ONEDNN; the library itself never uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/op.h"

namespace prefix::ops {

// y[m, n] = x[m, k] w[n, k]^T with x and w in `type` (rounded here) and y in f32, the weights
// packed in the layout that oneDNN chooses.
class OnednnGemm {
 public:
  OnednnGemm(WeightFormat format, int64_t m, int64_t n, int64_t k, const std::vector<float>& x,
             const std::vector<float>& w);
  ~OnednnGemm();

  // On `threads` threads of oneDNN's own pool (OpenMP).
  void run(int threads);
  std::vector<float> result() const;
  std::string implementation() const;  // e.g. "brg:avx512_core_bf16"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace prefix::ops
