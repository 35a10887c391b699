// The queue of victims against one that looks at everything every time.
#include "tree/hybrid_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace prefix {
namespace {

struct Naive {
  struct Node {
    double base = 0;
    int64_t hits = 0;
    std::optional<HybridCandidate> candidate;
  };
  HybridPolicy policy;
  double alpha;
  std::map<int32_t, Node> nodes;
  double age = 0;

  double priority(const Node& n) const {
    const double gain =
        static_cast<double>(n.candidate->flops) / static_cast<double>(n.candidate->freed);
    const auto times = static_cast<double>(policy == HybridPolicy::kGdsf ? 1 + n.hits : 1);
    return n.base + gain * times;
  }
  int32_t victim(int64_t now) const {
    double low[2] = {1e300, 1e300}, high[2] = {-1e300, -1e300};
    const auto values = [&](const Node& n) {
      return std::array{
          1.0 / static_cast<double>(now - n.candidate->last_use),
          static_cast<double>(n.candidate->flops) / static_cast<double>(n.candidate->bytes)};
    };
    for (const auto& [id, n] : nodes)
      for (size_t i = 0; n.candidate && i < 2; ++i) {
        low[i] = std::min(low[i], values(n)[i]);
        high[i] = std::max(high[i], values(n)[i]);
      }
    int32_t best = -1;
    double least = 0;
    for (const auto& [id, n] : nodes) {
      if (!n.candidate) continue;
      double value = 0;
      if (policy == HybridPolicy::kLru) {
        value = static_cast<double>(n.candidate->last_use);
      } else if (policy == HybridPolicy::kMarconi) {
        double share[2];
        for (size_t i = 0; i < 2; ++i)
          share[i] = high[i] > low[i] ? (values(n)[i] - low[i]) / (high[i] - low[i]) : 1.0;
        value = alpha * share[1] + share[0];
      } else {
        value = priority(n);
      }
      if (best >= 0 && value >= least) continue;
      best = id;
      least = value;
    }
    return best;
  }
};

class HybridQueueTest : public testing::TestWithParam<std::pair<HybridPolicy, double>> {};

TEST_P(HybridQueueTest, GivesWhatALookAtEverythingGives) {
  const auto [policy, alpha] = GetParam();
  std::mt19937 random(7);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  HybridQueue queue(policy, alpha, [](int32_t a, int32_t b) { return a < b; });
  Naive naive{policy, alpha, {}, 0};
  for (int64_t now = 1; now < 20000; ++now) {
    const auto id = static_cast<int32_t>(below(40));
    // Few different values, so that many are equal.
    const HybridCandidate candidate{now - 1 - below(5), 1 + below(4), 1 + below(4), 1 + below(3)};
    Naive::Node* const known = naive.nodes.contains(id) ? &naive.nodes[id] : nullptr;
    if (!known) {
      queue.create(id);
      naive.nodes[id].base = naive.age;
      continue;
    }
    switch (below(7)) {
      case 0:
      case 1:
        queue.put(id, candidate);
        known->candidate = candidate;
        break;
      case 2:
        queue.remove(id);
        known->candidate.reset();
        break;
      case 3:
        queue.renew(id);
        known->base = naive.age;
        break;
      case 4:
        queue.count_hit(id);
        ++known->hits;
        break;
      case 5: {
        const auto into = static_cast<int32_t>(below(40));
        if (into == id || !naive.nodes.contains(into)) break;
        queue.merge(id, into);
        naive.nodes[into].base = std::max(naive.nodes[into].base, known->base);
        if (naive.nodes[into].candidate) queue.put(into, *naive.nodes[into].candidate);
        break;
      }
      default: {
        const int32_t victim = naive.victim(now);
        ASSERT_EQ(queue.victim(now), victim);
        if (victim < 0) break;
        queue.evict(victim);
        naive.age = std::max(naive.age, naive.priority(naive.nodes[victim]));
        ASSERT_EQ(queue.age(), naive.age);
        naive.nodes.erase(victim);
      }
    }
    if (naive.nodes.contains(id) && known->candidate) queue.put(id, *known->candidate);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HybridQueueTest,
                         testing::Values(std::pair{HybridPolicy::kLru, 0.0},
                                         std::pair{HybridPolicy::kMarconi, 0.0},
                                         std::pair{HybridPolicy::kMarconi, 0.7},
                                         std::pair{HybridPolicy::kGds, 0.0},
                                         std::pair{HybridPolicy::kGdsf, 0.0}));

TEST(HybridQueue, ScaleOfOtherNodes) {
  HybridQueue queue(HybridPolicy::kMarconi, 1.0, [](int32_t a, int32_t b) { return a < b; });
  // Within their own range node 1 is the oldest (0 + 1) and node 2 the newest (1 + 0).
  const HybridCandidate old{.last_use = 90, .flops = 3}, fresh{.last_use = 91, .flops = 1};
  queue.create(1);
  queue.create(2);
  queue.put(1, old);
  queue.put(2, fresh);
  EXPECT_EQ(queue.victim(100), 1);
  // On a scale on which both are old, what they save decides.
  EXPECT_EQ(queue.victim(100, HybridQueue::Range{1, 99}), 2);
}

TEST(HybridQueue, AnotherPolicy) {
  HybridQueue queue(HybridPolicy::kLru, 0, [](int32_t a, int32_t b) { return a < b; });
  queue.create(1);
  queue.create(2);
  queue.put(1, {.last_use = 1, .flops = 9});
  queue.put(2, {.last_use = 2, .flops = 1});
  EXPECT_EQ(queue.victim(9), 1);
  queue.set_policy(HybridPolicy::kGds, 0);
  EXPECT_EQ(queue.victim(9), 2);
  EXPECT_EQ(queue.size(), 2u);
}

}  // namespace
}  // namespace prefix
