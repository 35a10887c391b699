// Cache events without a model: who only reads them knows exactly what the tree holds, after every
// operation, and is told in an order that makes sense.
#include "cache/cache_events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "event_router.h"
#include "random_tree.h"

namespace prefix {
namespace {

using namespace testing_support;

// A small cache and its events.
struct Watched {
  Watched(size_t capacity, int32_t event_tokens, bool with_states = false)
      : block(event_tokens),
        states(with_states),
        events(cache.tree, cache.keys, cache.pool, capacity, event_tokens, with_states) {
    TreeObserver observer;
    observer.evicting = [this](NodeId id, int32_t from, EvictReason) { events.evicting(id, from); };
    observer.computed = [this](NodeId id, int32_t from) { events.computed(id, from); };
    observer.state_kept = [this](NodeId id) { events.state_kept(id); };
    observer.taking_state = [this](NodeId id) { events.taking_state(id); };
    cache.tree.set_observer(std::move(observer));
  }
  // Nodes on the way to a state that stays.
  std::set<NodeId> with_states_below() const {
    std::set<NodeId> found;
    for (NodeId id = 0; id < cache.tree.node_limit(); ++id)
      if (cache.tree.has_state(id) && cache.tree.state_is_kept(id))
        for (NodeId up = id; up != kNoNode; up = cache.tree.node(up).parent) found.insert(up);
    return found;
  }
  // What the tree holds and requests can use, found without keys that it knows or events.
  std::map<uint64_t, EventRouter::Block> blocks() const {
    std::map<uint64_t, EventRouter::Block> found;
    const std::set<NodeId> usable = with_states_below();
    for (NodeId id = 0; id < cache.tree.node_limit(); ++id) {
      const Node& n = cache.tree.node(id);
      if (n.root < 0 || n.computed == 0 || (states && !usable.contains(id))) continue;
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

  // Tells that all is gone, though it is in use.
  void leave(EventRouter& router, int64_t& next) {
    for (const NodeId root : {cache.root, cache.other_root}) events.removed(root);
    read(router, next);
    EXPECT_TRUE(router.blocks().empty());
  }

  int32_t block;
  bool states;
  SmallCache cache{40};
  CacheEvents events;
};

// States come to random places of a tree and go again, some of them while they are in use.
class RandomStates {
 public:
  RandomStates(SmallCache& cache, std::mt19937& random) : tree_(cache.tree), random_(random) {}
  ~RandomStates() {
    while (!pinned_.empty()) release();
  }

  void step() {
    const size_t what = random_() % 8;
    if (what < 3) {
      if (!tree_.make_room(2)) return;
      const NodeId id = any([&](NodeId n) { return !tree_.has_state(n); });
      if (id == kNoNode) return;
      tree_.add_state(id, tree_.take_state_pages(2), random_() % 3 > 0);
      tree_.lock(id);
      pinned_.push_back(id);
    } else if (what < 5) {
      if (!pinned_.empty()) release();
    } else if (what < 6) {
      const NodeId id = any([&](NodeId n) { return tree_.has_state(n); });
      if (id != kNoNode) tree_.keep_state(id);
    } else if (what < 7) {
      const NodeId id =
          any([&](NodeId n) { return tree_.has_state(n) && tree_.state_pins(n) == 0; });
      if (id != kNoNode) tree_.drop_state(id);
    }
  }

 private:
  void release() {
    const NodeId id = pinned_.back();
    pinned_.pop_back();
    tree_.unpin_state(id);
    tree_.unlock(id, random_() % 4 > 0);
  }
  template <typename F>
  NodeId any(const F& good) {
    std::vector<NodeId> found;
    for (NodeId id = 0; id < tree_.node_limit(); ++id) {
      const Node& n = tree_.node(id);
      if (n.root >= 0 && n.length > 0 && n.computed == n.length && good(id)) found.push_back(id);
    }
    return found.empty() ? kNoNode : found[random_() % found.size()];
  }

  Tree& tree_;
  std::mt19937& random_;
  std::vector<NodeId> pinned_;
};

class EventsOfBlocks : public testing::TestWithParam<int32_t> {
 protected:
  // What was told is what the tree holds: to a reader of all events, and to one of a dump.
  void expect_told(Watched& watched, int operation) {
    watched.read(router_, next_);
    const auto blocks = watched.blocks();
    ASSERT_EQ(router_.blocks(), blocks);
    seen_ += static_cast<int64_t>(blocks.size());
    if (operation % 10 != 0) return;
    EventRouter fresh(GetParam());
    watched.dump(fresh);
    ASSERT_EQ(fresh.blocks(), blocks);
  }

  EventRouter router_{GetParam()};
  int64_t next_ = 0, seen_ = 0;  // the event that is read next; blocks, over all operations
};

TEST_P(EventsOfBlocks, TellWhatTheTreeHolds) {
  const int32_t block = GetParam();
  Watched watched(1 << 20, block);
  RandomTree tree(watched.cache, 41);
  const int operations = cases(60000);
  for (int i = 0; i < operations || router_.blocks().empty(); ++i) {
    tree.step();
    expect_told(watched, i);
    if (HasFatalFailure()) FAIL() << "operation " << i;
  }
  EXPECT_GT(next_, operations / block);
  EXPECT_GT(seen_, operations / block);
  watched.leave(router_, next_);
}

// With recurrent layers: as deep as a state is, and no deeper.
TEST_P(EventsOfBlocks, EndAtTheDeepestState) {
  const int32_t block = GetParam();
  Watched watched(1 << 20, block, true);
  RandomTree tree(watched.cache, 47);
  RandomStates states(watched.cache, tree.random());
  // Few paths reach a state behind a whole large block.
  const int operations = std::max(cases(60000), 100 * block);
  for (int i = 0; i < operations || router_.blocks().empty(); ++i) {
    i % 2 ? states.step() : tree.step();
    watched.cache.tree.check();
    expect_told(watched, i);
    if (HasFatalFailure()) FAIL() << "operation " << i;
  }
  EXPECT_GT(next_, operations / block / 4);
  EXPECT_GT(seen_, operations / block / 2);
  watched.leave(router_, next_);
}

TEST(CacheEvents, KeysAndValuesBehindAStateAreNotStored) {
  Watched watched(100, 32, true);
  Tree& tree = watched.cache.tree;
  const auto state_at = [&](const Tokens& tokens, size_t length) {
    const NodeId node =
        tree.end_at(tree.match(watched.cache.root, tokens).node, static_cast<int32_t>(length));
    tree.add_state(node, tree.take_state_pages(2), true);
    tree.unpin_state(node);
    return node;
  };
  const Tokens tokens(160, 1);
  watched.cache.add(watched.cache.root, tokens);
  EXPECT_EQ(watched.events.next_sequence(), 0) << "no request can go on there";
  const NodeId upper = state_at(tokens, 31);
  EXPECT_EQ(watched.events.next_sequence(), 0) << "before the end of the first block";
  const NodeId node = state_at(tokens, 70);
  ASSERT_EQ(watched.events.next_sequence(), 2);
  EXPECT_EQ(watched.events.read(0)->position, 0);
  EXPECT_EQ(watched.events.read(1)->position, 32);
  tree.drop_state(upper);
  EXPECT_EQ(watched.events.next_sequence(), 2) << "the deeper one is there";
  tree.drop_state(node);
  ASSERT_EQ(watched.events.next_sequence(), 4);
  EXPECT_EQ(watched.events.read(2)->position, 32);
  EXPECT_EQ(watched.events.read(3)->position, 0);
  EXPECT_EQ(watched.events.read(3)->kind, CacheEvent::kRemoved);
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
