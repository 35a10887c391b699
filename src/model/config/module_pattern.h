// A key of rank_pattern or alpha_pattern of PEFT: a regular expression of Python that the name of a
// module must end with, from its begin or behind a dot: (.*\.)?(key)$.
//
//   text ── parse ──> states: each takes a character, goes on at two places, or asks for an end
//   name ── all states at once, character by character ──> fits
//
// So an expression costs its states times the characters of a name, whatever it says. Those that
// are a name themselves, nearly all, need no states. What no set of states can say (what stands
// around a place, what a group took before) is refused.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace prefix {

class ModulePattern {
 public:
  static constexpr size_t kMaxStates = 1024;

  // Throws kUnsupportedModel naming what is not run, kFormat for what is no expression.
  explicit ModulePattern(std::string_view text);
  bool fits(std::string_view module) const;  // names are ASCII
  size_t states() const { return states_.size(); }

  struct State {
    enum class Kind : uint8_t { kTake, kFork, kJump, kAtBegin, kAtEnd };
    Kind kind;
    int32_t to = 0;               // kFork, kJump: from here; a fork goes on behind itself as well
    std::bitset<128> takes = {};  // kTake
  };

 private:
  std::string text_;
  std::vector<State> states_;  // empty: the text is a name, but for dots, which are any character
};

}  // namespace prefix
