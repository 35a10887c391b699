// States of recurrent layers as the owner of the cache sees them: lookups, pins, events, and which
// states stay.
#include <gtest/gtest.h>

#include "event_router.h"
#include "state_cache_fixture.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using namespace testing_support;

// The last token of a text that is only scored is computed where the state behind it is to stay.
TEST_P(StateCache, AScoredTextHasAStateAtItsEndWhereThatIsAskedFor) {
  RequestSpec scores = logits_of(text(50));
  scores.task = Task::kLogprobs;
  scores.from = 1;
  const Tokens longer = joined(scores.tokens, text(3));
  run(*engine, scores);
  EXPECT_LT(cached(*engine, longer), 50);
  const auto asked = open();
  EXPECT_TRUE(same_bits(run(*asked, with_checkpoints(scores, {50})), cold(scores)));
  EXPECT_EQ(cached(*asked, longer), 50);
  const auto before = open();
  run(*before, with_checkpoints(scores, {30}));
  EXPECT_LT(cached(*before, longer), 50);
}

INSTANTIATE_TEST_SUITE_P(Families, StateCache,
                         testing::Values("granite", "qwen", "nemotron", "lfm2"),
                         [](const auto& family) { return family.param; });

// --- lookups and pins ---------------------------------------------------------------------------

TEST_P(StateCache, ALookUpTellsWhatARequestGoesOnFrom) {
  const Tokens prompt = text(50);
  EXPECT_EQ(cached(*engine, prompt), 0);
  const RequestResult r = run(*engine, generation(prompt, 9));
  const Tokens all = joined(prompt, r.tokens);
  EXPECT_EQ(cached(*engine, prompt), 49);  // in front of the last token of the prompt
  EXPECT_EQ(cached(*engine, first_tokens(prompt, 48)), 0);  // there are only keys and values
  EXPECT_EQ(cached(*engine, all), 58);                      // the last token was not run
  EXPECT_EQ(cached(*engine, first_tokens(all, 57)), 49);
  const Tokens next = joined(all, text(10));
  EXPECT_EQ(cached(*engine, next), 58);
  EXPECT_EQ(look_up(*engine, next).pending_tokens, 0);
  EXPECT_EQ(run(*engine, logits_of(next)).usage.cached, 58);
}

TEST_P(StateCache, APinKeepsTheStateToo) {
  const auto small = open_small(5);
  const Tokens kept = text(40);
  run(*small, warm(kept));
  const CachePin pin = small->cache_pin(0, joined(kept, text(9)).data(), 49, 0);
  EXPECT_EQ(pin.tokens, 40);
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(run(*small, generation(text(30), 4)).status, Code::kOk) << i;
  EXPECT_GT(small->stats().state_evictions, 0);
  EXPECT_EQ(cached(*small, kept), 40);
  small->cache_trim(0);
  small->check();
  EXPECT_EQ(cached(*small, kept), 40);
  EXPECT_EQ(small->stats().states, 1);
  small->cache_unpin(pin.lease);
  EXPECT_EQ(cached(*small, kept), 40);
  small->cache_trim(0);
  small->check();
  EXPECT_EQ(small->stats().states, 0);
}

TEST_P(StateCache, APinEndsAtTheState) {
  const Tokens prompt = text(60);
  run(*engine, generation(prompt, 3));
  EXPECT_EQ(engine->cache_pin(0, prompt.data(), 60, 0).tokens, 59);
  testing_support::expect_error(Code::kNotFound, {"nothing of these 58 tokens is cached"},
                                [&] { engine->cache_pin(0, prompt.data(), 58, 0); });
}

// The one who needs memory for a state may take those of others, not one that a lease keeps.
TEST_P(StateCache, WhatIsPinnedIsNotTakenByAStepWithoutMemory) {
  const auto small = open_small(3, "8");
  const Tokens kept = text(40);
  run(*small, warm(kept));
  const CachePin pin = small->cache_pin(0, kept.data(), kept.size(), 0);
  for (int round = 0; round < 12; ++round) {
    std::vector<RequestSpec> batch;
    for (int i = 0; i < 8; ++i) {
      const Tokens tokens = joined(kept, text(1 + random() % 40));
      batch.push_back(i % 3 == 0 ? generation(tokens, 4) : logits_of(tokens));
    }
    const auto job = run_all(*small, batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      ASSERT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
      EXPECT_TRUE(same_bits(job->result(i), cold(batch[i])));
    }
    EXPECT_EQ(cached(*small, kept), 40);
    small->check();
  }
  small->cache_unpin(pin.lease);
}

// --- memory --------------------------------------------------------------------------------------

// One of its own beside that of the engine: what can never be is told when it is submitted.
TEST_P(StateCache, AGenerationWithoutRoomForTwoStatesIsRefusedWithBothNumbers) {
  const int64_t page = page_bytes(), states = 2 * state_pages();
  const RequestSpec spec = generation(text(40), 5);
  const RequestResult expected = cold(spec);
  const int64_t needed = states + 2 + 3;  // for its prompt, and to grow
  for (int64_t pages = state_pages() + 1; pages <= needed + 1; ++pages) {
    const auto e = open({{"cache_bytes", std::to_string(pages * page)}});
    const bool warned = e->info_json().find("cannot generate") != std::string::npos;
    EXPECT_EQ(warned, pages < states + 1 + 3) << pages;
    const RequestResult r = run(*e, spec);
    if (pages >= needed) {
      EXPECT_TRUE(same_bits(r, expected)) << r.message;
    } else {
      EXPECT_EQ(r.status, Code::kCacheFull);
      EXPECT_EQ(r.message, cat("a generation of 5 tokens from 40 needs ", needed * page,
                               " bytes, of which two states take ", states * page,
                               "; cache_bytes holds ", pages * page));
    }
    EXPECT_EQ(run(*e, logits_of(text(20))).status, Code::kOk);
  }
}

// A cache with hardly any room for states: sequences take them from each other, and the step goes
// to those that decode first. All the same every request ends.
TEST_P(StateCache, EverySequenceGetsOnWithHardlyAnyStates) {
  for (uint32_t seed = 0; seed < static_cast<uint32_t>(quick() ? 4 : 40); ++seed) {
    SCOPED_TRACE(seed);
    random.seed(seed);
    const auto small = open_small(2 + seed % 4, "17");
    for (int round = 0; round < 2; ++round) {
      const Tokens shared = text(120);
      std::vector<RequestSpec> requests;
      for (int i = 0; i < 4; ++i) {
        Tokens tokens = joined(first_tokens(shared, 20 + random() % 90), text(1 + random() % 40));
        requests.push_back(i % 4 == 0   ? warm(tokens)
                           : i % 4 == 1 ? logits_of(tokens)
                           : i % 4 == 2 ? generation(tokens, 8)
                                        : generation(first_tokens(shared, 30 + random() % 20), 8));
      }
      const auto job = run_all(*small, requests);
      for (size_t i = 0; i < requests.size(); ++i) {
        const Code status = job->result(i).status;
        EXPECT_TRUE(status == Code::kOk || status == Code::kCacheFull) << job->result(i).message;
      }
      small->check();
    }
  }
}

// --- events --------------------------------------------------------------------------------------

TEST_P(StateCache, EventsTellNoMoreThanRequestsCanGoOnFrom) {
  const auto watched = open({{"cache_events", "10000"}});
  EventRouter router(32);
  int64_t next = 0;
  const auto known = [&](const Tokens& tokens) {
    for (; next < watched->dump_events().next; ++next) {
      const std::string wrong = router.apply(watched->read_event(next));
      EXPECT_EQ(wrong, "") << "event " << next;
    }
    return router.cached(0, tokens);
  };
  const Tokens prompt = text(100);
  run(*watched, logits_of(prompt));  // a leaf leaves keys and values, and no state
  EXPECT_EQ(known(prompt), 0);
  EXPECT_EQ(cached(*watched, prompt), 0);
  const Tokens shorter = first_tokens(prompt, 70);
  run(*watched, warm(shorter));
  EXPECT_EQ(known(prompt), 64);
  EXPECT_EQ(cached(*watched, prompt), 70);
  const Tokens next_turn = joined(prompt, run(*watched, generation(prompt, 60)).tokens);
  EXPECT_EQ(cached(*watched, next_turn), 159);
  EXPECT_EQ(known(next_turn), 128);
  watched->cache_trim(0);
  EXPECT_EQ(known(next_turn), 0);
  EXPECT_EQ(watched->dump_events().blocks.size(), 0u);
}

// --- checkpoints ---------------------------------------------------------------------------------

TEST_P(StateCache, ACheckpointIsWhereOthersGoOn) {
  for (const char* rows : {"512", "7"}) {
    const auto e = open({{"rows", rows}});
    const Tokens prompt = text(60);
    const RequestSpec first = with_checkpoints(logits_of(prompt), {20, 37, 60});
    EXPECT_TRUE(same_bits(run(*e, first), cold(logits_of(prompt))));
    EXPECT_EQ(e->stats().states, 3);
    for (const auto& [shared, expected] : {std::pair{20, 20}, {36, 20}, {45, 37}, {60, 60}}) {
      const Tokens tokens = joined(first_tokens(prompt, static_cast<size_t>(shared)), text(9));
      EXPECT_EQ(cached(*e, tokens), expected);
      const RequestResult r = run(*e, logits_of(tokens));
      EXPECT_EQ(r.usage.cached, expected);
      EXPECT_TRUE(same_bits(r, cold(logits_of(tokens))));
    }
  }
}

// The first only moves its state on from there.
TEST_P(StateCache, OfTwoThatEndAStepAtAPlaceOneKeepsIt) {
  const auto e = open({{"rows", "20"}});
  const Tokens longer = text(60);
  const Tokens kept = joined(first_tokens(longer, 20), text(9));
  run_all(*e, {logits_of(longer), with_checkpoints(logits_of(kept), {20})});
  EXPECT_EQ(cached(*e, joined(first_tokens(longer, 20), text(5))), 20);
}

TEST_P(StateCache, EveryKindOfRequestTakesCheckpoints) {
  const auto check = [&](RequestSpec spec, size_t limit) {
    const RequestSpec with = with_checkpoints(spec, {10, 30});
    EXPECT_TRUE(same_bits(run(*engine, with), cold(spec)));
    EXPECT_EQ(cached(*engine, first_tokens(spec.tokens, 28)), 10);
    EXPECT_EQ(cached(*engine, first_tokens(spec.tokens, limit)), 30);
  };
  check(generation(text(30), 5), 30);  // not only in front of its last token
  check(generation(text(50), 5), 48);
  check(warm(text(50)), 49);
  RequestSpec choices;
  choices.task = Task::kChoices;
  choices.tokens = text(50);
  choices.choices = {text(3), text(4)};
  check(choices, 49);
}

TEST_P(StateCache, ACheckpointBeforeTheStateThatARequestGoesOnFromIsNotComputed) {
  const Tokens prompt = text(40);
  run(*engine, warm(prompt));
  const RequestResult r =
      run(*engine, with_checkpoints(logits_of(joined(prompt, text(9))), {20, 45}));
  EXPECT_EQ(r.usage.cached, 40);
  EXPECT_EQ(cached(*engine, first_tokens(prompt, 39)), 0);
  EXPECT_EQ(engine->stats().states, 2);
}

TEST_P(StateCache, ACheckpointThatCannotBeFailsAlone) {
  const Tokens prompt = text(60);
  const std::vector<std::pair<Tokens, const char*>> wrong = {
      {{5, 5}, "checkpoint[1] is 5; it must be above 5, the one before it"},
      {{5, 9, 8}, "checkpoint[2] is 8; it must be above 9, the one before it"},
      {{0}, "checkpoint[0] is 0; it must be above 0"},
      {{60, 61}, "checkpoint[1] is 61; the prompt has 60 tokens"}};
  std::vector<RequestSpec> batch = {with_checkpoints(logits_of(prompt), {1, 60})};
  for (const auto& [positions, message] : wrong)
    batch.push_back(with_checkpoints(logits_of(prompt), positions));
  const auto job = run_all(*engine, batch);
  EXPECT_EQ(job->result(0).status, Code::kOk);
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(job->result(i + 1).status, Code::kInvalidArgument);
    EXPECT_EQ(job->result(i + 1).message, wrong[i].second);
  }
  EXPECT_EQ(engine->stats().states, 2);
}

TEST(Checkpoints, OfAModelWithoutRecurrentLayersChangeNothing) {
  const TinyCheckpoint checkpoint;
  const auto engine = make_engine(checkpoint, {{"threads", "1"}});
  const RequestSpec spec = with_checkpoints(logits_of({1, 2, 3, 4}), {2});
  EXPECT_EQ(run_all(*engine, {spec})->result(0).status, Code::kOk);
  EXPECT_EQ(engine->stats().states, 0);
}

TEST_P(StateCache, APathKeepsTheDeepestOfItsStates) {
  const auto e = open({{"cache_path_states", "2"}});
  Tokens turn = text(20);
  std::vector<int64_t> ends;
  for (int i = 0; i < 5; ++i) {
    turn = joined(turn, run(*e, generation(turn, 4)).tokens);
    ends.push_back(static_cast<int64_t>(turn.size()) - 1);
    EXPECT_EQ(cached(*e, turn), ends.back());
    turn = joined(turn, text(8));
  }
  EXPECT_EQ(e->stats().states, 2);
  EXPECT_EQ(e->stats().state_evictions, 0) << "nothing made room";
  EXPECT_EQ(cached(*e, first_tokens(turn, 50)), 0);
  // A fork keeps its state, and counts.
  const auto fork = static_cast<size_t>(ends.back());
  run(*e, logits_of(joined(first_tokens(turn, fork), text(9))));
  for (int i = 0; i < 3; ++i)
    turn = joined(joined(turn, run(*e, generation(turn, 4)).tokens), text(8));
  EXPECT_EQ(cached(*e, first_tokens(turn, fork)), ends.back());
  EXPECT_EQ(e->stats().states, 2);
}

// Neither what a caller named nor what was warmed is lost to those behind it, nor counts with them.
TEST_P(StateCache, APathKeepsAllStatesThatWereAskedFor) {
  const auto e = open({{"cache_path_states", "1"}});
  const Tokens prompt = text(60);
  run(*e, with_checkpoints(warm(prompt), {10, 20, 30}));
  EXPECT_EQ(e->stats().states, 4);
  Tokens turn = joined(prompt, text(5));
  for (int i = 0; i < 3; ++i)
    turn = joined(joined(turn, run(*e, generation(turn, 4)).tokens), text(8));
  EXPECT_EQ(e->stats().states, 5);
  for (const size_t at : {10u, 20u, 30u, 60u})
    EXPECT_EQ(cached(*e, first_tokens(turn, at)), static_cast<int64_t>(at));
  // Also one that was there before it was asked for.
  const auto end = static_cast<size_t>(cached(*e, turn));
  run(*e, with_checkpoints(logits_of(turn), {static_cast<int32_t>(end)}));
  for (int i = 0; i < 3; ++i)
    turn = joined(joined(turn, run(*e, generation(turn, 4)).tokens), text(8));
  EXPECT_EQ(cached(*e, first_tokens(turn, end)), static_cast<int64_t>(end));
  EXPECT_EQ(e->stats().states, 6);
}

TEST_P(StateCache, TheStatesOfOneStepStayInTheQuota) {
  const int32_t space = engine->open_namespace("tenant");
  engine->set_cache_limits(space, 0, (2 + 2 * state_pages()) * page_bytes());
  RequestSpec spec = with_checkpoints(warm(text(60)), {10, 20, 30, 40, 50});
  spec.name_space = space;
  EXPECT_EQ(run(*engine, spec).status, Code::kOk);
  EXPECT_EQ(engine->stats().states, 2);
}

// What ends in one step has states that nobody made room for.
TEST_P(StateCache, TheStatesOfGenerationsThatEndStayInTheQuota) {
  const int32_t space = engine->open_namespace("tenant");
  const int64_t quota = (20 + 2 * state_pages()) * page_bytes();
  engine->set_cache_limits(space, 0, quota);
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 8; ++i) batch.push_back(generation(text(20), 4));
  for (RequestSpec& spec : batch) spec.name_space = space;
  const auto job = run_all(*engine, batch);
  for (size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(job->result(i).status, Code::kOk);
  const int64_t states = engine->stats().states;
  EXPECT_LE(
      engine->cache_usage(space).tokens * page_bytes() / 32 + states * state_pages() * page_bytes(),
      quota);
  EXPECT_GT(states, 0);
}

// Two that begin alike, one in front of the third and one behind it, which begins otherwise: it
// must not take the state that the first one continues from.
TEST_P(StateCache, NobodyTakesTheStateOfASequenceInFront) {
  const Tokens first = text(60), other = text(60),
               behind = joined(first_tokens(first, 30), text(30));
  for (int64_t pages = state_pages() + 6; pages < 2 * state_pages() + 9; ++pages) {
    const auto e = open({{"cache_bytes", std::to_string(pages * page_bytes())}, {"rows", "1"}});
    const auto a = e->submit({logits_of(first)});
    const auto b = e->submit({logits_of(other), logits_of(behind)});
    a->wait(-1);
    b->wait(-1);
    EXPECT_LT(e->stats().steps, 1000) << pages;
  }
}

// Who has all rows may take the state of who gets none, though that one came first.
TEST_P(StateCache, AHigherPriorityGetsOnWithoutMemory) {
  for (int64_t pages = state_pages() + 9; pages < 2 * state_pages() + 14; ++pages) {
    const auto e = open({{"cache_bytes", std::to_string(pages * page_bytes())}, {"rows", "8"}});
    const auto low = e->submit({logits_of(text(60))});
    low->next_event(-1);
    RequestSpec spec = logits_of(text(240));
    spec.priority = 1;
    const auto high = e->submit({spec});
    EXPECT_TRUE(high->wait(120000)) << pages;
    EXPECT_TRUE(low->wait(120000)) << pages;
  }
}

// A pin of a prompt that runs: the memory that is set aside for the states of
// all does not become the lease's.
TEST_P(StateCache, APinOfARunningPromptHoldsNobodyUp) {
  for (int64_t pages = state_pages() + 9; pages < 2 * state_pages() + 14; ++pages) {
    const auto e = open({{"cache_bytes", std::to_string(pages * page_bytes())}, {"rows", "4"}});
    const Tokens first = text(90), second = text(90);
    const auto a = e->submit({logits_of(first)}), b = e->submit({logits_of(second)});
    bool pinned = false;
    while (!pinned && !(a->done() && b->done()))
      for (const Tokens& tokens : {first, second}) {
        try {
          e->cache_pin(0, tokens.data(), tokens.size(), 0);
          pinned = true;
        } catch (const Error&) {  // not yet
        }
      }
    EXPECT_TRUE(a->wait(120000)) << pages;
    EXPECT_TRUE(b->wait(120000)) << pages;
  }
}

// Two questions about a document show where questions part: those about the next one find a state.
TEST_P(StateCache, StatesArePlacedWhereLaterRequestsArePart) {
  for (const auto& [states, policy, expected] :
       {std::tuple{"ends", "auto", 0}, {"placed", "auto", 2000}, {"placed", "lru", 2000}}) {
    const auto e = open({{"cache_states", states}, {"cache_policy", policy}});
    for (const bool second_document : {false, true}) {
      const Tokens document = text(2000);
      run(*e, generation(joined(document, text(10)), 3));
      const RequestSpec question = generation(joined(document, text(10)), 3);
      const RequestResult r = run(*e, question);
      EXPECT_EQ(r.usage.cached, second_document ? expected : 0) << states << ", " << policy;
    }
  }
}

// Any policy keeps the budget and the bits. Over the 300 requests marconi is tuned, too.
TEST_P(StateCache, UnderEveryPolicyTheBudgetAndTheBitsAreTheSame) {
  std::vector<Tokens> documents;
  for (int i = 0; i < 6; ++i) documents.push_back(text(20 + 10 * static_cast<size_t>(i)));
  std::vector<RequestSpec> questions;
  std::vector<RequestResult> expected;
  for (int i = 0; i < 12; ++i) {
    questions.push_back(generation(joined(documents[static_cast<size_t>(i % 6)], text(5)), 3));
    expected.push_back(cold(questions.back()));
  }
  for (const char* policy : {"auto", "lru", "gds", "gdsf", "marconi"}) {
    const int64_t bytes = (5 * state_pages() + 8) * page_bytes();
    const auto e = open({{"cache_policy", policy}, {"cache_bytes", std::to_string(bytes)}});
    int64_t hits = 0;
    for (int i = 0; i < 300; ++i) {
      const auto which = random() % (random() % questions.size() + 1);  // some are popular
      const RequestResult r = run(*e, questions[which]);
      ASSERT_TRUE(same_bits(r, expected[which])) << policy << ": " << r.message;
      ASSERT_LE(e->stats().kv_bytes, bytes) << policy;
      hits += r.usage.cached > 0;
    }
    EXPECT_GT(e->stats().state_evictions, 0) << policy;
    EXPECT_GT(hits, 0) << policy;
  }
}

}  // namespace
}  // namespace prefix
