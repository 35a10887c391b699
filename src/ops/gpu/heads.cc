// What heads read of logits, by kernels/body/heads.h.
#include <cstdint>

#include "base/status.h"
#include "ops/op_gpu.h"

namespace prefix::ops {
namespace {

void check_logits(const LogitBlock& block) {
  PREFIX_CHECK(block.ld % 4 == 0 && block.ld >= block.n && block.n > 0);
  PREFIX_CHECK(reinterpret_cast<uintptr_t>(block.x) % 16 == 0);
}

}  // namespace

// Not part of the layers' graph: how many rows are selected changes from step to step.
void GpuDevice::begin_heads(const HeadArrays& heads) {
  rows_ = padded_rows_ = 0;
  check(*runtime_, runtime_->cut(), "a step");
  fetch_flags();
  heads_.begin();
  heads_.place(heads.targets);
  heads_.place(heads.candidate_rows);
  heads_.send();
}

void GpuDevice::row_stats(const LogitBlock& block, std::span<const uint8_t>, RowStats* out) {
  check_logits(block);
  const auto parts = static_cast<size_t>(block.rows) * gpu::kLogitPartsMost;
  gpu::LogitStatsArgs a{};
  a.x = block.x;
  a.ld = block.ld;
  a.n = block.n;
  a.rows = block.rows;
  a.parts = reinterpret_cast<gpu::LogitPart*>(logit_parts_.reserve(parts * sizeof(gpu::LogitPart)));
  a.out = out + block.first;
  launcher_.launch(gpu::Kernel::kLogitParts, block.rows, gpu::logit_parts(block.n), a,
                   gpu::kStatsSharedBytes);
  launcher_.launch(gpu::Kernel::kLogitStats, (block.rows + gpu::kRowThreads - 1) / gpu::kRowThreads,
                   1, a);
}

void GpuDevice::gather_logits(const LogitBlock& block, std::span<const LogitAt> targets,
                              float* out) {
  stage_call(targets);
  gpu::GatherLogitsArgs a{};
  a.x = block.x;
  a.ld = block.ld;
  a.targets = on_device(targets);
  a.count = static_cast<int64_t>(targets.size());
  a.first = static_cast<int32_t>(block.first);
  a.rows = static_cast<int32_t>(block.rows);
  a.out = out;
  launcher_.launch(gpu::Kernel::kGatherLogits, (a.count + gpu::kRowThreads - 1) / gpu::kRowThreads,
                   1, a);
}

void GpuDevice::top_candidates(const LogitBlock& block, std::span<const int32_t> rows, int32_t k,
                               Candidate* out) {
  check_logits(block);
  PREFIX_CHECK(k >= 1 && k <= kMostCandidates && k <= block.n);
  stage_call(rows);
  const int parts = gpu::logit_parts(block.n);
  const size_t keys = rows.size() * static_cast<size_t>(parts * k);
  gpu::TopArgs a{};
  a.x = block.x;
  a.ld = block.ld;
  a.n = block.n;
  a.listed = on_device(rows);
  a.first = static_cast<int32_t>(block.first);
  a.rows = static_cast<int32_t>(block.rows);
  a.k = k;
  a.keys = reinterpret_cast<uint64_t*>(logit_parts_.reserve(keys * sizeof(uint64_t)));
  a.out = out;
  const auto listed = static_cast<int64_t>(rows.size());
  launcher_.launch(gpu::Kernel::kTopParts, listed, parts, a, gpu::kTopPartsSharedBytes);
  launcher_.launch(gpu::Kernel::kTopMerge, listed, 1, a, gpu::top_merge_shared_bytes(parts, k));
}

}  // namespace prefix::ops
