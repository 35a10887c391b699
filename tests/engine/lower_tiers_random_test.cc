// Requests, evictions and splits at random while pages come and go in any order, late, in part or
// never: whatever the tree calls computed holds what its tokens ask for, every page is counted, and
// what the tiers are given is what its key says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/status.h"
#include "engine_support.h"
#include "lower_tiers_support.h"

namespace prefix {
namespace {

using namespace testing_support;

struct Tally {
  int64_t fetches = 0, shared = 0, fetched = 0, timeouts = 0, dropped = 0, refused = 0, puts = 0;
};

class Simulation {
 public:
  explicit Simulation(unsigned seed)
      : random_(seed), cache_(24 + static_cast<int32_t>(at_most(40))) {
    LowerTierLimits limits;
    limits.read_bytes = (1 + at_most(4)) * cache_.layout.page_bytes();
    limits.write_bytes = (1 + at_most(30)) * cache_.layout.page_bytes();
    limits.now = [this] { return now_; };
    std::vector<LowerTier> list;
    for (size_t i = 1 + at_most(1); i > 0; --i) {
      auto tier = std::make_unique<FakeTier>();
      fakes_.push_back(tier.get());
      list.push_back({"fake", std::move(tier)});
    }
    tiers_.emplace(std::move(list), cache_.tree, cache_.pool, cache_.kv, cache_.keys,
                   std::chrono::milliseconds(1 + at_most(8)), limits);
  }

  void step() {
    now_ += std::chrono::microseconds(at_most(200));
    const size_t what = at_most(99);
    if (what < 24) {
      arrive();
    } else if (what < 42) {
      answer_some();
    } else if (what < 60) {
      tiers_->poll();
      admit();
    } else if (what < 71) {
      if (!running_.empty()) compute(any(running_));
    } else if (what < 75) {
      if (!running_.empty()) grow(any(running_));
    } else if (what < 90) {
      if (!running_.empty()) end(at_most(running_.size() - 1));
    } else if (what < 92) {
      if (!waiting_.empty()) {  // cancelled by the caller
        waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(at_most(waiting_.size() - 1)));
        ++tally_.dropped;
      }
    } else if (what < 97) {
      evict();
    } else if (what < 98) {
      for (FakeTier* fake : fakes_) fake->refuses = at_most(1);
    } else {
      split();
    }
  }
  void check() {
    cache_.tree.check();
    cache_.check_content();
    check_puts();
  }
  // Ends everything; nothing may be left.
  void drain() {
    while (!running_.empty()) end(0);
    waiting_.clear();
    tiers_->poll();
    EXPECT_FALSE(tiers_->busy());
    check();
    cache_.tree.trim(0);
    EXPECT_EQ(cache_.pool.used(), 0);
    EXPECT_EQ(cache_.pool.available(), cache_.pool.capacity());
    EXPECT_EQ(cache_.tree.token_count(), 0);
    std::vector<std::weak_ptr<const void>> memory;
    for (FakeTier* fake : fakes_) {
      for (const FakeTier::Call& call : fake->open) {
        EXPECT_TRUE(call.kind == FakeTier::kPut || call.ticket->cancelled());
        for (const PageBuffer& buffer : call.buffers) memory.emplace_back(buffer.data);
        for (const PageBlob& blob : call.blobs) memory.emplace_back(blob.data);
      }
      fake->answer();
    }
    for (const auto& left : memory) EXPECT_TRUE(left.expired());
    tally_.fetched = tiers_->counters().fetched_tokens;
    tally_.timeouts = tiers_->counters().timeouts;
  }
  const Tally& tally() const { return tally_; }

 private:
  struct Sequence {
    NodeId root;
    Tokens tokens;
    NodeId node = kNoNode;
    std::shared_ptr<const Fetch> fetch;
    bool looked_up = false;
  };

  size_t at_most(size_t n) { return random_() % (n + 1); }
  template <typename T>
  T& any(std::vector<T>& list) {
    return list[at_most(list.size() - 1)];
  }

  // A prompt that often continues an earlier one, which this machine or another has computed.
  void arrive() {
    if (waiting_.size() + running_.size() > 12) return;
    Tokens tokens;
    if (!known_.empty() && at_most(4) > 0) {
      tokens = any(known_);
      tokens.resize(1 + at_most(tokens.size() - 1));
    }
    const size_t more = at_most(2) > 0 ? at_most(20) : at_most(120);
    for (const int32_t t : random_tokens(random_, more + 1, 3)) tokens.push_back(t);
    if (tokens.size() > 230) tokens.resize(230);
    const NodeId root = at_most(3) > 0 ? cache_.root : cache_.other_root;
    if (known_.size() < 60) {
      known_.push_back(tokens);
    } else {
      any(known_) = tokens;
    }
    // Another machine may have put them there.
    if (at_most(1) == 0) cache_.give_to(*any(fakes_), root, tokens);
    waiting_.push_back({root, std::move(tokens)});
    admit();
  }

  void answer_some() {
    FakeTier& fake = *any(fakes_);
    for (size_t n = at_most(8); n > 0 && !fake.open.empty(); --n) {
      auto call = fake.open.begin();
      std::advance(call, at_most(std::min<size_t>(fake.open.size() - 1, 8)));
      for (size_t pages = 1 + at_most(6); pages > 0; --pages) {
        const size_t i = at_most(call->keys.size() - 1);
        if (!call->ticket->completed(i))
          fake.complete(*call, i, at_most(30) == 0 || (call->ticket->cancelled() && at_most(1)));
      }
      if (at_most(2) == 0) {
        for (size_t i = 0; i < call->keys.size(); ++i)
          if (!call->ticket->completed(i)) fake.complete(*call, i);
      }
      fake.forget_answered();
    }
  }

  // As the scheduler does it.
  bool waits(Sequence& s) {
    if (s.fetch && !s.fetch->done) return true;
    s.fetch.reset();
    while (!s.looked_up) {
      if (tiers_->busy()) return true;
      s.fetch = tiers_->lookup(s.root, s.tokens, cache_.tree.match(s.root, s.tokens),
                               static_cast<int32_t>(s.tokens.size()), &s.looked_up);
      if (!s.fetch) continue;
      ++(s.looked_up ? tally_.fetches : tally_.shared);
      return true;
    }
    return false;
  }
  void admit() {
    for (size_t i = waiting_.size(); i-- > 0;) {
      if (waits(waiting_[i])) continue;
      Sequence s = std::move(waiting_[i]);
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
      try {
        s.node = cache_.tree.attach(cache_.tree.match(s.root, s.tokens), s.tokens, {});
        running_.push_back(std::move(s));
      } catch (const Error& e) {
        ASSERT_EQ(e.code(), Code::kCacheFull);
        ++tally_.refused;
      }
    }
  }

  void compute(const Sequence& s) {
    const int32_t rows = cache_.compute(s.node, 1 + static_cast<int32_t>(at_most(90)));
    if (measures_) tiers_->computed(rows, 100000 * rows);
  }

  // A generation takes one token, when its path is computed.
  void grow(Sequence& s) {
    for (size_t n = at_most(20); n > 0; --n) {
      cache_.compute_all(s.node);
      if (!cache_.tree.make_room(1)) return;
      cache_.pool.reserve(1);
      int32_t pages = 0;
      const int32_t token = random_tokens(random_, 1, 3)[0];
      s.node =
          cache_.tree.advance(s.node, static_cast<int32_t>(s.tokens.size()), token, {}, &pages);
      s.tokens.push_back(token);
      cache_.pool.unreserve(1);
    }
  }

  void end(size_t i) {
    const Sequence s = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
    expect_keys(s);
    // Wherever the request was when it was cancelled.
    if (at_most(1)) cache_.compute_all(s.node);
    tiers_->save(s.node, static_cast<int32_t>(s.tokens.size()));
    cache_.tree.unlock(s.node, at_most(9) > 0);
  }

  // Also tells what each key stands for.
  void expect_keys(const Sequence& s) {
    const std::vector<PageKey> keys = keys_of(s.root, s.tokens);
    for (size_t i = 0; i < keys.size(); ++i) {
      meaning_.try_emplace(keys[i], s.root,
                           Tokens(s.tokens.begin(), s.tokens.begin() + static_cast<ptrdiff_t>(
                                                                           (i + 1) * kPageTokens)));
      if (at_most(7) > 0) continue;
      ASSERT_EQ(cache_.keys.key(s.node, static_cast<int32_t>(i)), keys[i]) << "block " << i;
    }
  }
  void check_puts() {
    for (FakeTier* fake : fakes_) {
      for (const auto& [key, count] : fake->puts) tally_.puts += count;
      fake->puts.clear();
      for (const FakeTier::Call& call : fake->open) {
        if (call.kind != FakeTier::kPut) continue;
        for (size_t i = 0; i < call.keys.size(); ++i) {
          const auto found = meaning_.find(call.keys[i]);
          ASSERT_NE(found, meaning_.end()) << "a key that no path has";
          const auto& [root, tokens] = found->second;
          const FakeTier::Page page = cache_.page_of(root, tokens, tokens.size() / kPageTokens - 1);
          ASSERT_EQ(std::memcmp(call.blobs[i].data.get(), page.data(), page.size()), 0);
        }
      }
    }
  }

  void evict() {
    Tree& tree = cache_.tree;
    switch (at_most(4)) {
      case 0:
        tree.make_room(static_cast<int32_t>(at_most(20)));
        break;
      case 1:
        tree.trim(static_cast<int32_t>(at_most(static_cast<size_t>(cache_.pool.capacity()))));
        break;
      case 2:
        if (const NodeId id = tree.victim(); id != kNoNode)
          tree.evict_tail(id, 1 + static_cast<int32_t>(at_most(3)));
        break;
      case 3:
        if (at_most(9) == 0) tree.drop(at_most(1) ? cache_.root : cache_.other_root);
        break;
      default:
        if (known_.empty()) return;
        Tokens tokens = any(known_);
        tokens.resize(1 + at_most(tokens.size() - 1));
        tree.drop_after(tree.match(cache_.root, tokens));
    }
  }
  void split() {
    if (running_.empty()) return;
    const Sequence& s = any(running_);
    cache_.tree.end_at(s.node, 1 + static_cast<int32_t>(at_most(s.tokens.size() - 1)));
  }

  std::mt19937 random_;
  Clock::time_point now_{};
  bool measures_ = at_most(2) == 0;  // what a token costs, so that tiers may be too slow
  SmallCache cache_;
  std::vector<FakeTier*> fakes_;
  std::optional<LowerTiers> tiers_;
  std::vector<Sequence> waiting_, running_;
  std::vector<Tokens> known_;
  std::unordered_map<PageKey, std::pair<NodeId, Tokens>, PageKeyHash> meaning_;
  Tally tally_;
};

TEST(LowerTiersRandom, WhateverIsInFlightTheTreeHoldsTheRightPages) {
  constexpr int kOperations = 2500;
  Tally all;
  const int worlds = cases(80);
  for (int world = 0; world < worlds; ++world) {
    Simulation simulation(static_cast<unsigned>(world));
    for (int i = 0; i < kOperations; ++i) {
      simulation.step();
      simulation.check();
      if (testing::Test::HasFailure()) FAIL() << "world " << world << ", operation " << i;
    }
    simulation.drain();
    if (testing::Test::HasFailure()) FAIL() << "world " << world << ", at its end";
    const Tally& t = simulation.tally();
    all.fetches += t.fetches;
    all.shared += t.shared;
    all.fetched += t.fetched;
    all.timeouts += t.timeouts;
    all.dropped += t.dropped;
    all.refused += t.refused;
    all.puts += t.puts;
  }
  std::printf(
      "%d operations, %lld fetches, %lld of others waited for, %lld pages fetched, %lld timeouts, "
      "%lld cancelled requests, %lld that did not fit, %lld puts\n",
      worlds * kOperations, static_cast<long long>(all.fetches), static_cast<long long>(all.shared),
      static_cast<long long>(all.fetched / kPageTokens), static_cast<long long>(all.timeouts),
      static_cast<long long>(all.dropped), static_cast<long long>(all.refused),
      static_cast<long long>(all.puts));
  for (const int64_t count :
       {all.fetches, all.shared, all.fetched / kPageTokens, all.timeouts, all.dropped, all.puts})
    EXPECT_GE(count, 5 * worlds);
}

}  // namespace
}  // namespace prefix
