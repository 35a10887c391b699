// Segment attention of the CPU device; contract in op.h and ops/attention_plan.h.
#pragma once

#include "ops/cpu/context.h"
#include "ops/op.h"

namespace prefix::ops {

void attention(const CpuContext& context, const AttentionArgs& args, const KvLayout& kv,
               const std::byte* pool);

}  // namespace prefix::ops
