// Products of many rows by panels of bf16, at levels that multiply f32: the panels of a tile become
// f32 while the tile before it is multiplied.
//
//   tile n       x   f32 panels n ──> sums         (GemmKernels::tile_wide, one pass over k)
//                   bf16 panels n + 1 ──> f32
//   tile n + 1   x   f32 panels n + 1 ──> sums
//                   bf16 panels n + 2 ──> f32      in the memory of panels n
//
// Both lie in L2. Widened in registers, for each block of rows anew,
// they take a tenth of the units that multiply.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/scratch.h"

namespace prefix::ops {

// Those of a tile: TileArgs::b0, b1, chunks and kc.
struct Panels {
  const void* const* b0 = nullptr;
  const void* const* b1 = nullptr;
  int64_t chunks = 0;  // at most kBlockPages
  int64_t kc = 0;
};

class WidePanels {
 public:
  // Of the memory for tiles of at most `k` in all chunks.
  static constexpr size_t bytes(int64_t k) {
    // One line more: GemmKernels::tile_wide stores two bytes further than it writes.
    return static_cast<size_t>(2 * half_floats(k)) * sizeof(float) + 64;
  }
  // For such tiles. `memory` is for nothing else: the last 16 bits of its numbers stay 0.
  WidePanels(const GemmKernels& gemm, Scratch& memory, int64_t k);

  // False where a level does not widen, or for rows that are too few to do it meanwhile.
  static bool worth(const GemmKernels& gemm, int64_t rows);

  // The tile's product. `next`: panels of the next tile that has others;
  // without them nothing is prepared.
  void multiply(TileArgs tile, const Panels& next = {});

 private:
  static constexpr int64_t half_floats(int64_t k) { return 2 * kPanelColumns * k; }

  // What one half of the memory holds.
  struct Half {
    float* data = nullptr;
    const void* left[kBlockPages];
    const void* right[kBlockPages];
    int64_t chunks = 0;
    int64_t kc = 0;
    bool both = false;
    int64_t k = 0;  // of each chunk, that are there

    bool holds(const Panels& panels) const;
    void expect(const Panels& panels);
    // What is not there yet, with nothing beside it.
    void finish(const GemmKernels& gemm);
    // In f32, of a chunk.
    float* panel(int64_t chunk, int side) const {
      return data + (2 * chunk + side) * kc * kPanelColumns;
    }
  };

  const GemmKernels& gemm_;
  Half now_;
  Half ahead_;
};

}  // namespace prefix::ops
