// Random operations on the simulator in compat mode and on the model of SGLang's tree, compared
// after every one. A difference is reported with the shortest list of operations that still shows
// it, in the format of `prefix cache-sim --ops`.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/status.h"
#include "support/cases.h"
#include "tree/sglang_model.h"
#include "tree/simulator.h"

namespace prefix {
namespace {

using testing_support::cases;
using testing_support::SglangModel;

enum class Kind { kMatch, kInsert, kLock, kUnlock, kEvict, kReset };
constexpr const char* kKindNames[] = {"match", "insert", "lock", "unlock", "evict", "reset"};

struct Operation {
  Kind kind = Kind::kMatch;
  std::string name_space;
  std::vector<int32_t> tokens;
  int32_t priority = 0;
  std::vector<int64_t> slots;
  int64_t n = 0;  // to evict

  std::string json() const {
    nlohmann::ordered_json line = {{"op", kKindNames[static_cast<int>(kind)]}};
    if (kind == Kind::kEvict) line["n"] = n;
    if (kind < Kind::kEvict) {
      line["tokens"] = tokens;
      line["ns"] = name_space;
    }
    if (priority != 0) line["priority"] = priority;
    if (!slots.empty()) line["slots"] = slots;
    return line.dump();
  }
};

// What an operation returned; a refused one only says so.
struct Outcome {
  SimulatorResult result;
  bool refused = false;
};

template <typename Cache>
Outcome apply(Cache& cache, const Operation& op) {
  try {
    switch (op.kind) {
      case Kind::kMatch:
        return {cache.match(op.name_space, op.tokens)};
      case Kind::kInsert:
        return {cache.insert(op.name_space, op.tokens, op.priority, op.slots)};
      case Kind::kLock:
        return {cache.lock(op.name_space, op.tokens)};
      case Kind::kUnlock:
        return {cache.unlock(op.name_space, op.tokens)};
      case Kind::kEvict:
        return {cache.evict(op.n)};
      case Kind::kReset:
        cache.reset();
    }
  } catch (const Error& e) {
    if (e.code() != Code::kMisuse) throw;
    return {.refused = true};
  }
  return {};
}

std::string text(int64_t value) { return std::to_string(value); }
std::string text(const std::string& value) { return value; }
template <typename T>
std::string text(const std::vector<T>& values) {
  return nlohmann::json(values).dump();
}

// Collects in words what differs.
class Difference {
 public:
  template <typename T>
  void compare(const char* name, const T& simulator, const T& model) {
    if (simulator == model) return;
    words_ += cat(name, ": simulator ", text(simulator), ", model ", text(model), "\n");
  }
  void add(const std::string& words) { words_ += words + "\n"; }
  const std::string& words() const { return words_; }

 private:
  std::string words_;
};

void compare(const std::vector<SimulatorNode>& simulator, const std::vector<SimulatorNode>& model,
             Difference& difference) {
  difference.compare<int64_t>("nodes of the dump", static_cast<int64_t>(simulator.size()),
                              static_cast<int64_t>(model.size()));
  for (size_t i = 0; i < std::min(simulator.size(), model.size()); ++i) {
    const SimulatorNode& a = simulator[i];
    const SimulatorNode& b = model[i];
    difference.compare("path", a.path, b.path);
    difference.compare("namespace", a.name_space, b.name_space);
    difference.compare("slots", a.slots, b.slots);
    difference.compare("length", a.length, b.length);
    difference.compare("locks", a.locks, b.locks);
    difference.compare("hits", a.hits, b.hits);
    difference.compare("priority", a.priority, b.priority);
    difference.compare("last use", a.last_use, b.last_use);
    difference.compare("creation", a.created, b.created);
    if (difference.words().empty()) continue;
    difference.add(cat("at node ", i, " of the dump, ", text(b.path)));
    return;
  }
}

// The two side by side.
class Pair {
 public:
  explicit Pair(const SimulatorOptions& options) : simulator_(options), model_(options) {}

  // Returns in words what differs after the operation; empty = nothing.
  std::string step(const Operation& op, bool with_dump, bool with_check) {
    Difference difference;
    try {
      const Outcome a = apply(simulator_, op);
      const Outcome b = apply(model_, op);
      last_ = b.result;
      difference.compare<int64_t>("refused", a.refused, b.refused);
      difference.compare("matched", a.result.matched, b.result.matched);
      difference.compare("slots", a.result.slots, b.result.slots);
      difference.compare("freed", a.result.freed, b.result.freed);
      difference.compare("evictable", simulator_.evictable(), model_.evictable());
      difference.compare("protected", simulator_.protected_(), model_.protected_());
      difference.compare("total", simulator_.total(), model_.total());
      difference.compare("tick", simulator_.tick(), model_.tick());
      if (with_dump) compare(simulator_.dump(), model_.dump(), difference);
      if (with_check) check(difference);
    } catch (const Error& e) {
      difference.add("failed: " + e.message());
    }
    return difference.words();
  }

  const SglangModel& model() const { return model_; }
  int64_t last_matched() const { return last_.matched; }

 private:
  void check(Difference& difference) {
    simulator_.check();
    model_.check();
    difference.compare("nodes", static_cast<int64_t>(simulator_.nodes()),
                       static_cast<int64_t>(model_.nodes()));
  }

  Simulator simulator_;
  SglangModel model_;
  SimulatorResult last_;
};

// Draws operations that meet each other: most sequences grow out of earlier ones, most unlocks let
// go of what a lock holds, and evictions keep the tree small.
class Generator {
 public:
  Generator(const SimulatorOptions& options, uint32_t seed)
      : options_(options), random_(seed), alphabet_(2 + below(3)), stray_unlocks_(below(2) == 0) {}

  Operation next(int64_t total) {
    const int32_t draw = below(1000);
    if (draw < 1) return reset();
    if (draw < (total > kLargeTotal ? 250 : 80)) return eviction(total);
    if (draw < 420) return sequence(Kind::kMatch);
    if (draw < 760) return insertion();
    if (draw < 880 && held_.size() < kMaxHeld) return sequence(Kind::kLock);
    return unlock();
  }

  // A lock is let go of by the tokens that it matched: what is inserted later cannot move them.
  void locked(const Operation& op, int64_t matched) {
    if (matched == 0) return;
    held_.push_back({.kind = Kind::kUnlock, .name_space = op.name_space});
    const auto end = op.tokens.begin() + matched + (options_.bigram ? 1 : 0);
    held_.back().tokens.assign(op.tokens.begin(), end);
  }

 private:
  static constexpr int64_t kLargeTotal = 900;
  static constexpr size_t kMaxHeld = 12;
  static constexpr size_t kMaxRecent = 24;
  static constexpr int32_t kLongest = 40;

  Operation& any(std::vector<Operation>& from) {
    return from[static_cast<size_t>(below(static_cast<int32_t>(from.size())))];
  }
  int32_t below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(n)); }

  Operation reset() {
    held_.clear();
    return {.kind = Kind::kReset};
  }

  Operation eviction(int64_t total) {
    const int64_t most = below(20) == 0 ? 1000 : 1 + total / 6;
    return {.kind = Kind::kEvict, .n = below(static_cast<int32_t>(most))};
  }

  Operation sequence(Kind kind) {
    Operation op{.kind = kind, .name_space = std::string(kNames[below(3)])};
    if (!recent_.empty() && below(10) < 8) grow(op);
    if (!op.tokens.empty() && below(3) == 0) return op;
    const int32_t room = kLongest - static_cast<int32_t>(op.tokens.size());
    for (int32_t more = below(room + 1); more > 0; --more) op.tokens.push_back(below(alphabet_));
    return op;
  }

  // Takes the beginning of an earlier insertion, mostly in its own namespace.
  void grow(Operation& op) {
    const Operation& old = any(recent_);
    if (below(6) > 0) op.name_space = old.name_space;
    op.tokens = old.tokens;
    if (below(2) == 0)
      op.tokens.resize(static_cast<size_t>(below(static_cast<int32_t>(op.tokens.size()) + 1)));
  }

  Operation insertion() {
    Operation op = sequence(Kind::kInsert);
    if (below(2) == 0) op.priority = below(7) - 3;
    size_t atoms = op.tokens.size();
    if (options_.bigram && atoms > 0) --atoms;
    atoms -= atoms % static_cast<size_t>(options_.page);
    if (below(20) == 0)
      for (size_t i = 0; i < atoms; ++i) op.slots.push_back(1000000 + below(1000000));
    if (recent_.size() < kMaxRecent) recent_.emplace_back();
    any(recent_) = op;
    return op;
  }

  Operation unlock() {
    if (stray_unlocks_ && below(15) == 0) return sequence(Kind::kUnlock);
    if (held_.empty()) return sequence(Kind::kMatch);
    std::swap(any(held_), held_.back());
    Operation op = held_.back();
    held_.pop_back();
    return op;
  }

  static constexpr std::string_view kNames[] = {"", "a", "tenant b"};
  SimulatorOptions options_;
  std::mt19937 random_;
  int32_t alphabet_;
  // Of anything: many are refused, others free what a lock counts, which then cannot be let go of.
  bool stray_unlocks_;
  std::vector<Operation> recent_;  // insertions
  std::vector<Operation> held_;    // unlocks to come
};

std::string replay(const SimulatorOptions& options, const std::vector<Operation>& operations) {
  Pair pair(options);
  for (const Operation& op : operations)
    if (std::string words = pair.step(op, true, true); !words.empty()) return words;
  return {};
}

// Leaves out runs of operations, long ones first, as long as some difference remains.
std::vector<Operation> shortest(const SimulatorOptions& options, std::vector<Operation> all) {
  for (size_t run = all.size() / 2; run > 0; run /= 2) {
    for (size_t i = 0; i + run <= all.size();) {
      std::vector<Operation> fewer = all;
      fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i),
                  fewer.begin() + static_cast<ptrdiff_t>(i + run));
      if (replay(options, fewer).empty())
        i += run;
      else
        all = std::move(fewer);
    }
  }
  return all;
}

std::string report(const SimulatorOptions& options, uint32_t seed, const std::string& words,
                   const std::vector<Operation>& operations) {
  const std::vector<Operation> few = shortest(options, operations);
  std::ostringstream out;
  out << "seed " << seed << ", after " << operations.size() << " operations:\n" << words;
  out << "the same or another difference after " << few.size() << " operations:\n"
      << replay(options, few);
  out << "prefix cache-sim --compat sglang --policy " << policy_name(options.policy) << " --page "
      << options.page << (options.bigram ? " --bigram" : "") << " --ops FILE, with\n";
  for (const Operation& op : few) out << op.json() << "\n";
  return out.str();
}

// Returns the number of operations that agreed, or reports a difference.
int64_t run(const SimulatorOptions& options, uint32_t seed, int32_t count) {
  Pair pair(options);
  Generator generator(options, seed);
  std::vector<Operation> operations;
  for (int32_t i = 0; i < count; ++i) {
    operations.push_back(generator.next(pair.model().total()));
    const Operation& op = operations.back();
    const bool last = i + 1 == count;
    const std::string words = pair.step(op, i % 31 == 0 || last, i % 61 == 0 || last);
    if (!words.empty()) {
      ADD_FAILURE() << report(options, seed, words, operations);
      return i;
    }
    if (op.kind == Kind::kLock) generator.locked(op, pair.last_matched());
  }
  return count;
}

class SimulatorFuzz : public testing::TestWithParam<Policy> {};

TEST_P(SimulatorFuzz, AgreesWithTheModelAfterEveryOperation) {
  const int32_t seeds = 6, operations = cases(3100);
  int64_t agreed = 0;
  for (const int32_t page : {1, 2, 4, 16}) {
    for (const bool bigram : {false, true}) {
      const SimulatorOptions options{
          .policy = GetParam(), .page = page, .bigram = bigram, .compat = true};
      for (int32_t seed = 0; seed < seeds && !HasFailure(); ++seed)
        agreed += run(options, static_cast<uint32_t>(1 + seed + 100 * page + bigram), operations);
    }
  }
  RecordProperty("operations", text(agreed));
}

INSTANTIATE_TEST_SUITE_P(Policies, SimulatorFuzz,
                         testing::Values(Policy::kLru, Policy::kLfu, Policy::kFifo, Policy::kMru,
                                         Policy::kFilo, Policy::kSlru, Policy::kPriority),
                         [](const auto& each) { return std::string(policy_name(each.param)); });

// The oracle itself, so that a wrong oracle is not mistaken for a wrong simulator.
TEST(SglangModel, KeepsTheInvariantsAfterEveryOperation) {
  for (uint32_t seed = 1; seed <= 56; ++seed) {
    const SimulatorOptions options{.policy = static_cast<Policy>(seed % 7),
                                   .page = 1 << (seed / 7 % 4),
                                   .bigram = seed > 28,
                                   .compat = true};
    SglangModel model(options);
    Generator generator(options, seed);
    for (int32_t i = 0; i < cases(500); ++i) {
      const Operation op = generator.next(model.total());
      const Outcome outcome = apply(model, op);
      ASSERT_NO_THROW(model.check()) << "seed " << seed << ", operation " << i << " " << op.json();
      if (op.kind == Kind::kLock) generator.locked(op, outcome.result.matched);
    }
  }
}

}  // namespace
}  // namespace prefix
