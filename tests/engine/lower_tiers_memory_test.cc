// No memory in the middle of a fetch, at every allocation there is: it ends early, as after any
// other miss, and the next one finds everything.
#include <cstring>
#include <functional>

#include "lower_tiers_fixture.h"
#include "plentiful_tier.h"

namespace prefix {
namespace {

using namespace testing_support;

struct LowerTiersMemory : LowerTiersTest {
  void open_plentiful(int32_t state_pages) {
    auto tier = std::make_unique<PlentifulTier>();
    near = far = &tier->fake;
    near->at_once = true;
    std::vector<LowerTier> list;
    list.push_back({"near", std::move(tier)});
    LowerTierLimits limits;
    limits.read_bytes = 2 * cache.layout.page_bytes();  // a fetch reads in pieces
    limits.now = [this] { return now; };
    tiers = std::make_unique<LowerTiers>(std::move(list), cache.tree, cache.pool, cache.kv,
                                         cache.keys, 1s, limits, state_pages);
  }

  // Fetches in polls that may make so many allocations, until nothing is fetched any more.
  void fetch_with(int64_t allocations, const Tokens& tokens) {
    std::shared_ptr<const Fetch> fetch;
    {
      const Allowing few(allocations);
      fetch = lookup(tokens);
    }
    for (int round = 0; fetch && !fetch->done; ++round) {
      ASSERT_LT(round, 100);
      const Allowing few(allocations);
      tiers->poll();
    }
  }

  // Returns how often less than all came.
  int fetch_with_ever_more(const Tokens& tokens, const std::function<bool()>& complete) {
    int early = 0;
    for (int64_t allocations = 0; allocations < 200; ++allocations) {
      SCOPED_TRACE(allocations);
      fetch_with(allocations, tokens);
      early += !complete();
      check();
      finish(lookup(tokens));
      EXPECT_TRUE(complete()) << "without limits";
      check();
      cache.tree.trim(0);
      EXPECT_EQ(cache.pool.used(), 0);
      if (HasFailure()) break;
    }
    return early;
  }
};

TEST_F(LowerTiersMemory, AFetchOfPagesEndsEarly) {
  open_plentiful(0);
  const Tokens tokens = prompt(170);
  cache.give_to(*near, cache.root, tokens);
  const int early = fetch_with_ever_more(tokens, [&] { return computed(tokens) == 160; });
  EXPECT_GT(early, 5);
  EXPECT_LT(early, 200);
}

TEST_F(LowerTiersMemory, AFetchOfAStateEndsEarly) {
  constexpr int32_t kPages = 2;
  open_plentiful(kPages);
  auto& tree = cache.tree;
  const Tokens tokens = prompt(170);
  const NodeId id = tree.attach(tree.match(cache.root, tokens), tokens, {});
  cache.compute_all(id);
  std::vector<int32_t> pages = tree.take_state_pages(kPages);
  for (const int32_t page : pages) {
    std::memset(cache.kv.data() + static_cast<size_t>(page) * cache.layout.page_bytes(), 0,
                cache.layout.page_bytes());
    cache.pool.set_clean(page);
  }
  tree.add_state(id, std::move(pages), true);
  tree.unpin_state(id);
  tiers->save(id, 170);
  tree.unlock(id, true);
  tree.trim(0);
  const int early = fetch_with_ever_more(tokens, [&] {
    const Match m = tree.match(cache.root, tokens);
    return tree.state_at(m.node, m.computed) != kNoNode;
  });
  EXPECT_GT(early, 5);
  EXPECT_LT(early, 200);
}

}  // namespace
}  // namespace prefix
