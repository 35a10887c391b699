// A piece of a product: the sums of a block of rows and two panels of weights, cut along k, then
// finished.
//
//   rows of x   [ k block | k block | last ]  ->  sums [rows x 64], f32, on the stack
//   panel pair  [ k block | k block | last ]         └ a few rows at a time, after the last: y
#pragma once

#include <cstdint>
#include <optional>

#include "ops/cpu/gemm.h"
#include "ops/cpu/quantise.h"
#include "ops/cpu/wide_panels.h"

namespace prefix::ops {

inline constexpr int64_t kTileColumns = 2 * kPanelColumns;

// A product whose x is as the tiles read it.
struct ReadyProduct {
  const GemmProduct* product = nullptr;
  QuantisedRows quantised;  // x where the weights are int8
  BlockRows in_groups;      // x where they are blocks

  bool int8() const { return product->w->format == WeightFormat::kInt8; }
  bool blocks() const { return product->w->format == WeightFormat::kBlocks; }
  ActivationBuffer x() const {
    return int8() ? ActivationBuffer{quantised.data, quantised.ld} : product->x;
  }
};

class PairTask {
 public:
  // `worker`: of the calling thread. `first_pair`: whose columns y begins with.
  PairTask(const CpuContext& context, const ReadyProduct& ready, int worker,
           int64_t first_pair = 0);

  // Rows [row, row + rows), at most GemmKernels::row_block; k_block: a multiple of 64. `more`: the
  // next pair follows.
  void run(int64_t row, int64_t rows, int64_t pair, int64_t k_block, bool more);

 private:
  int64_t finish_rows() const;
  const std::byte* x_at(int64_t term, int64_t k) const;
  // All rows with k_block of a panel, which stay in L1, then with what follows there.
  void run_panels(int64_t row, int64_t rows, int64_t pair, int64_t k_block, bool more,
                  float* sums) const;
  // Sums of rows [first, first + count) of x to where they belong.
  void finish_terms(float* sums, int64_t first, int64_t count, int64_t pair) const;
  // All of k at once: a kernel walks along both panels unit by unit.
  void run_blocks(int64_t row, int64_t rows, int64_t pair, float* sums) const;
  // Rows 2 r and 2 r + 1 become row r.
  static void add_terms(float* sums, int64_t rows, bool both);
  // Whole numbers to f32.
  void scale(float* sums, const WholeSums& whole, int64_t rows, int64_t pair) const;
  // The sums of rows that have thin matrices go on over their rank.
  void add_thin(float* sums, int64_t row, int64_t rows, int64_t pair) const;
  void finish(const float* sums, const WholeSums* whole, int64_t row, int64_t rows,
              int64_t pair) const;

  const CpuContext& context_;
  const int worker_;
  const GemmKernels& gemm_;
  const PackedWeights& w_;
  const ReadyProduct& ready_;
  const ActivationBuffer x_;
  const GemmOutput& output_;
  const int64_t first_pair_;
  std::optional<WidePanels> wide_;
};

}  // namespace prefix::ops
