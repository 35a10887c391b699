// The row-wise operations of the CPU device; contracts in op.h.
#pragma once

#include <cstdint>
#include <span>

#include "ops/cpu/context.h"
#include "ops/op.h"

namespace prefix::ops {

void rms_norm(const CpuContext& context, const float* x, int64_t ld, const float* weight, float eps,
              int64_t rows, int64_t n, Act out);
void rms_norm_f32(const CpuContext& context, const float* x, int64_t ld, const float* weight,
                  float eps, int64_t rows, int64_t n, float* out, int64_t ld_out, bool add);
void qkv(const CpuContext& context, const QkvArgs& args, std::span<const int32_t> positions,
         std::span<const KvSlot> slots, const KvLayout& kv, std::byte* pool, int32_t layer, Act q,
         std::span<int32_t> not_finite);
void copy_pages(const CpuContext& context, std::span<const PageCopy> copies, const KvLayout& kv,
                std::byte* pool, int32_t layer);
void clear_pages(const CpuContext& context, std::span<const int32_t> pages, const KvLayout& kv,
                 std::byte* pool);

}  // namespace prefix::ops
