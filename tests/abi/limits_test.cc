// What runs out: cache, queue, time and patience. Each is a status of its own, and none is the end.
#include <cmath>
#include <limits>

#include "abi_support.h"

namespace prefix_abi {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

// A request that takes thousands of steps.
Options endless() {
  return make_options({{"max_tokens", "4000"}, {"ignore_eos", "true"}, {"temperature", "1"}});
}

// In an engine with this much room they run side by side for many seconds, however late a thread
// looks whether they still do; with less, some wait until others are done.
constexpr int kMany = 100;
constexpr const char* kRoom = "400M";

Job start_endless(prefix_engine* engine, int requests = kMany) {
  const Batch batch = make_batch(engine);
  const Options options = endless();
  for (int i = 0; i < requests; ++i) add_generate(batch, {1, 2, i}, options, i);
  return submit(engine, batch);
}

void wait_for_a_token(const prefix_job* job) {
  prefix_event event = PREFIX_EVENT_INIT;
  do {
    ASSERT_EQ(prefix_job_next_event(const_cast<prefix_job*>(job), -1, &event, nullptr), PREFIX_OK);
  } while (event.kind != PREFIX_EVENT_TOKEN);
}

size_t finished_count(const prefix_job* job) {
  size_t count = PREFIX_NUL;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_finished_count(job, &count, e); });
  return count;
}

TEST(Limits, ACacheTooSmallForOnePageIsRefusedAtLoad) {
  const Options options = make_options({{"cache_bytes", "1"}});
  Engine engine;
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
         },
         {"cache_bytes", "1"});
  prefix_memory memory{};
  memory.struct_size = sizeof(memory);
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, options, &memory, e);
         },
         {"cache_bytes", "1"});
}

// A cache of a few pages: short requests run, one that can never fit says so, and both go on.
TEST(Limits, ARequestThatTheCacheCannotHoldFailsAlone) {
  prefix_memory memory{};
  memory.struct_size = sizeof(memory);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, nullptr, &memory, e);
  });
  const std::string bytes = std::to_string(memory.kv_bytes_per_token * 64);
  const Engine engine = make_engine({{"cache_bytes", bytes.c_str()}});
  const int64_t capacity = stats_of(engine).pages_total * stats_of(engine).page_tokens;
  ASSERT_GE(capacity, 16);
  ASSERT_LE(capacity, 64);
  const Tokens too_long(static_cast<size_t>(capacity) + 1, 5);
  const Options many = make_options({{"max_tokens", "1000"}});
  for (int round = 0; round < 3; ++round) {
    const Batch batch = make_batch(engine);
    add_logits(batch, {1, 2, 3});
    add_logits(batch, too_long);
    add_generate(batch, {1, 2}, many);
    add_logits(batch, {4, 5, 6});
    const Job job = run(engine, batch);
    EXPECT_EQ(info_of(job, 0).status, PREFIX_OK) << message_of(job, 0);
    EXPECT_EQ(info_of(job, 1).status, PREFIX_ERR_CACHE_FULL) << message_of(job, 1);
    EXPECT_EQ(info_of(job, 2).status, PREFIX_ERR_CACHE_FULL) << message_of(job, 2);
    EXPECT_EQ(info_of(job, 3).status, PREFIX_OK) << message_of(job, 3);
    EXPECT_NE(message_of(job, 1).find("cache_bytes"), std::string::npos) << message_of(job, 1);
    EXPECT_NE(message_of(job, 2).find("1000"), std::string::npos) << message_of(job, 2);
  }
}

TEST(Limits, AFullQueueIsToldAtOnceAndCanBeTriedAgain) {
  const Engine engine = make_engine({{"queue_limit", "100"}, {"cache_bytes", kRoom}});
  const Batch more = make_batch(engine), one = make_batch(engine);
  for (int i = 0; i < kMany + 1; ++i) add_logits(more, {1, i});
  add_logits(one, {7});
  Job none;
  for (int round = 0; round < 20; ++round) {
    expect(PREFIX_ERR_QUEUE_FULL,
           [&](prefix_error* e) { return prefix_submit(engine, more, none.out(), e); },
           {"101", "100", "queue_limit"});
    expect(PREFIX_ERR_QUEUE_FULL,
           [&](prefix_error* e) { return prefix_run(engine, more, none.out(), e); });
    EXPECT_EQ(none, nullptr);
  }
  EXPECT_EQ(stats_of(engine).requests_failed, 0) << "a call that fails changes nothing";
  const Job busy = start_endless(engine);
  expect(PREFIX_ERR_QUEUE_FULL,
         [&](prefix_error* e) { return prefix_submit(engine, one, none.out(), e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(busy, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(busy, -1, e); });
  EXPECT_EQ(info_of(run(engine, one), 0).status, PREFIX_OK);
}

// What a full queue sends back leaves no trace, not even the name of its namespace.
TEST(Limits, AFullQueueOpensNoNamespace) {
  const Engine engine = make_engine({{"queue_limit", "1"}});
  const Options options = make_options({{"namespace", "unseen"}});
  const Batch batch = make_batch(engine);
  add_logits(batch, {1}, {0}, options);
  add_logits(batch, {2}, {0}, options);
  Job none;
  expect(PREFIX_ERR_QUEUE_FULL,
         [&](prefix_error* e) { return prefix_submit(engine, batch, none.out(), e); });
  int32_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_namespace_count(engine, &count, e); });
  EXPECT_EQ(count, 1);
}

TEST(Limits, DeadlinesEndOnlyTheirRequest) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  const Options hasty = endless();
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set(hasty, "deadline_ms", PREFIX_NUL, "1", PREFIX_NUL, e);
  });
  const Options patient = make_options({{"deadline_ms", "9000000000000000"}});
  for (int i = 0; i < 4; ++i) add_generate(batch, {1, 2, i}, hasty);  // 16,000 tokens in 1 ms
  add_logits(batch, {9, 9}, {0}, patient);
  add_logits(batch, {9, 8}, {0});
  const Job job = run(engine, batch);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(info_of(job, i).status, PREFIX_ERR_DEADLINE) << message_of(job, i);
    EXPECT_EQ(info_of(job, i).finish, PREFIX_FINISH_ERROR);
    EXPECT_NE(message_of(job, i).find("deadline_ms = 1 "), std::string::npos) << message_of(job, i);
  }
  EXPECT_EQ(info_of(job, 4).status, PREFIX_OK) << message_of(job, 4);
  EXPECT_EQ(info_of(job, 5).status, PREFIX_OK) << message_of(job, 5);
  expect_works(engine);
}

// Of several choices, too, the message says which one and which of its tokens.
TEST(Limits, AChoiceThatIsWrongIsNamed) {
  const Engine engine = make_engine({});
  const prefix_token prompt[] = {1, 2};
  const auto message = [&](const Tokens& choices, const std::vector<int64_t>& offsets,
                           prefix_status wanted) {
    const Batch batch = make_batch(engine);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_choices(batch, prompt, 2, choices.data(), choices.size(),
                                      offsets.data(), offsets.size(), nullptr, 0, nullptr, e);
    });
    const Job job = run(engine, batch);
    EXPECT_EQ(info_of(job, 0).status, wanted);
    return message_of(job, 0);
  };
  EXPECT_NE(message({3, 4, 1 << 20}, {0, 1, 3}, PREFIX_ERR_OUT_OF_RANGE)
                .find("choices[1][1] is 1048576, outside the vocabulary of "),
            std::string::npos);
  EXPECT_EQ(message({3}, {0, 1, 1}, PREFIX_ERR_INVALID_ARGUMENT), "choices[1] has no tokens");
  Tokens choices(10'000, 3);
  EXPECT_NE(message(choices, {0, 1, 10'000}, PREFIX_ERR_PROMPT_TOO_LONG)
                .find("the prompt with choices[1] has 10001 tokens; the context holds "),
            std::string::npos);
}

// What was computed of it before is nothing that a caller can use.
TEST(Limits, ARequestThatIsLateHasNoValues) {
  const Engine engine = make_engine({{"rows", "1"}});
  const Tokens tokens(4000, 5);  // as many steps
  for (int64_t deadline = 4; deadline < 3600'000; deadline *= 2) {
    const Options options = make_options({{"deadline_ms", std::to_string(deadline).c_str()}});
    const Batch batch = make_batch(engine);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_logprobs(batch, tokens.data(), tokens.size(), 1, options, 0, nullptr,
                                       e);
    });
    const prefix_token choice[] = {1, 2};
    const int64_t offsets[] = {0, 1, 2};
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_choices(batch, tokens.data(), tokens.size(), choice, 2, offsets, 3,
                                      options, 0, nullptr, e);
    });
    const Job job = run(engine, batch);
    bool begun = true;
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(info_of(job, i).status, PREFIX_ERR_DEADLINE) << message_of(job, i);
      begun = begun && info_of(job, i).prompt_tokens > 0;
      expect_no_arrays(job, i, PREFIX_ERR_DEADLINE);
    }
    std::vector<float> all(4001);  // 3,999 and 2
    size_t needed = 9;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_job_all_values(job, all.data(), all.size(), &needed, nullptr, 0, e);
    });
    EXPECT_EQ(needed, all.size());
    for (const float value : all) EXPECT_TRUE(std::isnan(value));
    if (begun) return;  // else they were late already: the machine has no time
    int64_t freed = 0;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_cache_trim(engine, 0, &freed, e); });
  }
  ADD_FAILURE() << "no request began before its deadline";
}

TEST(Limits, WaitsThatRunOutChangeNothing) {
  const Engine engine = make_engine({{"cache_bytes", kRoom}});
  const Job job = start_endless(engine);
  prefix_event event = PREFIX_EVENT_INIT;
  expect(PREFIX_ERR_TIMEOUT, [&](prefix_error* e) { return prefix_job_wait(job, 0, e); },
         {"of 100", "0 ms"});
  expect(PREFIX_ERR_TIMEOUT, [&](prefix_error* e) { return prefix_job_wait(job, 1, e); });
  prefix_result_info info{};
  info.struct_size = sizeof(info);
  char buf[8];
  float value;
  prefix_token token;
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_job_result_info(job, 0, &info, e); },
         {"0", "not finished"});
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_job_result_message(job, 1, buf, 8, nullptr, e); });
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_job_result_values(job, 2, &value, 1, nullptr, e); });
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_job_result_tokens(job, 3, &token, 1, nullptr, e); });
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
    return prefix_job_result_logprobs(job, 3, &value, 1, nullptr, e);
  });
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
    return prefix_job_all_values(job, &value, 1, nullptr, nullptr, 0, e);
  });
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_job_partial_tokens(job, 3, &token, 1, nullptr, e); });
  size_t index = SIZE_MAX;  // by which a caller tells this from a request that failed
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_job_first_failure(job, &index, e); });
  EXPECT_EQ(index, SIZE_MAX);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, kForever, e); });
  EXPECT_EQ(finished_count(job), size_t{kMany});
  int ends = 0;
  while (prefix_job_next_event(job, kForever, &event, nullptr) == PREFIX_OK)
    ends += event.kind == PREFIX_EVENT_ERROR || event.kind == PREFIX_EVENT_FINISHED;
  EXPECT_EQ(ends, kMany);
}

// The largest wait there is waits; it is not a wait that ran out.
TEST(Limits, TheLongestWaitIsNotTheShortest) {
  const Engine engine = make_engine();
  for (const int64_t timeout : {kForever, kForever - 1, kForever / 1000, kForever / 1000000 + 1}) {
    const Batch batch = make_batch(engine);
    const Options options =
        make_options({{"max_tokens", "100"}, {"ignore_eos", "true"}, {"temperature", "1"}});
    add_generate(batch, {1, 2}, options);
    const Job job = submit(engine, batch);
    prefix_event event = PREFIX_EVENT_INIT;
    expect(PREFIX_OK,
           [&](prefix_error* e) { return prefix_job_next_event(job, timeout, &event, e); });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, timeout, e); });
    EXPECT_EQ(info_of(job, 0).generated_tokens, 100);
  }
}

TEST(Limits, CancelledRequestsKeepWhatTheyHave) {
  const Engine engine = make_engine({{"cache_bytes", kRoom}});
  const Job job = start_endless(engine);
  wait_for_a_token(job);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel_request(job, 2, e); });
  prefix_event event = PREFIX_EVENT_INIT;
  do {
    ASSERT_EQ(prefix_job_next_event(job, -1, &event, nullptr), PREFIX_OK);
  } while (event.kind != PREFIX_EVENT_ERROR);
  EXPECT_EQ(event.request, 2);
  EXPECT_EQ(event.status, PREFIX_ERR_CANCELLED);
  EXPECT_EQ(finished_count(job), 1u) << "the others go on";
  for (int i = 0; i < 3; ++i)
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
  for (size_t i = 0; i < kMany; ++i) {
    const prefix_result_info info = info_of(job, i);
    EXPECT_EQ(info.status, PREFIX_ERR_CANCELLED);
    EXPECT_EQ(info.finish, PREFIX_FINISH_CANCELLED);
    size_t tokens = 0;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_job_partial_tokens(job, i, nullptr, 0, &tokens, e);
    });
    EXPECT_EQ(static_cast<int64_t>(tokens), info.generated_tokens);
  }
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel_request(job, 0, e); });
  expect_works(engine);
}

TEST(Limits, TheLastReleaseCancels) {
  const Engine engine = make_engine({{"cache_bytes", kRoom}});
  {
    const Job job = start_endless(engine);  // none is done, however late the release is
  }
  expect_works(engine);
  const Batch batch = make_batch(engine);
  add_logits(batch, {1});
  while (stats_of(engine).requests_running + stats_of(engine).requests_waiting > 0)
    run(engine, batch);  // each run is at least one step further
  EXPECT_EQ(stats_of(engine).requests_failed, kMany);
}

TEST(Limits, ShutdownWhileRunningCancelsAndEndsEverything) {
  const Engine engine = make_engine();
  EXPECT_EQ(prefix_engine_state(engine), PREFIX_ENGINE_READY);
  int32_t ns = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_open(engine, "tenant", PREFIX_NUL, &ns, e);
  });
  const Job job = start_endless(engine, 100);
  wait_for_a_token(job);
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) { return prefix_engine_shutdown(engine, -1, e); }, {"-1"});
  for (int i = 0; i < 2; ++i)
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
  EXPECT_EQ(prefix_engine_state(engine), PREFIX_ENGINE_CLOSED);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, 0, e); });
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(info_of(job, i).status, PREFIX_ERR_CANCELLED);
    EXPECT_NE(message_of(job, i).find("shut down"), std::string::npos) << message_of(job, i);
  }
  // What is left answers MISUSE; asking about it does not fail.
  const Batch batch = make_batch(engine);
  add_logits(batch, {1});
  Job none;
  int64_t freed;
  prefix_cache_info cache{};
  cache.struct_size = sizeof(cache);
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_run(engine, batch, none.out(), e); }, {"shut down"});
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_cache_trim(engine, 0, &freed, e); });
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_cache_tree_json(engine, nullptr, 0, nullptr, e); });
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_cache_lookup(engine, 0, nullptr, 0, &cache, e); });
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_namespace_drop(engine, 0, &freed, e); });
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
    return prefix_namespace_find(engine, "tenant", PREFIX_NUL, &ns, e);
  });
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) {
    return prefix_namespace_open(engine, "tenant", PREFIX_NUL, &ns, e);
  });
  int32_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_namespace_count(engine, &count, e); });
  EXPECT_EQ(count, 2);
  EXPECT_FALSE(text([&](char* b, size_t c, size_t* n, prefix_error* e) {
                 return prefix_engine_info_json(engine, b, c, n, e);
               }).empty());
  EXPECT_FALSE(text([&](char* b, size_t c, size_t* n, prefix_error* e) {
                 return prefix_metrics_text(engine, b, c, n, e);
               }).empty());
}

TEST(Limits, ShutdownWaitsForWhatRuns) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  const Options options = make_options({{"max_tokens", "50"}, {"ignore_eos", "true"}});
  for (int i = 0; i < 8; ++i) add_generate(batch, {1, 2, i}, options);
  const Job job = submit(engine, batch);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, kForever, e); });
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(info_of(job, i).status, PREFIX_OK) << message_of(job, i);
    EXPECT_EQ(info_of(job, i).generated_tokens, 50);
  }
}

// A limit on tokens that the context cannot hold anyway is no reason to fail: the context ends it.
TEST(Limits, MoreTokensThanTheContextHoldsEndWithTheContext) {
  const Engine engine = make_engine({{"max_positions", "32"}, {"cache_bytes", "1M"}});
  const Batch batch = make_batch(engine);
  const Options options = make_options({{"max_tokens", "16777216"}, {"ignore_eos", "true"}});
  add_generate(batch, {1, 2, 3}, options);
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_OK) << message_of(job, 0);
  EXPECT_EQ(info_of(job, 0).finish, PREFIX_FINISH_LENGTH);
  EXPECT_EQ(info_of(job, 0).generated_tokens, 30) << "32 positions, and one token after the last";
}

}  // namespace
}  // namespace prefix_abi
