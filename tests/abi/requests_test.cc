// Requests at the edges: what is wrong with one fails that one, with a sentence, and the engine
// goes on.
#include <functional>
#include <limits>

#include "abi_support.h"

namespace prefix_abi {
namespace {

Tokens counting(int32_t n) {
  Tokens tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = i * 7 % 131;
  return tokens;
}

size_t count_of(const prefix_job* job) {
  size_t count = PREFIX_NUL;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_count(job, &count, e); });
  return count;
}

prefix_job_totals totals_of(const prefix_job* job) {
  prefix_job_totals totals{};
  totals.struct_size = sizeof(totals);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_get_totals(job, &totals, e); });
  return totals;
}

void expect_failed(const prefix_job* job, size_t index, prefix_status wanted,
                   std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE("request " + std::to_string(index));
  const prefix_result_info info = info_of(job, index);
  const std::string message = message_of(job, index);
  EXPECT_EQ(info.status, wanted) << prefix_status_name(info.status) << ": " << message;
  EXPECT_EQ(info.finish,
            wanted == PREFIX_ERR_CANCELLED ? PREFIX_FINISH_CANCELLED : PREFIX_FINISH_ERROR);
  for (const std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "lacks '" << part << "': " << message;
  expect_no_arrays(job, index, wanted);
}

// One of each kind of mistake, a good request before, between and after them.
TEST(Requests, OneBadRequestFailsAlone) {
  const Engine engine = make_engine({{"max_positions", "64"}});
  const Options cut = make_options({{"dimensions", "65"}});
  const Options stop = make_options({{"stop_tokens", "5,131"}});
  const Options salted = make_options({{"namespace", "salt"}});
  const Tokens good = {1, 2, 3};
  const Tokens all_of_it = counting(64), too_long = counting(65);
  struct Case {
    prefix_status status;
    std::vector<std::string_view> parts;
    std::function<prefix_status(prefix_batch*, prefix_error*)> add;
  };
  const auto logits = [](const Tokens& t, const Tokens& ids) {
    return [=](prefix_batch* b, prefix_error* e) {
      return prefix_batch_add_logits(b, t.data(), t.size(), ids.data(), ids.size(), nullptr, 0,
                                     nullptr, e);
    };
  };
  const auto logprobs = [](const Tokens& t, int32_t from) {
    return [=](prefix_batch* b, prefix_error* e) {
      return prefix_batch_add_logprobs(b, t.data(), t.size(), from, nullptr, 0, nullptr, e);
    };
  };
  const auto choices = [](const Tokens& t, const Tokens& more, std::vector<int64_t> offsets) {
    return [=](prefix_batch* b, prefix_error* e) {
      return prefix_batch_add_choices(b, t.data(), t.size(), more.data(), more.size(),
                                      offsets.data(), offsets.size(), nullptr, 0, nullptr, e);
    };
  };
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  const std::vector<Case> cases = {
      {PREFIX_OK, {}, logits(good, {0})},
      {PREFIX_ERR_INVALID_ARGUMENT, {"no tokens"}, logits({}, {0})},
      {PREFIX_ERR_INVALID_ARGUMENT, {"ids"}, logits(good, {})},
      {PREFIX_ERR_OUT_OF_RANGE, {"tokens[1]", "131"}, logits({1, 131, 3}, {0})},
      {PREFIX_ERR_OUT_OF_RANGE, {"tokens[0]", "-1", "131"}, logits({-1, 2, 3}, {0})},
      {PREFIX_ERR_OUT_OF_RANGE, {"tokens[0]", "-2147483648"}, logits({kMin}, {0})},
      {PREFIX_ERR_OUT_OF_RANGE, {"ids[1]", "2147483647", "131"}, logits(good, {0, kMax})},
      {PREFIX_OK, {}, logits(all_of_it, {130})},
      {PREFIX_ERR_PROMPT_TOO_LONG, {"65", "64"}, logits(too_long, {0})},
      {PREFIX_ERR_OUT_OF_RANGE, {"from", "0"}, logprobs(good, 0)},
      {PREFIX_ERR_OUT_OF_RANGE, {"from", "3"}, logprobs(good, 3)},
      {PREFIX_ERR_OUT_OF_RANGE, {"from", "-2147483648"}, logprobs(good, kMin)},
      {PREFIX_OK, {}, logprobs(good, 2)},
      {PREFIX_ERR_INVALID_ARGUMENT, {"choice"}, choices(good, {4}, {0, 1, 1})},
      {PREFIX_ERR_OUT_OF_RANGE, {"500", "131"}, choices(good, {4, 500}, {0, 1, 2})},
      {PREFIX_ERR_PROMPT_TOO_LONG, {"65", "64"}, choices(all_of_it, {4}, {0, 1})},
      {PREFIX_OK, {}, choices(good, {4, 5}, {0, 1, 2})},
      {PREFIX_ERR_OUT_OF_RANGE,
       {"dimensions", "65", "64"},
       [&](prefix_batch* b, prefix_error* e) {
         return prefix_batch_add_embedding(b, good.data(), 3, cut, 0, nullptr, e);
       }},
      {PREFIX_ERR_OUT_OF_RANGE,
       {"stop_tokens[1]", "131"},
       [&](prefix_batch* b, prefix_error* e) {
         return prefix_batch_add_generate(b, good.data(), 3, stop, 0, nullptr, e);
       }},
      {PREFIX_ERR_INVALID_ARGUMENT,
       {"no tokens"},
       [&](prefix_batch* b, prefix_error* e) {
         return prefix_batch_add_generate(b, nullptr, 0, salted, 0, nullptr, e);
       }},
      {PREFIX_OK, {}, logits(good, {0})},
  };
  const Batch batch = make_batch(engine);
  for (const Case& c : cases) expect(PREFIX_OK, [&](prefix_error* e) { return c.add(batch, e); });
  const Job job = run(engine, batch);
  ASSERT_EQ(count_of(job), cases.size());
  int64_t failed = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].status == PREFIX_OK) {
      EXPECT_EQ(info_of(job, i).status, PREFIX_OK) << i << ": " << message_of(job, i);
      EXPECT_FALSE(values_of(job, i).empty());
      continue;
    }
    ++failed;
    expect_failed(job, i, cases[i].status, {});
    for (const std::string_view part : cases[i].parts)
      EXPECT_NE(message_of(job, i).find(part), std::string::npos)
          << "lacks '" << part << "': " << message_of(job, i);
  }
  EXPECT_EQ(totals_of(job).failed, failed);
  size_t first = 0;
  while (cases[first].status == PREFIX_OK) ++first;
  size_t index = 12345;
  expect(cases[first].status,
         [&](prefix_error* e) { return prefix_job_first_failure(job, &index, e); },
         {"request " + std::to_string(first), message_of(job, first)});
  EXPECT_EQ(index, first);
  // The good ones have the bits that they have alone.
  const Batch alone = make_batch(engine);
  add_logits(alone, good, {0});
  EXPECT_EQ(values_of(run(engine, alone), 0), values_of(job, 0));
  EXPECT_EQ(values_of(job, cases.size() - 1), values_of(job, 0));
}

// Each request ends with exactly one event, which tells its status.
TEST(Requests, EveryRequestEndsWithOneEvent) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2}, {0}, nullptr, 10);
  add_logits(batch, {-1}, {0}, nullptr, 11);
  const Options options = make_options({{"max_tokens", "3"}, {"ignore_eos", "true"}});
  add_generate(batch, {4, 5}, options, 12);
  int64_t before = monotonic_us();
  const Job job = submit(engine, batch);
  std::vector<int> ends(3), tokens(3);
  for (;;) {
    prefix_event event = PREFIX_EVENT_INIT;
    Error error;
    const prefix_status status = prefix_job_next_event(job, -1, &event, &error);
    if (status == PREFIX_ERR_NO_EVENT) break;
    ASSERT_EQ(status, PREFIX_OK) << error.message;
    ASSERT_TRUE(event.request >= 0 && event.request < 3);
    EXPECT_EQ(event.user_tag, 10 + event.request);
    EXPECT_GE(event.time_us, before);
    EXPECT_LE(event.time_us, monotonic_us());
    before = event.time_us;
    const auto r = static_cast<size_t>(event.request);
    EXPECT_EQ(ends[r], 0) << "an event after the end of request " << r;
    if (event.kind == PREFIX_EVENT_TOKEN) ++tokens[r];
    if (event.kind == PREFIX_EVENT_FINISHED || event.kind == PREFIX_EVENT_ERROR) {
      ++ends[r];
      EXPECT_EQ(event.status, r == 1 ? PREFIX_ERR_OUT_OF_RANGE : PREFIX_OK);
    }
  }
  EXPECT_EQ(ends, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(tokens, (std::vector<int>{0, 0, 3}));
  prefix_event event = PREFIX_EVENT_INIT;
  expect(PREFIX_ERR_NO_EVENT,
         [&](prefix_error* e) { return prefix_job_next_event(job, -1, &event, e); });
}

// Whoever has read the last event of a request can read its result.
TEST(Requests, AResultIsThereWhenItsEventComes) {
  const Engine engine = make_engine();
  for (int round = 0; round < (quick() ? 30 : 300); ++round) {
    const Batch batch = make_batch(engine);
    for (int i = 0; i < 4; ++i) add_logits(batch, {round % 131, i});
    const Job job = submit(engine, batch);
    int ends = 0;
    prefix_event event = PREFIX_EVENT_INIT;
    while (prefix_job_next_event(job, -1, &event, nullptr) == PREFIX_OK) {
      if (event.kind != PREFIX_EVENT_FINISHED) continue;
      ++ends;
      ASSERT_EQ(info_of(job, static_cast<size_t>(event.request)).status, PREFIX_OK);
    }
    ASSERT_EQ(ends, 4);
  }
}

TEST(Requests, NoRequestsAreDoneAtOnce) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  const Job job = run(engine, batch);
  EXPECT_EQ(count_of(job), 0u);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, 0, e); });
  prefix_event event = PREFIX_EVENT_INIT;
  expect(PREFIX_ERR_NO_EVENT,
         [&](prefix_error* e) { return prefix_job_next_event(job, -1, &event, e); });
  int64_t offset = -1;
  size_t needed = 9;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_all_values(job, nullptr, 0, &needed, &offset, 1, e);
  });
  EXPECT_EQ(needed, 0u);
  EXPECT_EQ(offset, 0);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(job, e); });
  EXPECT_EQ(text([&](char* b, size_t c, size_t* n, prefix_error* e) {
              return prefix_batch_plan_json(batch, b, c, n, e);
            }).find("{"),
            0u);
}

TEST(Requests, AHundredThousandInOneBatch) {
  const int32_t n = quick() ? 5000 : 100000;
  const Engine engine = make_engine({{"cache_bytes", "256M"}});
  const Batch batch = make_batch(engine);
  const prefix_token id = 3;
  for (int32_t i = 0; i < n; ++i) {
    const prefix_token tokens[] = {9, 8, 7, i % 131, i / 131 % 131, i / (131 * 131)};
    ASSERT_EQ(prefix_batch_add_logits(batch, tokens, 6, &id, 1, nullptr, i, nullptr, nullptr),
              PREFIX_OK);
  }
  const Job job = run(engine, batch);
  EXPECT_EQ(totals_of(job).failed, 0);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_first_failure(job, nullptr, e); });
  EXPECT_EQ(count_of(job), static_cast<size_t>(n));
  std::vector<float> values(static_cast<size_t>(n));
  std::vector<int64_t> offsets(static_cast<size_t>(n) + 1);
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_all_values(job, values.data(), values.size(), &needed, offsets.data(),
                                 offsets.size(), e);
  });
  EXPECT_EQ(needed, values.size());
  EXPECT_EQ(offsets.back(), n);
  EXPECT_EQ(info_of(job, static_cast<size_t>(n) - 1).user_tag, n - 1);
  expect_works(engine);
}

TEST(Requests, ABatchCanBeClearedAndUsedAgainWhileItRuns) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2, 3}, {0, 1});
  const Job first = submit(engine, batch);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_clear(batch, e); });
  add_logits(batch, {4, 5}, {7});
  size_t index = 99;
  const prefix_token tokens[] = {6};
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_embedding(batch, tokens, 1, nullptr, 0, &index, e);
  });
  EXPECT_EQ(index, 1u);
  const Job second = run(engine, batch);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(first, -1, e); });
  EXPECT_EQ(values_of(first, 0).size(), 2u);
  EXPECT_EQ(values_of(second, 0).size(), 1u);
}

// What a cleared batch held is forgotten: a namespace would put the next tenant's request into it.
TEST(Requests, AClearedBatchKeepsNoNamespace) {
  const Engine engine = make_engine();
  const Options tenant = make_options({{"namespace", "tenant"}});
  const Batch batch = make_batch(engine);
  for (int i = 0; i < 2; ++i) add_logits(batch, counting(40), {0}, tenant);
  run(engine, batch);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_clear(batch, e); });
  size_t count = 9;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_count(batch, &count, e); });
  EXPECT_EQ(count, 0u);
  add_logits(batch, counting(40), {0});
  add_logits(batch, {6, 7, 8}, {0}, tenant);
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).cached_tokens, 0) << "of the tenant";
  EXPECT_EQ(info_of(job, 0).computed_tokens, 40);
  prefix_cache_info info{};
  info.struct_size = sizeof(info);
  const Tokens other = {6, 7, 8};
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_cache_lookup(engine, 0, other.data(), other.size(), &info, e);
  });
  EXPECT_EQ(info.cached_tokens, 0) << "each keeps its own";
}

// Namespaces: the same tokens, never shared.
TEST(Requests, NamespacesShareNothing) {
  const Engine engine = make_engine();
  const Options tenant = make_options({{"namespace", "tenant"}});
  const Tokens tokens = counting(40);
  for (int round = 0; round < 2; ++round) {
    const Batch batch = make_batch(engine);
    add_logits(batch, tokens, {0});
    add_logits(batch, tokens, {0}, tenant);
    const Job job = run(engine, batch);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(info_of(job, i).shared_tokens, 0);
      EXPECT_EQ(info_of(job, i).computed_tokens, round == 0 ? 40 : 1);
    }
    EXPECT_EQ(values_of(job, 0), values_of(job, 1));
  }
  int32_t ns = -1, count = 0;
  int64_t freed = -1;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_find(engine, "tenant", PREFIX_NUL, &ns, e);
  });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_namespace_count(engine, &count, e); });
  EXPECT_EQ(count, 2);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_namespace_drop(engine, ns, &freed, e); });
  EXPECT_EQ(freed, 40);
  expect(PREFIX_ERR_NOT_FOUND,
         [&](prefix_error* e) { return prefix_namespace_drop(engine, 7, &freed, e); }, {"7"});
  prefix_cache_info info{};
  info.struct_size = sizeof(info);
  for (const int32_t bad : {-1, 2, INT32_MAX, INT32_MIN})
    expect(PREFIX_ERR_NOT_FOUND,
           [&](prefix_error* e) {
             return prefix_cache_lookup(engine, bad, tokens.data(), tokens.size(), &info, e);
           },
           {std::to_string(bad)});
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_cache_lookup(engine, 0, tokens.data(), tokens.size(), &info, e);
  });
  EXPECT_EQ(info.cached_tokens, 40);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_cache_trim(engine, 0, &freed, e); });
  EXPECT_EQ(freed, 40);
}

TEST(Cache, PinsLimitsAndEviction) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  const Tokens tokens(40, 5);
  add_logits(batch, tokens);
  run(engine, batch);
  int64_t lease = 0, pinned = 0, freed = -1;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_cache_pin(engine, 0, tokens.data(), 33, 0, &lease, &pinned, e);
  });
  EXPECT_GT(lease, 0);
  EXPECT_EQ(pinned, 33);
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_cache_evict(engine, 0, nullptr, 0, &freed, e); });
  EXPECT_EQ(freed, 7) << "behind what is pinned";
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_cache_unpin(engine, lease, e); });
  expect(PREFIX_ERR_NOT_FOUND,
         [&](prefix_error* e) { return prefix_cache_unpin(engine, lease, e); },
         {std::to_string(lease)});
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_cache_evict(engine, 0, tokens.data(), 10, &freed, e);
  });
  EXPECT_EQ(freed, 23);

  prefix_cache_usage usage{};
  usage.struct_size = sizeof usage;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_cache_set_limits(engine, 0, 1 << 16, 1 << 20, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_cache_get_usage(engine, 0, &usage, e); });
  EXPECT_EQ(usage.tokens, 10);
  EXPECT_GT(usage.bytes, 0);
  EXPECT_EQ(usage.floor_bytes, 1 << 16);
  EXPECT_EQ(usage.quota_bytes, 1 << 20);
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) { return prefix_cache_set_limits(engine, 0, 2, 1, e); }, {"1"});
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_cache_pin(engine, 0, tokens.data(), 33, -7, &lease, &pinned, e);
         },
         {"-7"});
  expect(PREFIX_ERR_NOT_FOUND,
         [&](prefix_error* e) {
           return prefix_cache_pin(engine, 0, tokens.data() + 39, 0, 0, &lease, nullptr, e);
         },
         {"cached"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
    return prefix_cache_pin(engine, 0, tokens.data(), 33, 0, nullptr, nullptr, e);
  });
}

}  // namespace
}  // namespace prefix_abi
