#include "engine/sampling/constraint_mask.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace prefix {

ConstraintMask::ConstraintMask(std::shared_ptr<const Constraint> constraint, int32_t vocab)
    : constraint_(std::move(constraint)), mask_((static_cast<size_t>(vocab) + 31) / 32) {}

ConstraintMask::~ConstraintMask() {
  if (began_) constraint_->calls().end(state_);
}

void ConstraintMask::check(int32_t answer, const char* call) const {
  if (answer != 0)
    fail(Code::kInvalidArgument, "the constraint's ", call, " answered ", answer, " for token ",
         told_ + 1, " of the generation");
}

void ConstraintMask::process(const Logits& logits) {
  const Constraint::Calls& calls = constraint_->calls();
  if (!began_) {
    check(calls.begin(constraint_->user(), &state_), "begin");
    began_ = true;
  }
  if (untold_) {
    check(calls.accept(state_, *untold_), "accept");
    untold_.reset();
    ++told_;
  }
  std::ranges::fill(mask_, 0);
  check(calls.allow(state_, mask_.data(), mask_.size()), "allow");
  for (size_t word = 0; word < mask_.size(); ++word) {
    const uint32_t bits = mask_[word];
    if (bits == ~uint32_t{0}) continue;
    const size_t first = word * 32, end = std::min(first + 32, logits.values.size());
    for (size_t token = first; token < end; ++token)
      if ((bits >> (token - first) & 1) == 0) logits.values[token] = kForbidden;
  }
}

}  // namespace prefix
