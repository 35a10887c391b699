// The mask of a constraint (engine/constraint.h), with its state of one generation.
//
// Its calls are made when a token is about to be chosen, where no lock of the engine is held: the
// state begins with the first token, and hears of each token before the next one is chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/constraint.h"
#include "engine/sampling/logits_processor.h"

namespace prefix {

class ConstraintMask final : public LogitsProcessor {
 public:
  ConstraintMask(std::shared_ptr<const Constraint> constraint, int32_t vocab);
  ~ConstraintMask() override;
  ConstraintMask(const ConstraintMask&) = delete;
  ConstraintMask& operator=(const ConstraintMask&) = delete;

  std::optional<std::span<const int32_t>> tokens() const override { return std::nullopt; }
  // Throws kInvalidArgument when a call fails.
  void process(const Logits& logits) override;
  void accept(int32_t token) override { untold_ = token; }

 private:
  void check(int32_t answer, const char* call) const;

  std::shared_ptr<const Constraint> constraint_;
  std::vector<uint32_t> mask_;
  bool began_ = false;
  void* state_ = nullptr;
  int64_t told_ = 0;  // tokens
  std::optional<int32_t> untold_;
};

}  // namespace prefix
