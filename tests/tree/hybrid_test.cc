// The cache of a hybrid model: costs, Marconi's rules and our own,
// each as a case worked out by hand.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tree/hybrid_cost.h"
#include "tree/hybrid_replay.h"
#include "tree/hybrid_simulator.h"
#include "tree/policy_ghosts.h"

namespace prefix {
namespace {

using Tokens = std::vector<int32_t>;

// A state takes 100 bytes, a token one, and computing one takes one operation.
HybridCost small_cost() {
  return {.recurrent_layers = 1, .recurrent = {.linear = 1}, .state_bytes = 100, .kv_bytes = 1};
}

HybridOptions marconi_rules(HybridMethod method = HybridMethod::kLeafLru) {
  return {.cost = small_cost(), .method = method, .tuned = false, .marconi_rules = true};
}

HybridOptions our_rules(HybridMethod method = HybridMethod::kLru, int64_t capacity = 0) {
  return {.cost = small_cost(), .method = method, .capacity = capacity};
}

int64_t request(HybridReplay& replay, const Tokens& tokens, int64_t prompt) {
  const int64_t reused = replay.look_up("", std::span(tokens).first(static_cast<size_t>(prompt)));
  replay.insert("", tokens, prompt);
  replay.tree().check();
  return reused;
}

// All of it is the prompt: with our rules the last token is computed, too.
int64_t request(HybridReplay& replay, const Tokens& tokens) {
  return request(replay, tokens, static_cast<int64_t>(tokens.size()));
}

// Ends of the nodes, depth first, with * for a state.
std::string nodes_of(const HybridTree& tree) {
  std::string out;
  for (const int32_t id : tree.in_order())
    out += (out.empty() ? "" : " ") + std::to_string(tree.node(id).end) +
           (tree.node(id).state ? "*" : "");
  return out;
}

TEST(HybridCost, OfMarconisModel) {
  const HybridCost cost = marconi_cost({});
  EXPECT_EQ(cost.state_bytes, 26'787'840);
  EXPECT_EQ(cost.kv_bytes, 65'536);
  // Figure 3b of the paper: 10,000 tokens with a state every 16.
  EXPECT_NEAR(static_cast<double>(10000 / 16 * cost.state_bytes + 10000 * cost.kv_bytes), 17.4e9,
              0.05e9);
  const int64_t d = 4096;
  EXPECT_EQ(cost.recurrent.of(3), 3 * (12 * d * d + 16 * d * 128 + 10 * d));
  EXPECT_EQ(cost.attention.of(3), 3 * 8 * d * d + 9 * 4 * d);
  EXPECT_EQ(cost.mlp.of(3), 3 * 16 * d * d);
  EXPECT_EQ(cost.flops(3),
            24 * cost.recurrent.of(3) + 4 * cost.attention.of(3) + 28 * cost.mlp.of(3));
}

TEST(HybridCost, BetweenTwoPositions) {
  HybridCost cost = marconi_cost({});
  EXPECT_EQ(cost.flops_between(0, 100), cost.flops(100));
  EXPECT_EQ(cost.flops_between(40, 100), cost.flops(100) - cost.flops(40));
  const int64_t right = cost.flops_between(40, 100);
  cost.mlp_minus_attention = true;
  EXPECT_EQ(cost.flops_between(40, 100), right + 28 * (cost.mlp.of(40) - cost.attention.of(40)));
}

TEST(HybridCost, LongestThatCanBeCounted) {
  HybridCost cost = marconi_cost({});
  EXPECT_GT(cost.max_tokens(), 1'000'000);
  EXPECT_GT(cost.flops(cost.max_tokens()), int64_t{1} << 60);
  cost.mlp.quadratic = int64_t{1} << 40;
  EXPECT_LT(cost.max_tokens(), 10'000);
}

TEST(MarconiRules, Toy) {
  HybridOptions options = marconi_rules();
  options.cost = marconi_cost({});
  options.capacity = 10'000'000'000;
  HybridReplay replay(options);
  std::vector<int64_t> reused;
  for (const Tokens& t :
       std::vector<Tokens>{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 6, 5}, {0, 1, 2, 3, 7, 8}})
    reused.push_back(request(replay, t));
  EXPECT_EQ(nodes_of(replay.tree()), "4* 6* 6* 6*");
  reused.push_back(request(replay, {0, 2, 3, 9}));
  EXPECT_EQ(nodes_of(replay.tree()), "1* 4* 6* 6* 6* 4*");
  for (const Tokens& t : std::vector<Tokens>{{10, 1, 2}, {0, 1, 2, 3, 7, 11}})
    reused.push_back(request(replay, t));
  EXPECT_EQ(reused, (std::vector<int64_t>{0, 0, 4, 0, 0, 4}));
  EXPECT_EQ(nodes_of(replay.tree()), "1* 4* 6* 6* 5* 6* 6* 4* 3*");
  EXPECT_EQ(replay.tree().nodes(), 9);
  EXPECT_EQ(replay.tree().used(), 242'204'672);
}

TEST(MarconiRules, OldestLeafGoes) {
  HybridOptions options = marconi_rules();
  options.capacity = 330;
  HybridReplay replay(options);
  for (const Tokens& t : std::vector<Tokens>{{1, 2}, {3, 4}, {5, 6}, {1, 2}, {7, 8}})
    request(replay, t);
  EXPECT_EQ(nodes_of(replay.tree()), "2* 2* 2*");
  EXPECT_EQ(replay.look_up("", Tokens{3, 4, 9}), 0);
  EXPECT_EQ(replay.look_up("", Tokens{1, 2, 9}), 2);
}

TEST(MarconiRules, StateOfAnOnlyChildsParentGoesBeforeItsTokens) {
  HybridOptions options = marconi_rules(HybridMethod::kMarconi);
  options.capacity = 350;
  HybridReplay replay(options);
  request(replay, {1, 2});
  request(replay, {1, 2, 3, 4});
  request(replay, {5, 6});
  EXPECT_EQ(nodes_of(replay.tree()), "2* 4* 2*");
  request(replay, {7});
  EXPECT_EQ(nodes_of(replay.tree()), "4* 2* 1*") << "2 was used last by the second request";
  EXPECT_EQ(replay.tree().tokens(), 7) << "no keys and values went";
  EXPECT_EQ(replay.look_up("", Tokens{1, 2, 9}), 0);
  EXPECT_EQ(replay.look_up("", Tokens{1, 2, 3, 4, 9}), 4);
}

TEST(MarconiRules, OneStateTooManyIsCounted) {
  HybridOptions options = marconi_rules(HybridMethod::kMarconi);
  options.capacity = 204;
  HybridReplay replay(options);
  request(replay, {1, 2});
  request(replay, {3, 4});
  EXPECT_EQ(replay.tree().evictions(), 0);
  request(replay, {3, 4});
  EXPECT_EQ(replay.tree().evictions(), 1) << "though it is all there";
}

TEST(MarconiRules, ChildThatAgreesInPartIsNoHit) {
  for (const bool false_hits : {false, true}) {
    HybridOptions options = marconi_rules(HybridMethod::kMarconi);
    options.pitfalls.false_hits = false_hits;
    HybridReplay replay(options);
    request(replay, {1, 2, 3, 4});
    request(replay, {1, 2, 3, 4, 9, 9});
    EXPECT_EQ(replay.look_up("", Tokens{1, 2, 9, 9, 5}), false_hits ? 4 : 0);
  }
}

TEST(MarconiRules, BytesOfTheLastCandidate) {
  for (const bool wrong : {false, true}) {
    HybridOptions options = marconi_rules(HybridMethod::kMarconi);
    options.pitfalls.wrong_leaf_bytes = wrong;
    options.capacity = 660;
    HybridReplay replay(options);
    request(replay, {1});
    request(replay, Tokens(10, 2));
    request(replay, Tokens(300, 3));
    // 148 bytes are missing: the first two leaves have 101 and 110. With the pitfall the first
    // counts for 400, the bytes of the last one.
    request(replay, Tokens(97, 4));
    EXPECT_EQ(nodes_of(replay.tree()), wrong ? "10* 300* 97*" : "300* 97*");
    EXPECT_EQ(replay.tree().used() > options.capacity, wrong);
  }
}

TEST(MarconiRules, InsertionRefreshesWhatItGoesOnFrom) {
  for (const bool refreshes : {true, false}) {
    HybridOptions options = marconi_rules(HybridMethod::kMarconi);
    options.pitfalls.insert_refreshes = refreshes;
    options.capacity = 305;
    HybridReplay replay(options);
    request(replay, {1, 2});
    request(replay, {3, 4});
    request(replay, {1, 2}, 1);  // its lookup finds nothing, its insertion two tokens
    request(replay, {5, 6});
    EXPECT_EQ(replay.look_up("", Tokens{1, 2}), refreshes ? 2 : 0);
    EXPECT_EQ(replay.look_up("", Tokens{3, 4}), refreshes ? 0 : 2);
  }
}

TEST(OurRules, LastTokenIsComputedAndTheSampledOneIsNotKept) {
  HybridReplay replay(our_rules());
  EXPECT_EQ(request(replay, {1, 2, 3, 4, 5}, 3), 0);
  EXPECT_EQ(nodes_of(replay.tree()), "4*");
  EXPECT_EQ(request(replay, {1, 2, 3, 4}), 0) << "its state is there, but its end must be computed";
  EXPECT_EQ(request(replay, {1, 2, 3, 4, 6}), 4);
}

TEST(OurRules, NeverOverCapacityAndTooLargeIsRefused) {
  HybridReplay replay(our_rules(HybridMethod::kLru, 250));
  request(replay, {1, 2, 3});
  request(replay, Tokens(151, 7));
  EXPECT_EQ(replay.refused(), 1);
  EXPECT_EQ(nodes_of(replay.tree()), "3*") << "nothing went for it";
  request(replay, Tokens(150, 7));
  EXPECT_EQ(nodes_of(replay.tree()), "150*");
  EXPECT_EQ(replay.tree().used(), 250);
  EXPECT_EQ(replay.peak_bytes(), 250);
}

TEST(OurRules, OwnPathStays) {
  HybridReplay replay(our_rules(HybridMethod::kLru, 320));
  request(replay, {1, 2, 3});
  request(replay, {4, 5, 6});
  // 3 tokens are there already, of the least lately used. It needs two states and one token.
  request(replay, {1, 2, 3, 9}, 1);
  EXPECT_EQ(nodes_of(replay.tree()), "3* 3*") << "all that is kept of the answer is there";
  request(replay, {1, 2, 8});
  EXPECT_EQ(nodes_of(replay.tree()), "2* 3* 3*");
  EXPECT_EQ(replay.tree().used(), 304);
}

TEST(OurRules, EndOfPrompt) {
  HybridOptions options = our_rules();
  options.admission.prompt = true;
  HybridReplay replay(options);
  request(replay, {1, 2, 3, 4, 5, 6}, 3);
  EXPECT_EQ(nodes_of(replay.tree()), "3* 5*");
  EXPECT_EQ(request(replay, {1, 2, 3, 7, 8}, 4), 3) << "the thinking is not in the history";
}

TEST(OurRules, ForkWithoutAStateGetsOneOnTheSecondSighting) {
  HybridOptions options = our_rules();
  options.admission.branch = false;
  HybridReplay without(options);
  request(without, {1, 2, 3});
  request(without, {1, 2, 4});
  EXPECT_EQ(nodes_of(without.tree()), "2 3* 3*");
  EXPECT_EQ(without.look_up("", Tokens{1, 2, 5}), 0);
  HybridReplay with(our_rules());
  request(with, {1, 2, 3});
  request(with, {1, 2, 4});
  EXPECT_EQ(with.look_up("", Tokens{1, 2, 5}), 2);
}

TEST(OurRules, StatesOfAPath) {
  HybridOptions options = our_rules();
  options.admission.max_states = 2;
  HybridReplay replay(options);
  request(replay, {1});
  request(replay, {1, 2});
  request(replay, {1, 2, 3});
  EXPECT_EQ(nodes_of(replay.tree()), "2* 3*") << "the one nearest to the root went";
  request(replay, {1, 2, 4});
  request(replay, {1, 2, 4, 5});
  EXPECT_EQ(nodes_of(replay.tree()), "2* 3* 4*") << "a fork keeps its state";
}

TEST(OurRules, NamespacesShareNothing) {
  HybridReplay replay(our_rules());
  request(replay, {1, 2, 3});
  EXPECT_EQ(replay.look_up("other", Tokens{1, 2, 3, 4}), 0);
  replay.insert("other", Tokens{1, 2, 3}, 3);
  EXPECT_EQ(replay.tree().nodes(), 2);
  EXPECT_EQ(replay.look_up("other", Tokens{1, 2, 3, 4}), 3);
}

TEST(HybridBlocks, OnlyWholeBlocks) {
  HybridOptions options = marconi_rules(HybridMethod::kBlock);
  options.capacity = 3 * (100 + kHybridBlock);
  HybridSimulator simulator(options);
  const Tokens a(70, 1);
  EXPECT_EQ(simulator.request("", a, 70), 0);
  EXPECT_EQ(simulator.stats().states, 2);
  EXPECT_EQ(simulator.request("", a, 63), 32);
  EXPECT_EQ(simulator.request("", a, 70), 64);
  simulator.request("", Tokens(70, 2), 70);
  EXPECT_EQ(simulator.stats().states, 3) << "the last block of the first went";
  EXPECT_EQ(simulator.request("", a, 70), 32);
  // As many blocks as fit, and not those of its own path.
  simulator.request("", Tokens(320, 1), 320);
  EXPECT_EQ(simulator.stats().states, 3);
  EXPECT_EQ(simulator.request("", Tokens(320, 1), 320), 96);
  EXPECT_EQ(simulator.stats().peak_bytes, options.capacity);
}

// A block that others follow is used, too: when they are gone its turn comes by its own last use.
TEST(HybridBlocks, AUseOfABlockWithSuccessorsCounts) {
  HybridOptions options = marconi_rules(HybridMethod::kBlock);
  options.capacity = 3 * (100 + kHybridBlock);
  HybridSimulator simulator(options);
  const auto blocks = [&](int32_t token, size_t count) {
    const Tokens tokens(count * kHybridBlock, token);
    return simulator.request("", tokens, static_cast<int64_t>(tokens.size()));
  };
  blocks(1, 2);
  blocks(2, 1);
  EXPECT_EQ(blocks(1, 1), kHybridBlock);
  blocks(3, 1);  // in the place of the second block
  blocks(4, 1);  // in the place of the other request, which was used before the first block
  EXPECT_EQ(simulator.stats().evictions, 2);
  EXPECT_EQ(blocks(1, 1), kHybridBlock);
}

TEST(HybridBlocks, WithOurRulesTheLastTokenIsNeitherKeptNorReused) {
  HybridSimulator simulator(our_rules(HybridMethod::kBlock));
  const Tokens t(2 * kHybridBlock + 1, 1);
  const auto answered = [&](int64_t tokens) {  // its last token is the answer
    return simulator.request("", std::span(t).first(static_cast<size_t>(tokens)), tokens - 1);
  };
  EXPECT_EQ(answered(2 * kHybridBlock), 0);
  EXPECT_EQ(simulator.stats().states, 1) << "the answer ends the second block";
  EXPECT_EQ(answered(kHybridBlock + 1), 0) << "the block ends with the last token of the prompt";
  EXPECT_EQ(answered(2 * kHybridBlock + 1), kHybridBlock);
  EXPECT_EQ(simulator.stats().states, 2);
}

TEST(HybridBlocks, WithOurRulesAllOfAPromptWithoutAnAnswerIsKept) {
  HybridSimulator simulator(our_rules(HybridMethod::kBlock));
  const Tokens t(kHybridBlock + 1, 1);
  EXPECT_EQ(simulator.request("", std::span(t).first(kHybridBlock), kHybridBlock), 0);
  EXPECT_EQ(simulator.stats().states, 1);
  EXPECT_EQ(simulator.request("", t, kHybridBlock + 1), kHybridBlock);
}

TEST(HybridSimulator, TunesOnceAfterFiveTimesTheLookUpsBeforeTheFirstEviction) {
  HybridOptions options = marconi_rules(HybridMethod::kMarconi);
  options.tuned = true;
  options.capacity = 320;
  HybridSimulator simulator(options);
  for (int32_t i = 0; i < 19; ++i) simulator.request("", Tokens{i, i}, 2);
  EXPECT_EQ(simulator.stats().window, 0);
  simulator.request("", Tokens{20, 20}, 2);
  EXPECT_EQ(simulator.stats().window, 20);
  EXPECT_EQ(simulator.stats().alpha, 0) << "the smallest wins ties";
}

// f(tokens) for popular prompts among many that come once: counting uses pays.
template <typename F>
void popular_prompts(const F& f) {
  uint32_t random = 1;
  for (int32_t i = 0; i < 1000; ++i) {
    random = random * 1664525 + 1013904223;
    const auto popular = static_cast<int32_t>((random >> 16) % 12);
    Tokens t(60, i % 3 == 0 ? popular : 100 + i);
    t.push_back(1000 + i);
    f(t);
  }
}

TEST(HybridSimulator, AutoTakesWhatSavesMost) {
  HybridOptions options = our_rules(HybridMethod::kAuto, 1500);
  HybridSimulator simulator(options);
  EXPECT_EQ(simulator.stats().method, HybridMethod::kGds);
  popular_prompts([&](const Tokens& t) { simulator.request("", t, 61); });
  EXPECT_EQ(simulator.stats().method, HybridMethod::kGdsf);
  EXPECT_LE(simulator.stats().peak_bytes, 1500);
}

// What an engine with cache_policy=auto does.
TEST(PolicyGhosts, BeginWithGdsAndFollowWhatSavesMost) {
  PolicyGhosts ghosts(our_rules(HybridMethod::kAuto, 1500).cost, 1500);
  std::vector<PolicyGhosts::Choice> followed;
  popular_prompts([&](const Tokens& t) { followed.push_back(ghosts.follow(0, t, 61)); });
  for (size_t i = 0; i < 99; ++i) ASSERT_EQ(followed[i].policy, PolicyGhosts::kFirst);
  EXPECT_EQ(PolicyGhosts::kFirst, Policy::kGds);
  EXPECT_EQ(followed.back().policy, Policy::kGdsf);
}

// Spread over requests or all at once: the same alpha. Long prompts come back after many short ones
// that do not: what saves most for its room should stay.
TEST(PolicyGhosts, TuneMarconiALittleWithEachRequest) {
  HybridOptions options = our_rules(HybridMethod::kMarconi, 1500);
  options.tuned = true;
  options.admission.prompt = true;
  HybridSimulator at_once(options);
  PolicyGhosts ghosts(options.cost, 1500, {}, Policy::kMarconi);
  int64_t tuned_at = 0;
  for (int32_t i = 1; i <= 200; ++i) {
    Tokens t(i % 10 == 0 ? 400 : 2, i % 10 == 0 ? 1 : 100 + i);
    t.insert(t.end(), 3, 1000 + i);
    const auto prompt = static_cast<int64_t>(t.size()) - 1;
    at_once.request("0", t, prompt);
    const PolicyGhosts::Choice now = ghosts.follow(0, t, prompt);
    EXPECT_EQ(now.policy, Policy::kMarconi);
    if (tuned_at == 0 && now.alpha > 0) tuned_at = i;
    if (tuned_at > 0) {
      EXPECT_EQ(now.alpha, at_once.stats().alpha);
    }
  }
  EXPECT_GT(at_once.stats().alpha, 0);
  const int64_t window = at_once.stats().window;
  EXPECT_EQ(tuned_at, window + (window + 7) / 8 - 1);
}

// What does not fit into memory is not recorded: alpha is tuned by what is there.
TEST(HybridSimulator, TunesByWhatItHasRoomFor) {
  HybridOptions options = our_rules(HybridMethod::kMarconi, 1500);
  options.tuned = true;
  for (const auto& [room, window] : {std::pair{45 * 61, 46}, {61, 0}}) {
    options.tune_tokens = room;
    HybridSimulator simulator(options);
    popular_prompts([&](const Tokens& t) { simulator.request("", t, 61); });
    EXPECT_EQ(simulator.stats().window, window) << room;
  }
}

// With a policy of its own the cache has from them where states are worth it.
TEST(PolicyGhosts, PlaceStatesWhereRequestsParted) {
  HybridAdmission admission;
  admission.placed = 1;
  PolicyGhosts ghosts(our_rules(HybridMethod::kAuto, 0).cost, 0, admission, Policy::kFifo);
  EXPECT_EQ(ghosts.place(0, 100), std::vector<int64_t>{});
  Tokens document(100);
  for (int i = 0; i < 10; ++i) {  // questions of 10 tokens about the same text
    Tokens tokens = document;
    for (int k = 0; k < 12; ++k) tokens.push_back(100 * i + k);
    EXPECT_EQ(ghosts.follow(0, tokens, 110).policy, Policy::kFifo);
  }
  EXPECT_EQ(ghosts.place(0, 500), std::vector<int64_t>{490});
  EXPECT_EQ(ghosts.place(495, 500), std::vector<int64_t>{}) << "before where it begins";
}

}  // namespace
}  // namespace prefix
