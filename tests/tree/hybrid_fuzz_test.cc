// HybridReplay against the plain model: random requests, policies and capacities, and after every
// operation the same nodes and bytes, and the invariants of the tree. PREFIX_FUZZ_OPERATIONS says
// how many operations, 10000000 before a release.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "support/cases.h"
#include "tree/hybrid_model.h"
#include "tree/hybrid_replay.h"

namespace prefix {
namespace {

using testing_support::HybridModel;

std::vector<HybridModel::Node> nodes_of(const HybridTree& tree) {
  std::vector<HybridModel::Node> out;
  for (const int32_t id : tree.in_order())
    out.push_back({tree.node(id).end, tree.node(id).last_use, tree.node(id).state});
  return out;
}

constexpr HybridMethod kMethods[] = {HybridMethod::kLru, HybridMethod::kLeafLru,
                                     HybridMethod::kMarconi, HybridMethod::kGds,
                                     HybridMethod::kGdsf};

struct Random {
  std::mt19937_64 engine;
  int64_t below(int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
};

HybridOptions random_options(Random& random) {
  HybridOptions options;
  options.cost = {.recurrent_layers = 1,
                  .attention_layers = 1,
                  .recurrent = {.linear = 1 + random.below(9)},
                  .attention = {.linear = random.below(3), .quadratic = random.below(2)},
                  .state_bytes = random.below(12),
                  .kv_bytes = 1 + random.below(3)};
  options.method = kMethods[random.below(5)];
  options.alpha = static_cast<double>(random.below(20)) / 10;
  options.capacity = random.one_in(20) ? 0 : 20 + random.below(300);
  options.admission = {.branch = !random.one_in(4),
                       .end = !random.one_in(6),
                       .prompt = random.one_in(2),
                       .max_states = random.one_in(3) ? 1 + random.below(4) : 0};
  return options;
}

TEST(HybridFuzz, SameAsThePlainModel) {
  const char* const wanted = std::getenv("PREFIX_FUZZ_OPERATIONS");
  const int64_t operations = wanted ? std::atoll(wanted) : testing_support::cases(200'000);
  Random random{std::mt19937_64(20241103)};
  for (int64_t done = 0; done < operations;) {
    const HybridOptions options = random_options(random);
    HybridReplay replay(options);
    HybridModel model(options);
    // A new cache now and then; one without a limit must not grow for long.
    const int64_t end = done + (options.capacity == 0 ? 60 : 600);
    std::vector<int32_t> tokens;
    for (; done < end; ++done) {
      if (random.one_in(100)) {
        const HybridMethod method = kMethods[random.below(5)];
        replay.set_method(method, 0.5);
        model.set_method(method, 0.5);
      }
      // Often it goes on from the request before it.
      if (!random.one_in(3)) tokens.resize(static_cast<size_t>(random.below(8)));
      if (tokens.size() > 24) tokens.clear();
      const int64_t more = 1 + random.below(6);
      for (int64_t i = 0; i < more; ++i)
        tokens.push_back(static_cast<int32_t>(random.below(i == 0 ? 4 : 2)));
      const std::string name = random.one_in(5) ? "b" : "a";
      const int64_t prompt = 1 + random.below(static_cast<int64_t>(tokens.size()));
      const auto head = std::span(tokens).first(static_cast<size_t>(prompt));
      ASSERT_EQ(replay.look_up(name, head), model.look_up(name, head)) << done;
      replay.insert(name, tokens, prompt);
      model.insert(name, tokens, prompt);
      ASSERT_EQ(nodes_of(replay.tree()), model.nodes()) << done;
      ASSERT_EQ(replay.tree().used(), model.used()) << done;
      ASSERT_EQ(replay.tree().evictions(), model.evictions()) << done;
      ASSERT_EQ(replay.refused(), model.refused()) << done;
      ASSERT_TRUE(options.capacity == 0 || replay.peak_bytes() <= options.capacity) << done;
      replay.tree().check();
    }
  }
}

}  // namespace
}  // namespace prefix
