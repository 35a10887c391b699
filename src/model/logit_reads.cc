#include "model/logit_reads.h"

#include <algorithm>

#include "base/status.h"

namespace prefix {

void LogitReads::begin(ops::Step& step, size_t rows) {
  step_ = &step;
  wants_.assign(rows, 0);
  targets_.clear();
  candidate_rows_.clear();
  max_candidates_ = 0;
  stats_ = nullptr;
}

void LogitReads::want_stats(int32_t row, uint8_t what) { wants_[static_cast<size_t>(row)] |= what; }

size_t LogitReads::want_logit(int32_t row, int32_t id) {
  targets_.push_back({row, id});
  return targets_.size() - 1;
}

size_t LogitReads::want_candidates(int32_t row, int32_t k) {
  PREFIX_CHECK(candidate_rows_.empty() || candidate_rows_.back() <= row);
  max_candidates_ = std::max(max_candidates_, k);
  if (candidate_rows_.empty() || candidate_rows_.back() != row) candidate_rows_.push_back(row);
  return candidate_rows_.size() - 1;
}

ops::HeadArrays LogitReads::arrays(std::span<const int32_t> rows) const {
  return {rows, wants_, targets_, candidate_rows_, max_candidates_};
}

size_t LogitReads::bytes() const {
  return wants_.size() * sizeof(ops::RowStats) +
         candidate_rows_.size() * static_cast<size_t>(max_candidates_) * sizeof(ops::Candidate) +
         targets_.size() * sizeof(float);
}

void LogitReads::place(std::byte* base) {
  stats_ = reinterpret_cast<ops::RowStats*>(base);
  candidates_ = reinterpret_cast<ops::Candidate*>(stats_ + wants_.size());
  logits_ = reinterpret_cast<float*>(candidates_ +
                                     candidate_rows_.size() * static_cast<size_t>(max_candidates_));
}

void LogitReads::read(const ops::LogitBlock& block) {
  if (!stats_) {
    answers_ = model_.answer_memory(bytes());
    place(answers_);
  }
  const auto begin = wants_.begin() + block.first;
  if (std::any_of(begin, begin + block.rows, [](uint8_t w) { return w != 0; }))
    step_->row_stats(block, stats_);
  if (!targets_.empty()) step_->gather_logits(block, logits_);
  if (!candidate_rows_.empty()) step_->top_candidates(block, candidates_);
}

void LogitReads::fetch() {
  if (device_.host_memory()) return;
  std::byte* const here = fetched_.reserve(bytes());
  device_.download(here, answers_, bytes());
  place(here);
}

}  // namespace prefix
