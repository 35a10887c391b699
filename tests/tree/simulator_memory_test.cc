// The simulator when memory ends: every operation is tried with the first allocation failing, then
// with the second, and so on until it succeeds. Until then nothing may have changed, and afterwards
// everything must be as in a simulator that never lacked any.
#include <gtest/gtest.h>

#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "support/cases.h"
#include "support/failing_new.h"
#include "tree/simulator.h"

namespace prefix {
namespace {

using testing_support::allocations_left;
using testing_support::cases;
using testing_support::live_bytes;
using Tokens = std::vector<int32_t>;

// All that can be seen of a simulator.
std::string text_of(const Simulator& s) {
  std::string text =
      cat(s.evictable(), ' ', s.protected_(), ' ', s.tick(), ' ', s.evictions(), ' ', s.nodes());
  for (const SimulatorNode& n : s.dump()) {
    text += cat('\n', n.name_space, ' ', n.length, ' ', n.locks, ' ', n.hits, ' ', n.priority, ' ',
                n.last_use, ' ', n.created, ':');
    for (const int32_t token : n.path) text += cat(' ', token);
    text += " /";
    for (const int64_t slot : n.slots) text += cat(' ', slot);
  }
  return text;
}

std::string text_of(const SimulatorResult& r) {
  std::string text = cat(r.matched);
  for (const int64_t slot : r.slots) text += cat(' ', slot);
  text += " freed";
  for (const int64_t slot : r.freed) text += cat(' ', slot);
  return text;
}

struct Operation {
  int kind = 0;
  std::string name;
  Tokens tokens;
  std::vector<int64_t> slots;
  int64_t n = 0;
};

std::string apply(Simulator& s, const Operation& op) {
  SimulatorResult result;
  try {
    if (op.kind == 0) result = s.insert(op.name, op.tokens, 1, op.slots);
    if (op.kind == 1) result = s.match(op.name, op.tokens);
    if (op.kind == 2) result = s.lock(op.name, op.tokens);
    if (op.kind == 3) result = s.unlock(op.name, op.tokens);
    if (op.kind == 4) result = s.evict(op.n);
    if (op.kind == 5)
      result.matched = s.request(op.name, op.tokens, static_cast<int64_t>(op.tokens.size()));
    if (op.kind == 6) s.reset();
  } catch (const Error& e) {
    allocations_left = -1;
    return cat(static_cast<int32_t>(e.code()));
  }
  allocations_left = -1;
  return text_of(result);
}

class SimulatorMemory : public testing::TestWithParam<bool> {};

TEST_P(SimulatorMemory, WhatFailsLeavesNoTrace) {
  int64_t failed = 0;
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(cases(60)); ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) {
      return static_cast<int32_t>(random() % static_cast<uint64_t>(n));
    };
    const SimulatorOptions options{.policy = static_cast<Policy>(below(GetParam() ? 7 : 8)),
                                   .page = 1 + below(4),
                                   .capacity = below(4) == 0 ? 0 : 60 + below(200),
                                   .bigram = below(4) == 0,
                                   .compat = GetParam()};
    Simulator poor(options), rich(options);
    Tokens last;
    for (int i = 0; i < 60; ++i) {
      Operation op;
      const int draw = below(100);
      op.kind = draw < 50 ? 0 : draw < 65 ? 1 : draw < 78 ? 2 : draw < 88 ? 3 : draw < 94 ? 4 : 5;
      if (op.kind == 5 && GetParam()) op.kind = 0;  // there its lookup has changed the tree
      if (below(200) == 0) op.kind = 6;
      op.name = below(6) == 0 ? "another namespace with a long name" : "";
      if (below(2) == 0) op.tokens = last;
      op.tokens.resize(static_cast<size_t>(below(static_cast<int64_t>(op.tokens.size()) + 1)));
      for (int more = below(50); more > 0; --more) op.tokens.push_back(below(3));
      last = op.tokens;
      op.n = below(80);

      const std::string before = text_of(poor);
      const std::string wanted = apply(rich, op);
      // There a refused unlock has looked up too.
      const bool changes =
          GetParam() && op.kind == 3 && wanted == cat(static_cast<int32_t>(Code::kMisuse));
      for (int64_t allowed = changes ? 1000 : 0;; ++allowed) {
        ASSERT_LT(allowed, 10000);
        std::string got;
        bool out_of_memory = false;
        allocations_left = allowed;
        try {
          got = apply(poor, op);
        } catch (const std::bad_alloc&) {
          out_of_memory = true;
        }
        allocations_left = -1;
        if (!out_of_memory) {
          ASSERT_EQ(got, wanted) << "seed " << seed << ", operation " << i << ", kind " << op.kind;
          break;
        }
        ++failed;
        ASSERT_EQ(text_of(poor), before) << "seed " << seed << ", operation " << i << ", kind "
                                         << op.kind << ", after " << allowed << " allocations";
      }
      ASSERT_EQ(text_of(poor), text_of(rich)) << "seed " << seed << ", operation " << i;
      poor.check();
    }
  }
  EXPECT_GT(failed, cases(1000));
}

INSTANTIATE_TEST_SUITE_P(Modes, SimulatorMemory, testing::Bool(),
                         [](const auto& each) { return each.param ? "Compat" : "Default"; });

// Slots and names of pages take room for what is there, not for what a page of the pool could hold.
TEST(SimulatorMemory, LargePagesTakeWhatTheirTokensTake) {
  const int64_t before = live_bytes;
  Simulator cache({.page = 65536});
  Tokens tokens(65536);
  for (int32_t i = 0; i < 40; ++i) {
    tokens[0] = i;
    cache.insert("", tokens);
  }
  EXPECT_EQ(cache.total(), 40 * 65536);
  EXPECT_LT(live_bytes - before, 40 * 65536 * 13) << "8 for a slot, 4 for a token, and a little";
}

// Names of pages go with the pages.
TEST(SimulatorMemory, ALongTraceTakesNoMoreThanItsCapacity) {
  const int64_t before = live_bytes;
  Simulator cache({.page = 16, .capacity = 4096});
  Tokens tokens(1024);
  int64_t early = 0;
  for (int32_t i = 0; i < 400; ++i) {
    for (size_t at = 0; at < tokens.size(); ++at) tokens[at] = static_cast<int32_t>(at);
    tokens[0] = i;
    for (size_t at = 16; at < tokens.size(); at += 16) tokens[at] = i;
    cache.insert("", tokens);
    if (i == 40) early = live_bytes - before;
  }
  EXPECT_LE(live_bytes - before, early + early / 10);
}

}  // namespace
}  // namespace prefix
