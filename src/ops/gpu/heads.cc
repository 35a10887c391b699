// What heads read of logits, by kernels/body/heads.h.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/status.h"
#include "ops/gpu/step.h"

namespace prefix::ops::gpu {
namespace {

void check_logits(const LogitBlock& block) {
  PREFIX_CHECK(block.ld % 4 == 0 && block.ld >= block.n && block.n > 0);
  PREFIX_CHECK(reinterpret_cast<uintptr_t>(block.x) % 16 == 0);
}

}  // namespace

// Not part of the layers' graph: how many rows are selected changes from step to step.
void GpuStep::begin_heads(const HeadArrays& arrays) {
  heads_ = arrays;
  check(*context_.runtime, context_.runtime->cut(), "a step");
  fetch_not_finite();
  const bool announced = std::ranges::equal(arrays.rows, arrays_.reads);
  Staging& staging = context_.head_arrays;
  staging.begin();
  targets_ = staging.place(arrays.targets);
  candidate_rows_ = staging.place(arrays.candidate_rows);
  Staged<int32_t> rows;
  if (!announced) rows = staging.place(arrays.rows);
  staging.send();
  selected_ = announced ? context_.step_arrays.at(reads_) : staging.at(rows);
}

void GpuStep::row_stats(const LogitBlock& block, RowStats* out) {
  check_logits(block);
  const auto parts = static_cast<size_t>(block.rows) * kMaxLogitParts;
  void* const memory = context_.logit_parts.reserve(parts * sizeof(LogitPart));
  const RowStatsArgs a{
      block.x, block.ld, block.n, block.rows, static_cast<LogitPart*>(memory), out + block.first};
  launch(*context_.runtime, Kernel::kRowStatsParts, block.rows, logit_parts(block.n), a,
         kStatsSharedBytes);
  launch(*context_.runtime, Kernel::kRowStats, (block.rows + kRowThreads - 1) / kRowThreads, 1, a);
}

void GpuStep::gather_logits(const LogitBlock& block, float* out) {
  const GatherLogitsArgs a{block.x,
                           block.ld,
                           context_.head_arrays.at(targets_),
                           std::ssize(heads_.targets),
                           static_cast<int32_t>(block.first),
                           static_cast<int32_t>(block.rows),
                           out};
  launch(*context_.runtime, Kernel::kGatherLogits, (a.count + kRowThreads - 1) / kRowThreads, 1, a);
}

void GpuStep::top_candidates(const LogitBlock& block, Candidate* out) {
  check_logits(block);
  const int32_t k = heads_.candidates;
  // Rows of other blocks come before and behind, as a rule, and need no keys.
  const std::span<const int32_t> rows = heads_.candidate_rows;
  const auto inside = [&](int32_t row) { return block.has(row); };
  const auto first = std::find_if(rows.begin(), rows.end(), inside);
  const auto end = std::find_if(rows.rbegin(), std::make_reverse_iterator(first), inside).base();
  const int64_t before = first - rows.begin(), listed = end - first;
  if (listed == 0) return;
  PREFIX_CHECK(k >= 1 && k <= kMaxCandidates && k <= block.n);
  const int parts = logit_parts(block.n);
  const size_t keys = static_cast<size_t>(listed * parts * k);
  TopCandidatesArgs a{};
  a.x = block.x;
  a.ld = block.ld;
  a.n = block.n;
  a.listed = context_.head_arrays.at(candidate_rows_) + before;
  a.first = static_cast<int32_t>(block.first);
  a.rows = static_cast<int32_t>(block.rows);
  a.k = k;
  a.keys = reinterpret_cast<uint64_t*>(context_.logit_parts.reserve(keys * sizeof(uint64_t)));
  a.out = out + before * k;
  launch(*context_.runtime, Kernel::kTopCandidatesParts, listed, parts, a, kTopPartsSharedBytes);
  launch(*context_.runtime, Kernel::kTopCandidatesMerge, listed, 1, a,
         top_merge_shared_bytes(parts, k));
}

}  // namespace prefix::ops::gpu
