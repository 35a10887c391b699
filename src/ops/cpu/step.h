// A step of the CPU device. Its operations are in rows.cc, qkv.cc, pages.cc, attention.cc, conv.cc,
// scan.cc and heads.cc.
#pragma once

#include <iterator>
#include <span>
#include <vector>

#include "ops/cpu/context.h"
#include "ops/cpu/scan_walk.h"
#include "ops/step.h"

namespace prefix::ops {

class CpuStep final : public Step {
 public:
  // `not_finite`: memory for what not_finite() returns.
  CpuStep(const CpuContext& context, const StepArrays& arrays, std::vector<int32_t>& not_finite)
      : turn_(*context.threads),
        context_(context),
        arrays_(arrays),
        rows_(std::ssize(arrays.tokens)),
        not_finite_(not_finite) {
    not_finite_.assign(arrays.slots.size(), 0);
    if (arrays.scan != nullptr) walk_ = make_scan_walk(*arrays.scan, arrays.state.conv_width);
  }

  int64_t rows() const override { return rows_; }
  void clear_pages() override;
  void embed(const PackedWeights& w, float scale, float* out, int64_t ld) override;
  void qkv(const QkvArgs& args) override;
  void qkv_rows(const QkvArgs& args, int64_t first, int64_t rows) override;
  void copy_pages(int32_t layer) override;
  void attention(const AttentionArgs& args) override;
  void keep_rows(const KeptRows& kept, std::span<const RowBuffer> buffers) override;
  void conv(const ConvArgs& args) override;
  void scan(const Mamba2Args& args) override;
  void scan(const GatedDeltaArgs& args) override;
  int64_t scan_bytes() const override { return scan_bytes_; }
  std::span<const int32_t> not_finite() override { return not_finite_; }

  void begin_heads(const HeadArrays& arrays) override { heads_ = arrays; }
  void gather_rows(const float* x, int64_t ld, int64_t n, float* out, int64_t ld_out) override;
  void row_stats(const LogitBlock& block, RowStats* out) override;
  void gather_logits(const LogitBlock& block, float* out) override;
  void top_candidates(const LogitBlock& block, Candidate* out) override;

 private:
  void split_rows(const QkvArgs& args, int64_t offset, int64_t begin, int64_t end);

  const Threads::Turn turn_;  // a step does not share the workers with that of another engine
  const CpuContext& context_;
  StepArrays arrays_;
  int64_t rows_;
  std::span<const int32_t> kept_;  // KeptRows::rows; empty: all
  ScanWalk walk_;
  int64_t scan_bytes_ = 0;
  HeadArrays heads_;
  std::vector<int32_t>& not_finite_;
};

}  // namespace prefix::ops
