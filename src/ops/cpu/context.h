// What the CPU operations share: the worker pool, the kernels of the chosen level, the data type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/threads.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/scratch.h"
#include "ops/op.h"

namespace prefix::ops {

struct CpuContext {
  Threads* threads = nullptr;
  const KernelTable* kernels = nullptr;
  DType dtype = DType::kBf16;
  Scratch* scratch = nullptr;   // [threads->count()]
  Scratch* partials = nullptr;  // what the tasks of one call leave for each other

  // Activations are bf16 only where the level multiplies bf16 and the weights are bf16.
  bool act_is_bf16() const { return dtype == DType::kBf16 && kernels->gemm.act_is_bf16; }
  size_t act_bytes() const { return act_is_bf16() ? 2 : 4; }
  // The tile product of the weights' (and keys' and values') type with activations.
  TileFn tile() const {
    return dtype == DType::kBf16 ? kernels->gemm.tile_bf16 : kernels->gemm.tile_f32;
  }
};

}  // namespace prefix::ops
