// Generations with every option that changes what is drawn, and a constraint, for tests of the
// engine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>

#include "engine/constraint.h"
#include "engine/request.h"

namespace prefix::testing_support {

// Two tokens may follow one another where their sum is no multiple of three; begins as behind 0.
// Counts its states, and fails where it is told to.
class SumsConstraint {
 public:
  std::shared_ptr<const Constraint> constraint() {
    return std::make_shared<Constraint>(Constraint::Calls{begin, allow, accept, end}, this);
  }
  static bool allows(int32_t last, int32_t token) { return (last + token) % 3 != 0; }

  std::atomic<int> begun{0}, ended{0}, accepted{0};
  std::atomic<int> fail_begin{0};   // what begin answers
  std::atomic<int> fail_accept{0};  // what accept answers from the second token on
  std::atomic<int> fail_allow{0};   // what allow answers behind two tokens
  std::atomic<bool> none{false};    // no token is allowed behind two

 private:
  struct State {
    SumsConstraint* owner;
    int32_t last = 0;
    int count = 0;
  };

  static int32_t begin(void* user, void** state) {
    auto* const owner = static_cast<SumsConstraint*>(user);
    if (owner->fail_begin != 0) return owner->fail_begin;
    *state = new State{owner};
    ++owner->begun;
    return 0;
  }
  static int32_t allow(void* state, uint32_t* mask, size_t words) {
    const State& s = *static_cast<State*>(state);
    if (s.count == 2 && s.owner->fail_allow != 0) return s.owner->fail_allow;
    if (s.count == 2 && s.owner->none) return 0;
    for (size_t token = 0; token < words * 32; ++token)
      if (allows(s.last, static_cast<int32_t>(token)))
        mask[token / 32] |= uint32_t{1} << (token % 32);
    return 0;
  }
  static int32_t accept(void* state, int32_t token) {
    State& s = *static_cast<State*>(state);
    s.last = token;
    ++s.owner->accepted;
    return ++s.count == 2 ? s.owner->fail_accept.load() : 0;
  }
  static void end(void* state) {
    auto* const s = static_cast<State*>(state);
    ++s->owner->ended;
    delete s;
  }
};

// Some of the options, drawn by a generator of their own, so that what else is drawn stays the same.
inline void add_options(RequestSpec& spec, int32_t vocab,
                        const std::shared_ptr<const Constraint>& constraint) {
  std::mt19937 own(static_cast<unsigned>(spec.tokens.size() * 131) +
                   static_cast<unsigned>(spec.tokens[0]));
  const auto token = [&] { return static_cast<int32_t>(own() % static_cast<unsigned>(vocab)); };
  if (own() % 2) spec.top_logprobs = 1 + static_cast<int32_t>(own() % 9);
  if (spec.task != Task::kGenerate) return;
  Sampling& s = spec.sampling;
  if (own() % 3 == 0) s.repetition_penalty = 1.2f;
  if (own() % 3 == 0) s.presence_penalty = 1.5f;
  if (own() % 3 == 0) s.frequency_penalty = -1;
  if (own() % 3 == 0)
    for (int32_t id = token(); id < vocab; id += 1 + token()) s.logit_bias.push_back({id, 5});
  if (own() % 4 == 0) {
    for (int i = 0; i < 9; ++i) s.allowed_tokens.push_back(token());
    std::ranges::sort(s.allowed_tokens);
    const auto twice = std::ranges::unique(s.allowed_tokens);
    s.allowed_tokens.erase(twice.begin(), twice.end());
  } else if (own() % 3 == 0) {
    spec.constraint = constraint;
  }
  if (own() % 3 == 0) {
    s.stop_tokens = {token(), token()};
    s.min_tokens = std::min(2, s.max_tokens);
  }
}

}  // namespace prefix::testing_support
