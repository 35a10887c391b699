// What heads read of logits.
#include "ops/cpu/step.h"
#include "ops/host_logits.h"

namespace prefix::ops {

void CpuStep::row_stats(const LogitBlock& block, RowStats* out) {
  context_.threads->run(block.rows, [&](int64_t i, int) {
    const int64_t row = block.first + i;
    const uint8_t want = heads_.wants[static_cast<size_t>(row)];
    out[row] = ops::row_stats({block.row(row), static_cast<size_t>(block.n)},
                              (want & kWantFirst) != 0, (want & kWantSum) != 0);
  });
}

void CpuStep::gather_logits(const LogitBlock& block, float* out) {
  for (size_t i = 0; i < heads_.targets.size(); ++i) {
    const LogitAt target = heads_.targets[i];
    if (block.has(target.row)) out[i] = block.row(target.row)[target.id];
  }
}

void CpuStep::top_candidates(const LogitBlock& block, Candidate* out) {
  const auto k = static_cast<size_t>(heads_.candidates);
  context_.threads->run(static_cast<int64_t>(heads_.candidate_rows.size()), [&](int64_t i, int) {
    const int32_t row = heads_.candidate_rows[static_cast<size_t>(i)];
    if (!block.has(row)) return;
    ops::top_candidates({block.row(row), static_cast<size_t>(block.n)},
                        {out + static_cast<size_t>(i) * k, k});
  });
}

}  // namespace prefix::ops
