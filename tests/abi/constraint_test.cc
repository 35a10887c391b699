// Constraints: functions of the program that say which tokens may come, and handles like others.
#include <atomic>
#include <thread>

#include "abi_support.h"

namespace prefix_abi {
namespace {

// Tokens come one after the other, from `first` on.
struct Counting {
  static int32_t begin(void* user, void** state) {
    auto* const counting = static_cast<Counting*>(user);
    ++counting->begun;
    *state = new State{counting, counting->first};
    return 0;
  }
  static int32_t allow(void* state, uint32_t* mask, size_t words) {
    const State& s = *static_cast<State*>(state);
    EXPECT_EQ(words, 5u);  // of 131 tokens
    for (size_t i = 0; i < words; ++i) EXPECT_EQ(mask[i], 0u);
    mask[s.next / 32] |= uint32_t{1} << (s.next % 32);
    return 0;
  }
  static int32_t accept(void* state, prefix_token token) {
    State& s = *static_cast<State*>(state);
    EXPECT_EQ(token, s.next);
    ++s.next;
    return s.owner->answer;
  }
  static void end(void* state) {
    ++static_cast<State*>(state)->owner->ended;
    delete static_cast<State*>(state);
  }
  static void release(void* user) { ++static_cast<Counting*>(user)->released; }

  Constraint make() {
    prefix_constraint_calls calls = PREFIX_CONSTRAINT_CALLS_INIT;
    calls.begin = begin;
    calls.allow = allow;
    calls.accept = accept;
    calls.end = end;
    calls.release = release;
    return make_constraint(calls, this);
  }

  struct State {
    Counting* owner;
    prefix_token next;
  };
  prefix_token first = 60;
  std::atomic<int32_t> answer{0};
  std::atomic<int> begun{0}, ended{0}, released{0};
};

void constrain(prefix_batch* batch, size_t index, prefix_constraint* constraint) {
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_batch_constrain(batch, index, constraint, e); });
}

Tokens generated_by(const prefix_job* job, size_t index) {
  Tokens tokens(16);
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_tokens(job, index, tokens.data(), tokens.size(), &needed, e);
  });
  tokens.resize(needed);
  return tokens;
}

class Constraints : public testing::Test {
 protected:
  Counting counting, other;  // before the batch, which may be the last to have a constraint of them
  Engine engine = make_engine();
  Options four = make_options({{"max_tokens", "4"}, {"ignore_eos", "true"}});
  Batch batch = make_batch(engine);
};

TEST_F(Constraints, ServeTheRequestsThatHaveThemAndEachRunAnew) {
  const Constraint constraint = counting.make();
  for (int i = 0; i < 3; ++i) add_generate(batch, {1, 2, 3}, four);
  constrain(batch, 0, constraint);
  constrain(batch, 2, constraint);
  const Tokens wanted = {60, 61, 62, 63};
  for (int round = 1; round < 3; ++round) {
    const Job job = run(engine, batch);
    EXPECT_EQ(generated_by(job, 0), wanted);
    EXPECT_NE(generated_by(job, 1), wanted);
    EXPECT_EQ(generated_by(job, 2), wanted);
    EXPECT_EQ(counting.begun, 2 * round);
    EXPECT_EQ(counting.ended, 2 * round);
  }
  constrain(batch, 0, nullptr);
  const Job job = run(engine, batch);
  EXPECT_EQ(generated_by(job, 0), generated_by(job, 1));
  EXPECT_EQ(generated_by(job, 2), wanted);
  EXPECT_EQ(counting.begun, 5);
}

TEST_F(Constraints, LiveAsLongAsABatchHasThem) {
  add_generate(batch, {1, 2, 3}, four);
  {
    const Constraint constraint = counting.make();
    constrain(batch, 0, constraint);
  }
  EXPECT_EQ(generated_by(run(engine, batch), 0).front(), 60);
  EXPECT_EQ(counting.released, 0);
  {
    const Constraint constraint = other.make();
    constrain(batch, 0, constraint);
  }
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
  EXPECT_EQ(counting.released, 1) << "it was taken away, and no request is left";
  EXPECT_EQ(other.released, 0);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_clear(batch, e); });
  EXPECT_EQ(other.released, 1);
}

TEST_F(Constraints, LiveAsLongAsAJobHasThem) {
  add_generate(batch, {1, 2, 3}, four);
  {
    const Constraint constraint = counting.make();
    constrain(batch, 0, constraint);
  }
  {
    const Job job = run(engine, batch);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_clear(batch, e); });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
    EXPECT_EQ(counting.released, 0);
    EXPECT_EQ(generated_by(job, 0).front(), 60);
  }
  EXPECT_EQ(counting.released, 1);
}

TEST_F(Constraints, AreOfRequestsThatGenerate) {
  const Constraint constraint = counting.make();
  add_logits(batch, {1, 2});
  add_generate(batch, {1, 2, 3}, four);
  for (const size_t index : {size_t{2}, PREFIX_NUL})
    expect(PREFIX_ERR_OUT_OF_RANGE,
           [&](prefix_error* e) { return prefix_batch_constrain(batch, index, constraint, e); },
           {"request", "the batch has 2"});
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_batch_constrain(batch, 0, constraint, e); },
         {"request 0 does not generate"});
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
    return prefix_batch_constrain(batch, 1, reinterpret_cast<prefix_constraint*>(&counting), e);
  });
  run(engine, batch);
  EXPECT_EQ(counting.begun, 0);
}

TEST_F(Constraints, AnAnswerThatIsNotZeroEndsTheRequest) {
  counting.answer = 42;
  const Constraint constraint = counting.make();
  for (int i = 0; i < 2; ++i) add_generate(batch, {1, 2, 3}, four);
  constrain(batch, 1, constraint);
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_OK);
  EXPECT_EQ(info_of(job, 1).status, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(message_of(job, 1),
            "the constraint's accept answered 42 for token 1 of the generation");
  expect_no_arrays(job, 1, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(counting.ended, 1);
  expect_works(engine);
}

TEST_F(Constraints, AreMadeOfAllTheirCallsOrNotAtAll) {
  prefix_constraint_calls calls = kAnyToken;
  calls.release = Counting::release;
  prefix_constraint* made = nullptr;
  const auto refused = [&](prefix_status wanted, std::initializer_list<std::string_view> parts) {
    expect(
        wanted,
        [&](prefix_error* e) { return prefix_constraint_create(&calls, &counting, &made, e); },
        parts);
    EXPECT_EQ(made, nullptr);
  };
  for (const int32_t size : {-1, 0, 8, static_cast<int32_t>(sizeof(calls)) - 1}) {
    calls.struct_size = size;
    refused(PREFIX_ERR_STRUCT_TOO_OLD, {std::to_string(size)});
  }
  calls = kAnyToken;
  calls.begin = nullptr;
  refused(PREFIX_ERR_INVALID_ARGUMENT, {"begin is NULL"});
  calls = kAnyToken;
  calls.allow = nullptr;
  refused(PREFIX_ERR_INVALID_ARGUMENT, {"allow is NULL"});
  calls = kAnyToken;
  calls.accept = nullptr;
  refused(PREFIX_ERR_INVALID_ARGUMENT, {"accept is NULL"});
  calls = kAnyToken;
  calls.end = nullptr;
  refused(PREFIX_ERR_INVALID_ARGUMENT, {"end is NULL"});
  EXPECT_EQ(counting.released, 0);
  // Of a program whose header knows more of them, and without a release.
  struct {
    prefix_constraint_calls known = kAnyToken;
    void* more[4] = {};
  } grown;
  grown.known.struct_size = sizeof(grown);
  const Constraint constraint = make_constraint(grown.known);
  add_generate(batch, {1, 2, 3}, four);
  constrain(batch, 0, constraint);
  EXPECT_EQ(generated_by(run(engine, batch), 0).size(), 4u);
}

// Two engines call it from their threads, for many requests.
TEST_F(Constraints, ServeSeveralEnginesAtOnce) {
  {
    const Constraint constraint = counting.make();
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        const Engine own = make_engine();
        const Batch many = make_batch(own);
        for (int i = 0; i < 40; ++i) {
          add_generate(many, {1, 2, i}, four);
          constrain(many, static_cast<size_t>(i), constraint);
        }
        const Job job = run(own, many);
        for (size_t i = 0; i < 40; ++i)
          EXPECT_EQ(generated_by(job, i), (Tokens{60, 61, 62, 63})) << message_of(job, i);
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(counting.begun, 80);
  EXPECT_EQ(counting.ended, 80);
  EXPECT_EQ(counting.released, 1);
}

}  // namespace
}  // namespace prefix_abi
