// Cache events without a model: who only reads them knows exactly what the tree holds, after every
// operation, and is told in an order that makes sense.
#include "cache/cache_events.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "event_router.h"
#include "random_tree.h"

namespace prefix {
namespace {

using namespace testing_support;

// A small cache and its events.
struct Watched {
  Watched(size_t capacity, int32_t event_tokens)
      : block(event_tokens), events(cache.tree, cache.keys, cache.pool, capacity, event_tokens) {
    Tree::Observer observer;
    observer.evicting = [this](NodeId id, int32_t from, EvictReason) { events.evicting(id, from); };
    observer.computed = [this](NodeId id, int32_t from) { events.computed(id, from); };
    cache.tree.set_observer(std::move(observer));
  }
  // What the tree holds, found without keys that it knows or events.
  std::map<uint64_t, EventRouter::Block> blocks() const {
    std::map<uint64_t, EventRouter::Block> found;
    for (NodeId id = 0; id < cache.tree.node_limit(); ++id) {
      const Node& n = cache.tree.node(id);
      if (n.root < 0 || n.computed == 0) continue;
      const Tokens tokens = path_to(cache.tree, id);
      const std::vector<PageKey> keys = keys_of(cache.tree.root(n), tokens);
      const auto name = [&](int32_t end) {
        uint64_t value;
        std::memcpy(&value, keys[static_cast<size_t>(end / kPageTokens - 1)].bytes.data(), 8);
        return value & INT64_MAX;
      };
      for (int32_t end = n.start / block * block + block; end <= n.start + n.computed;
           end += block) {
        EventRouter::Block& b = found[name(end)];
        b.position = end - block;
        b.parent = b.position > 0 ? name(b.position) : 0;
        b.tokens.assign(tokens.begin() + b.position, tokens.begin() + end);
      }
    }
    return found;
  }
  // Brings a reader up to date; events[next] is what it reads next.
  void read(EventRouter& router, int64_t& next) const {
    for (const CacheEvent* e; (e = events.read(next)); next = e->sequence + 1) {
      ASSERT_EQ(e->sequence, next) << "a gap";
      const std::string wrong = router.apply(*e);
      ASSERT_EQ(wrong, "") << "event " << e->sequence << ", kind " << e->kind;
    }
  }
  void dump(EventRouter& router) {
    events.dump({cache.root, cache.other_root}, [&](const CacheEvent& e) {
      ASSERT_EQ(e.sequence, events.next_sequence());
      const std::string wrong = router.apply(e);
      ASSERT_EQ(wrong, "");
    });
  }

  int32_t block;
  SmallCache cache{40};
  CacheEvents events;
};

class EventsOfBlocks : public testing::TestWithParam<int32_t> {};

TEST_P(EventsOfBlocks, TellWhatTheTreeHolds) {
  const int32_t block = GetParam();
  Watched watched(1 << 20, block);
  RandomTree tree(watched.cache, 41);
  EventRouter router(block);
  int64_t next = 0, seen = 0;
  const int operations = cases(60000);
  for (int i = 0; i < operations; ++i) {
    tree.step();
    watched.read(router, next);
    const auto blocks = watched.blocks();
    ASSERT_EQ(router.blocks(), blocks) << "operation " << i;
    seen += static_cast<int64_t>(blocks.size());
    if (i % 10 == 0) {
      EventRouter fresh(block);
      watched.dump(fresh);
      ASSERT_EQ(fresh.blocks(), blocks) << "operation " << i;
    }
    if (HasFatalFailure()) FAIL() << "operation " << i;
  }
  EXPECT_GT(next, operations / block);
  EXPECT_GT(seen, operations / block);
}

// A reader that comes late and a ring that is short: it finds gaps, and is right after each dump.
TEST_P(EventsOfBlocks, ASlowReaderFindsGapsAndRecovers) {
  const int32_t block = GetParam();
  for (const size_t capacity : {1u, 2u, 7u, 64u}) {
    Watched watched(capacity, block);
    RandomTree tree(watched.cache, 43);
    EventRouter router(block);
    int64_t next = 0;
    int gaps = 0, whole = 0;
    for (int i = 0; i < cases(20000); ++i) {
      tree.step();
      if (tree.random()() % 4) continue;
      const CacheEvent* first = watched.events.read(next);
      if (first && first->sequence > next) {
        ++gaps;
        router = EventRouter(block);
        watched.dump(router);
        next = watched.events.next_sequence();
        ASSERT_EQ(watched.events.read(next), nullptr);
      } else {
        ++whole;
        watched.read(router, next);
      }
      ASSERT_EQ(router.blocks(), watched.blocks()) << "operation " << i;
      if (HasFatalFailure()) FAIL() << "operation " << i;
    }
    EXPECT_GT(whole, 0);
    EXPECT_TRUE(gaps > 0 || capacity > 2) << capacity;
    EXPECT_LE(watched.events.next_sequence() - watched.events.read(0)->sequence,
              static_cast<int64_t>(capacity));
  }
}

INSTANTIATE_TEST_SUITE_P(Tokens, EventsOfBlocks, testing::Values(32, 64, 128),
                         testing::PrintToStringParamName());

TEST(CacheEvents, ARingOfOneKeepsTheLast) {
  Watched watched(1, 32);
  EXPECT_EQ(watched.events.read(0), nullptr);
  EXPECT_EQ(watched.events.next_sequence(), 0);
  watched.cache.add(watched.cache.root, Tokens(100, 1));
  ASSERT_NE(watched.events.read(0), nullptr);
  for (const int64_t from : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2}}) {
    EXPECT_EQ(watched.events.read(from)->sequence, 2) << from;
    EXPECT_EQ(watched.events.read(from)->position, 64);
  }
  for (const int64_t from : {int64_t{3}, INT64_MAX})
    EXPECT_EQ(watched.events.read(from), nullptr) << from;
}

TEST(CacheEvents, ClearedComesWhenNothingIsLeftAndOnce) {
  Watched watched(100, 32);
  const auto last = [&] { return *watched.events.read(watched.events.next_sequence() - 1); };
  watched.events.check_cleared();
  EXPECT_EQ(watched.events.next_sequence(), 0) << "there never was anything";
  watched.cache.add(watched.cache.root, Tokens(64, 1));
  watched.cache.add(watched.cache.other_root, Tokens(20, 1));
  watched.cache.tree.drop(watched.cache.root);
  watched.events.check_cleared();
  EXPECT_EQ(last().kind, CacheEvent::kRemoved) << "20 tokens are left";
  watched.cache.tree.drop(watched.cache.other_root);
  watched.events.check_cleared();
  EXPECT_EQ(last().kind, CacheEvent::kCleared);
  watched.events.check_cleared();
  EXPECT_EQ(last().sequence, 4);
  watched.cache.add(watched.cache.root, Tokens(64, 1));
  watched.cache.tree.trim(0);
  watched.events.check_cleared();
  EXPECT_EQ(last().kind, CacheEvent::kCleared);
  EXPECT_EQ(last().sequence, 9);
}

// From tools/golden/page_keys.py: page_key(page_key(zeros, [0]), 0..31) and on.
TEST(CacheEvents, NamesAreThoseThatAnybodyCanCompute) {
  constexpr uint64_t kNames[] = {0x3bf868e10b420008, 0x509d3d4356fcc237, 0x70374f8e9f8cbe44,
                                 0x5c39e9a35c5d75b8};
  Tokens tokens(128);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  for (const int32_t block : {32, 64, 128}) {
    Watched watched(100, block);
    ASSERT_EQ(watched.cache.root, 0);
    watched.cache.add(watched.cache.root, tokens);
    const int64_t all = 128 / block;
    ASSERT_EQ(watched.events.next_sequence(), all);
    for (int64_t i = 0; i < all; ++i) {
      const CacheEvent& e = *watched.events.read(i);
      const auto last_page = static_cast<size_t>((i + 1) * block / 32 - 1);
      EXPECT_EQ(e.block, kNames[last_page]);
      EXPECT_EQ(e.parent, i == 0 ? 0 : kNames[last_page - static_cast<size_t>(block) / 32]);
      EXPECT_EQ(e.position, i * block);
    }
  }
}

}  // namespace
}  // namespace prefix
