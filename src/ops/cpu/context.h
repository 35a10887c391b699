// What the CPU operations share: the worker pool, the kernels of the chosen level, the data type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/threads.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/scratch.h"
#include "ops/op.h"

namespace prefix::ops {

// Activations are bf16 only where the level multiplies bf16 and the weights are bf16.
inline ComputeType compute_type_of(const NumericTypes& types, const KernelTable& kernels) {
  return types.weights == WeightFormat::kBf16 && kernels.gemm.act_is_bf16 ? ComputeType::kBf16
                                                                          : ComputeType::kF32;
}

struct CpuContext {
  Threads* threads = nullptr;
  const KernelTable* kernels = nullptr;
  NumericTypes types;
  Scratch* scratch = nullptr;         // [threads->count()]
  Scratch* wide = nullptr;            // [threads->count()], of WidePanels
  Scratch* partials = nullptr;        // what the tasks of one call leave for each other
  InputObserver* observer = nullptr;  // null: none

  ComputeType compute_type() const { return compute_type_of(types, *kernels); }
  bool act_is_bf16() const { return compute_type() == ComputeType::kBf16; }
  size_t act_bytes() const { return compute_bytes(compute_type()); }
  // The products of activations with weights.
  TileFn tile(WeightFormat format) const {
    switch (format) {
      case WeightFormat::kBf16:
        return kernels->gemm.tile_bf16;
      case WeightFormat::kInt8:
        return kernels->gemm.tile_int8;
      case WeightFormat::kBlocks:  // GemmKernels::tile_blocks
      case WeightFormat::kF32:
        break;
    }
    return kernels->gemm.tile_f32;
  }
  // Of an element that the tile of a product reads of x.
  size_t operand_bytes(WeightFormat format) const {
    if (format == WeightFormat::kInt8)
      return static_cast<size_t>(kernels->gemm.int8_operand_bytes());
    return format == WeightFormat::kBlocks ? 1 : act_bytes();
  }
};

}  // namespace prefix::ops
