// What the heads of a step read of rows of logits instead of the rows: first all wants are noted,
// then the logits pass by in blocks, then one download brings all answers.
//
//   want..() ─> wants of rows, targets, rows of candidates ── arrays() ──> Model::select
//   block ─ read() ─┐
//   block ─ read() ─┴─> device: [ stats of rows | candidates | logits ] ── fetch() ──> host
//
// Where the device's memory is the host's, nothing is copied. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"
#include "ops/buffers.h"

namespace prefix {

class LogitReads {
 public:
  explicit LogitReads(Model& model)
      : model_(model), device_(model.device()), fetched_(model.device()) {}

  // Forgets everything; there are `rows` selected rows.
  void begin(ops::Step& step, size_t rows);
  // `what`: ops::kWantFirst, kWantSum.
  void want_stats(int32_t row, uint8_t what);
  // Returns where logit() has it.
  size_t want_logit(int32_t row, int32_t id);
  // Returns where candidates() has them: the k most likely or more. Rows must come in order.
  size_t want_candidates(int32_t row, int32_t k);

  // What the step will read, for Model::select().
  ops::HeadArrays arrays(std::span<const int32_t> rows) const;
  void read(const ops::LogitBlock& block);
  void fetch();

  const ops::RowStats& stats(int32_t row) const { return stats_[row]; }
  float logit(size_t index) const { return logits_[index]; }
  std::span<const float> logits(size_t index, size_t count) const {
    return {logits_ + index, count};
  }
  std::span<const ops::Candidate> candidates(size_t index) const {
    const auto k = static_cast<size_t>(max_candidates_);
    return {candidates_ + index * k, k};
  }

 private:
  size_t bytes() const;
  void place(std::byte* base);

  Model& model_;
  ops::Device& device_;
  ops::Step* step_ = nullptr;
  std::vector<uint8_t> wants_;  // of rows
  std::vector<ops::LogitAt> targets_;
  std::vector<int32_t> candidate_rows_;
  int32_t max_candidates_ = 0;  // candidates of each of these rows

  std::byte* answers_ = nullptr;  // on the device
  ops::HostBuffer fetched_;
  // In answers_, after fetch() where the host can read them.
  ops::RowStats* stats_ = nullptr;
  ops::Candidate* candidates_ = nullptr;
  float* logits_ = nullptr;
};

}  // namespace prefix
