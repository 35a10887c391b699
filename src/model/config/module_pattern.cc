#include "model/config/module_pattern.h"

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

using State = ModulePattern::State;
using Kind = State::Kind;
using Set = std::bitset<128>;
using States = std::vector<State>;

constexpr int kMaxGroups = 32;     // one in the other
constexpr int kMaxRepeats = 1000;  // of what stands before a number in braces

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_digit(c) || is_letter(c) || c == '_'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

template <typename Is>
Set all(const Is& is) {
  Set set;
  for (size_t c = 0; c < set.size(); ++c) set[c] = is(static_cast<char>(c));
  return set;
}
Set one(char c) {
  return all([c](char other) { return other == c; });
}
Set any() { return ~one('\n'); }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  // (.*\.)?(text)
  States whole() {
    States before = repeated({take(any())}, 0, kEver);
    append(before, {take(one('.'))});
    States states = repeated(before, 0, 1);
    append(states, either());
    if (at_ < text_.size()) wrong("a \")\" that closes nothing");
    return states;
  }

 private:
  static constexpr int kEver = -1;

  [[noreturn]] void wrong(std::string_view what) const {
    fail(Code::kFormat, quote(text_), ", which has ", what, " at character ", at_);
  }
  [[noreturn]] void unsupported(std::string_view what) const {
    fail(Code::kUnsupportedModel, quote(text_), ", a regular expression with ", what,
         " at character ", at_, ", which is not run");
  }

  bool has(std::string_view next) const { return text_.substr(at_).starts_with(next); }
  bool skip(std::string_view next) {
    if (!has(next)) return false;
    at_ += next.size();
    return true;
  }
  char next() {
    if (at_ == text_.size()) wrong("an end too early");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) >= 128) unsupported("a character beyond ASCII");
    ++at_;
    return c;
  }

  static State take(Set set) { return {.kind = Kind::kTake, .takes = set}; }
  void append(States& states, const States& more) const {
    if (states.size() + more.size() > ModulePattern::kMaxStates)
      fail(Code::kUnsupportedModel, quote(text_), ", a regular expression of more than ",
           ModulePattern::kMaxStates, " states");
    states.insert(states.end(), more.begin(), more.end());
  }
  static State go(Kind kind, size_t to) { return {.kind = kind, .to = static_cast<int32_t>(to)}; }

  // From `least` to `most` times.
  States repeated(const States& body, int least, int most) const {
    States states;
    for (int i = 0; i < least; ++i) append(states, body);
    for (int i = least; i < most; ++i) {
      append(states, {go(Kind::kFork, body.size() + 1)});
      append(states, body);
    }
    if (most != kEver) return states;
    append(states, {go(Kind::kFork, body.size() + 2)});
    append(states, body);
    append(states, {{.kind = Kind::kJump, .to = -static_cast<int32_t>(body.size() + 1)}});
    return states;
  }

  // a|b|c
  States either() {
    States states = sequence();
    while (skip("|")) {
      const States other = sequence();
      States both;
      append(both, {go(Kind::kFork, states.size() + 2)});
      append(both, states);
      append(both, {go(Kind::kJump, other.size() + 1)});
      append(both, other);
      states = std::move(both);
    }
    return states;
  }

  States sequence() {
    States states;
    while (at_ < text_.size() && !has("|") && !has(")")) {
      const bool is_place = has("^") || has("$") || has("\\A") || has("\\Z");
      const States body = atom();
      append(states, counted(body, is_place));
    }
    return states;
  }

  // An atom with what says how often it comes.
  States counted(const States& body, bool is_place) {
    int least = 1, most = 1;
    if (!count(least, most)) return body;
    if (is_place) wrong("nothing to repeat");
    skip("?");  // as few as will do: the same names fit
    if (has("+")) unsupported("a repetition that gives nothing back");
    if (has("*") || has("?")) wrong("a repetition of a repetition");
    return repeated(body, least, most);
  }
  bool count(int& least, int& most) {
    if (skip("*")) return least = 0, most = kEver, true;
    if (skip("+")) return most = kEver, true;
    if (skip("?")) return least = 0, true;
    if (!skip("{")) return false;
    if (has("}")) unsupported("a \"{\" that begins no count");
    least = number(0);
    most = skip(",") ? number(kEver) : least;
    if (!skip("}")) unsupported("a \"{\" that begins no count");
    if (most != kEver && most < least) wrong("a count that falls");
    return true;
  }
  int number(int absent) {
    const size_t begin = at_;
    int value = 0;
    while (at_ < text_.size() && is_digit(text_[at_])) {
      value = value * 10 + (text_[at_++] - '0');
      if (value > kMaxRepeats) unsupported("a count above 1000");
    }
    return at_ == begin ? absent : value;
  }

  States atom() {
    if (has("(")) return group();
    if (has("*") || has("+") || has("?")) wrong("nothing to repeat");
    if (has("{")) unsupported("a \"{\" that begins no count");
    if (skip("[")) return {take(set())};
    if (skip(".")) return {take(any())};
    if (skip("^") || skip("\\A")) return {{.kind = Kind::kAtBegin}};
    if (skip("$") || skip("\\Z")) return {{.kind = Kind::kAtEnd}};
    if (skip("\\")) return {take(escaped())};
    return {take(one(next()))};
  }

  States group() {
    if (++groups_ > kMaxGroups) unsupported("too many groups one in the other");
    skip("(");
    if (skip("?P<")) {
      while (!skip(">")) next();
    } else if (has("?") && !skip("?:")) {
      unsupported("\"(?\"");
    }
    States states = either();
    if (!skip(")")) wrong("an end inside a group");
    --groups_;
    return states;
  }

  // Behind a backslash.
  Set escaped() {
    const char c = next();
    switch (c) {
      case 'd':
        return all(is_digit);
      case 'D':
        return ~all(is_digit);
      case 'w':
        return all(is_word);
      case 'W':
        return ~all(is_word);
      case 's':
        return all(is_space);
      case 'S':
        return ~all(is_space);
      default:
        break;
    }
    if (is_digit(c) || is_letter(c)) {
      --at_;
      unsupported(std::string("\"\\") + c + "\"");
    }
    return one(c);
  }

  // Behind a "[".
  Set set() {
    const bool others = skip("^");
    Set set;
    for (bool first = true; first || !has("]"); first = false) {
      const Set low = member();
      if (!has("-") || text_.substr(at_).starts_with("-]")) {
        set |= low;
        continue;
      }
      skip("-");
      const Set high = member();
      if (low.count() != 1 || high.count() != 1) wrong("a range of more than characters");
      size_t c = 0;
      while (!low[c]) ++c;
      if ((high >> c).none()) wrong("a range that falls");
      for (bool inside = true; inside; ++c) {
        inside = !high[c];
        set[c] = true;
      }
    }
    skip("]");
    return others ? ~set : set;
  }
  Set member() { return skip("\\") ? escaped() : one(next()); }

  std::string_view text_;
  size_t at_ = 0;
  int groups_ = 0;
};

// The states that a name can be in.
class Run {
 public:
  Run(const States& states, size_t length) : states_(states), length_(length) {}

  void enter(size_t state, size_t at) {
    todo_.push_back(state);
    while (!todo_.empty()) {
      const size_t i = todo_.back();
      todo_.pop_back();
      if (i == states_.size()) {
        ended_ |= at == length_;
        continue;
      }
      if (seen_[i] == at + 1) continue;
      seen_[i] = at + 1;
      const State& s = states_[i];
      const size_t to = i + static_cast<size_t>(static_cast<ptrdiff_t>(s.to));
      switch (s.kind) {
        case Kind::kTake:
          now_.push_back(i);
          break;
        case Kind::kFork:
          todo_.push_back(i + 1);
          todo_.push_back(to);
          break;
        case Kind::kJump:
          todo_.push_back(to);
          break;
        case Kind::kAtBegin:
          if (at == 0) todo_.push_back(i + 1);
          break;
        case Kind::kAtEnd:
          if (at == length_) todo_.push_back(i + 1);
          break;
      }
    }
  }
  void step(unsigned char c, size_t at) {
    const std::vector<size_t> before = std::exchange(now_, {});
    for (const size_t i : before)
      if (c < 128 && states_[i].takes[c]) enter(i + 1, at + 1);
  }
  bool ended() const { return ended_; }

 private:
  const States& states_;
  size_t length_;
  std::vector<size_t> now_, todo_;
  std::vector<size_t> seen_ = std::vector<size_t>(states_.size());  // 1 + the place, 0: never
  bool ended_ = false;
};

}  // namespace

ModulePattern::ModulePattern(std::string_view text) : text_(text) {
  const bool is_name = !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_word(c) || c == '.' || c == '-';
  });
  if (!is_name) states_ = Parser(text).whole();
}

bool ModulePattern::fits(std::string_view module) const {
  if (states_.empty()) {
    if (module.size() < text_.size()) return false;
    const size_t before = module.size() - text_.size();
    if (before > 0 && module[before - 1] != '.') return false;
    return std::ranges::equal(text_, module.substr(before),
                              [](char p, char c) { return p == c || p == '.'; });
  }
  Run run(states_, module.size());
  run.enter(0, 0);
  for (size_t at = 0; at < module.size(); ++at)
    run.step(static_cast<unsigned char>(module[at]), at);
  return run.ended();
}

}  // namespace prefix
