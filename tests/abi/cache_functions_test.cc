// The functions of the cache: lookup of many prompts, warm-up, namespaces of several parts,
// pictures and events. What is left of the cache is in requests_test.cc and snapshots_test.cc.
#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "abi_support.h"

namespace prefix_abi {
namespace {

Tokens counting(int32_t n, int32_t first = 1) {
  Tokens tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = (first + i * 7) % 131;
  return tokens;
}

void add_warm(prefix_batch* batch, const Tokens& tokens, const prefix_options* options = nullptr) {
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_warm(batch, tokens.data(), tokens.size(), options, 0, nullptr, e);
  });
}

void warm(prefix_engine* engine, const Tokens& tokens, const prefix_options* options = nullptr) {
  const Batch batch = make_batch(engine);
  add_warm(batch, tokens, options);
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_OK) << message_of(job, 0);
}

prefix_cache_info look_up(const prefix_engine* engine, int32_t ns, const Tokens& tokens) {
  prefix_cache_info info = PREFIX_CACHE_INFO_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_cache_lookup(engine, ns, tokens.data(), tokens.size(), &info, e);
  });
  return info;
}

int64_t cached(const prefix_engine* engine, int32_t ns, const Tokens& tokens) {
  return look_up(engine, ns, tokens).cached_tokens;
}

int32_t open_tuple(prefix_engine* engine, const std::vector<std::string>& parts) {
  std::string text;
  std::vector<int64_t> offsets = {0};
  for (const std::string& part : parts) {
    text += part;
    offsets.push_back(static_cast<int64_t>(text.size()));
  }
  int32_t ns = -1;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_open_tuple(engine, text.data(), text.size(), offsets.data(),
                                       offsets.size(), &ns, e);
  });
  return ns;
}

TEST(Cache, LookupOfManyPromptsIsLookupOfEach) {
  const Engine engine = make_engine();
  warm(engine, counting(50));
  Tokens all;
  std::vector<int64_t> offsets = {0}, wanted;
  for (const Tokens& prompt : {counting(50), Tokens{}, counting(20), counting(80), Tokens{9, 9}}) {
    all.insert(all.end(), prompt.begin(), prompt.end());
    offsets.push_back(static_cast<int64_t>(all.size()));
    wanted.push_back(cached(engine, 0, prompt));
  }
  EXPECT_EQ(wanted, (std::vector<int64_t>{50, 0, 20, 50, 0}));
  const auto look = [&](int32_t ns, size_t n_offsets, int64_t* out, size_t capacity,
                        size_t* needed) {
    return [=, &engine, &all, &offsets](prefix_error* e) {
      return prefix_cache_lookup_many(engine, ns, all.data(), all.size(), offsets.data(), n_offsets,
                                      out, capacity, needed, e);
    };
  };
  std::vector<int64_t> found(5, -1);
  size_t needed = 0;
  expect(PREFIX_OK, look(0, 6, found.data(), 5, &needed));
  EXPECT_EQ(needed, 5u);
  EXPECT_EQ(found, wanted);
  // Too small a buffer; a size alone; no size.
  std::vector<int64_t> few(5, -1);
  expect(PREFIX_ERR_BUFFER_TOO_SMALL, look(0, 6, few.data(), 4, nullptr), {"4", "5"});
  EXPECT_EQ(few, std::vector<int64_t>(5, -1));
  needed = 0;
  expect(PREFIX_OK, look(0, 6, nullptr, 0, &needed));
  EXPECT_EQ(needed, 5u);
  expect(PREFIX_ERR_INVALID_ARGUMENT, look(0, 6, nullptr, 1, &needed), {"NULL"});
  expect(PREFIX_ERR_NOT_FOUND, look(1, 6, found.data(), 5, &needed), {"1"});
  expect(PREFIX_ERR_NOT_FOUND, look(-1, 6, found.data(), 5, &needed), {"-1"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, look(0, 0, found.data(), 5, &needed), {"n_offsets"});
  for (const std::vector<int64_t>& bad :
       std::vector<std::vector<int64_t>>{{1, 50, 50, 70, 150, 152},
                                         {0, 50, 40, 70, 150, 152},
                                         {0, 50, 50, 70, 150, 153},
                                         {0, 50, 50, 70, 150, 151},
                                         {0, 50, 50, 70, 153, 152},
                                         {0, -1, 50, 70, 150, 152},
                                         {INT64_MIN, 50, 50, 70, 150, INT64_MAX}}) {
    offsets = bad;
    expect(PREFIX_ERR_OUT_OF_RANGE, look(0, 6, found.data(), 5, &needed), {"offsets"});
  }
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
    return prefix_cache_lookup_many(engine, 0, all.data(), all.size(), nullptr, 6, found.data(), 5,
                                    &needed, e);
  });
  // No prompt at all.
  const int64_t none = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_cache_lookup_many(engine, 0, nullptr, 0, &none, 1, nullptr, 0, &needed, e);
  });
  EXPECT_EQ(needed, 0u);
}

// A generation takes the only row of every step, and the prompt behind it stands still.
TEST(Cache, LookupTellsWhatIsBeingComputedNow) {
  const Engine engine = make_engine({{"rows", "1"}});
  const Options above =
      make_options({{"priority", "1"}, {"max_tokens", "2000"}, {"ignore_eos", "true"}});
  const auto is_done = [](const Job& job) { return prefix_job_wait(job, 0, nullptr) == PREFIX_OK; };
  // On a machine that is busy a generation may be over before the lookup, and tells nothing then.
  for (int32_t first = 1; first < 100; ++first) {
    const Tokens prompt = counting(64, first);
    warm(engine, Tokens(prompt.begin(), prompt.begin() + 16));
    const Batch generating = make_batch(engine), waiting = make_batch(engine);
    add_generate(generating, {130}, above);
    add_warm(waiting, prompt);
    const Job generation = submit(engine, generating);
    prefix_event event = PREFIX_EVENT_INIT;
    while (event.kind != PREFIX_EVENT_TOKEN)
      expect(PREFIX_OK,
             [&](prefix_error* e) { return prefix_job_next_event(generation, -1, &event, e); });
    const Job job = submit(engine, waiting);
    while (stats_of(engine).requests_running < 2 && !is_done(generation)) std::this_thread::yield();
    const prefix_cache_info during = look_up(engine, 0, prompt);
    if (is_done(generation)) continue;
    EXPECT_EQ(during.cached_tokens, 16);
    EXPECT_EQ(during.pending_tokens, 48);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_cancel(generation, e); });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
    const prefix_cache_info after = look_up(engine, 0, prompt);
    EXPECT_EQ(after.cached_tokens, 64);
    EXPECT_EQ(after.pending_tokens, 0);
    return;
  }
  FAIL() << "every generation was over before the lookup";
}

TEST(Cache, WarmedPromptsAreComputedOnceAndHaveNoValues) {
  const Engine engine = make_engine();
  const Tokens prompt = counting(50);
  const Batch batch = make_batch(engine);
  add_warm(batch, {});
  add_warm(batch, prompt);
  add_warm(batch, {131});
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(info_of(job, 1).status, PREFIX_OK) << message_of(job, 1);
  EXPECT_EQ(info_of(job, 2).status, PREFIX_ERR_OUT_OF_RANGE);
  EXPECT_TRUE(values_of(job, 1).empty());
  EXPECT_EQ(info_of(job, 1).generated_tokens, 0);
  EXPECT_EQ(cached(engine, 0, prompt), 50);
  // The next one finds it, and has the bits that it would have had without.
  const auto logits = [&](prefix_engine* on) {
    const Batch asked = make_batch(on);
    add_logits(asked, prompt);
    const Job answered = run(on, asked);
    return std::pair(values_of(answered, 0), info_of(answered, 0).cached_tokens);
  };
  const auto [values, known] = logits(engine);
  EXPECT_GE(known, 49);
  EXPECT_EQ(values, logits(make_engine()).first);
}

TEST(Cache, NamespacesOfSeveralPartsAreComparedPartByPart) {
  const Engine engine = make_engine();
  const int32_t one = open_tuple(engine, {"ab", "c"});
  EXPECT_GT(one, 0);
  EXPECT_EQ(open_tuple(engine, {"ab", "c"}), one);
  const std::vector<std::vector<std::string>> others = {
      {"a", "bc"}, {"abc"}, {"ab", "c", ""}, {"", "ab", "c"}, {"", ""}, {std::string("ab\0c", 4)}};
  std::set<int32_t> all = {0, one};
  for (const auto& parts : others) EXPECT_TRUE(all.insert(open_tuple(engine, parts)).second);
  EXPECT_EQ(open_tuple(engine, {}), 0);
  int32_t named = -1;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_namespace_find(engine, "abc", PREFIX_NUL, &named, e);
  });
  EXPECT_EQ(named, open_tuple(engine, {"abc"}));

  int32_t ns = -7;
  const auto open = [&](const char* text, size_t length, std::vector<int64_t> offsets,
                        int32_t* out) {
    return [=, &engine](prefix_error* e) {
      return prefix_namespace_open_tuple(engine, text, length, offsets.data(), offsets.size(), out,
                                         e);
    };
  };
  expect(PREFIX_ERR_INVALID_ARGUMENT, open("abc", 3, {}, &ns), {"n_offsets"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, open("abc", 3, {0, 3}, nullptr), {"NULL"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, open(nullptr, 3, {0, 3}, &ns), {"NULL"});
  expect(PREFIX_ERR_OUT_OF_RANGE, open("abc", 3, {1, 3}, &ns), {"offsets"});
  expect(PREFIX_ERR_OUT_OF_RANGE, open("abc", 3, {0, 2}, &ns), {"offsets"});
  expect(PREFIX_ERR_OUT_OF_RANGE, open("abc", 3, {0, 4}, &ns), {"offsets"});
  expect(PREFIX_ERR_OUT_OF_RANGE, open("abc", 3, {0, 2, 1, 3}, &ns), {"offsets"});
  expect(PREFIX_ERR_INVALID_UTF8, open("a\xff", 2, {0, 2}, &ns));
  EXPECT_EQ(ns, -7);
  expect_works(engine);
}

TEST(Cache, RequestsNameANamespaceByNumber) {
  const Engine engine = make_engine();
  const int32_t ns = open_tuple(engine, {"salt", "adapter"});
  const std::string number = std::to_string(ns);
  warm(engine, counting(40), make_options({{"namespace_id", number.c_str()}}));
  EXPECT_EQ(cached(engine, ns, counting(40)), 40);
  EXPECT_EQ(cached(engine, 0, counting(40)), 0);
  // One that was never opened fails alone.
  const Options unknown = make_options({{"namespace_id", "77"}});
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2}, {0}, unknown);
  add_logits(batch, {1, 2}, {0});
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_ERR_NOT_FOUND);
  EXPECT_NE(message_of(job, 0).find("77"), std::string::npos) << message_of(job, 0);
  EXPECT_EQ(info_of(job, 1).status, PREFIX_OK);
}

TEST(Cache, ARequestHasOneNamespace) {
  const Engine engine = make_engine();
  const int32_t ns = open_tuple(engine, {"a", "b"});
  const std::string number = std::to_string(ns);
  const Options both = make_options({{"namespace", "a\n"}, {"namespace_id", number.c_str()}});
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2});
  const Tokens tokens = {1, 2};
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_batch_add_warm(batch, tokens.data(), 2, both, 0, nullptr, e);
         },
         {"namespace_id", "\"a\\x0a\"", number});
  size_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_count(batch, &count, e); });
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(info_of(run(engine, batch), 0).status, PREFIX_OK);
}

TEST(Cache, RequireSaltRefusesOnlyTheRequestsWithoutOne) {
  const Engine engine = make_engine({{"require_salt", "true"}});
  const std::string unsalted = std::to_string(open_tuple(engine, {"", "adapter"}));
  const std::string salted = std::to_string(open_tuple(engine, {"salt", "adapter"}));
  const Options by_name = make_options({{"namespace", "salt"}});
  const Options good = make_options({{"namespace_id", salted.c_str()}});
  const Options bad = make_options({{"namespace_id", unsalted.c_str()}});
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2}, {0}, good);
  add_logits(batch, {1, 2}, {0}, nullptr);
  add_logits(batch, {1, 2}, {0}, by_name);
  add_logits(batch, {1, 2}, {0}, bad);
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_OK);
  EXPECT_EQ(info_of(job, 2).status, PREFIX_OK);
  for (const size_t i : {1u, 3u}) {
    EXPECT_EQ(info_of(job, i).status, PREFIX_ERR_INVALID_ARGUMENT);
    EXPECT_NE(message_of(job, i).find("salt"), std::string::npos) << message_of(job, i);
  }
  EXPECT_EQ(values_of(job, 0), values_of(job, 2));
}

// Each of them by itself, on an engine that has nothing else to do.
TEST(Cache, ALeaseWhoseTimeIsOverKeepsNothingFromTrimEvictAndDrop) {
  const Tokens prompt = counting(50);
  using Call = prefix_status (*)(prefix_engine*, int64_t*, prefix_error*);
  const Call calls[] = {[](prefix_engine* en, int64_t* freed, prefix_error* e) {
                          return prefix_cache_trim(en, 0, freed, e);
                        },
                        [](prefix_engine* en, int64_t* freed, prefix_error* e) {
                          return prefix_cache_evict(en, 0, nullptr, 0, freed, e);
                        },
                        [](prefix_engine* en, int64_t* freed, prefix_error* e) {
                          return prefix_namespace_drop(en, 0, freed, e);
                        }};
  const Engine engine = make_engine();
  for (const Call call : calls) {
    warm(engine, prompt);
    int64_t lease = 0, freed = 0;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_cache_pin(engine, 0, prompt.data(), prompt.size(), 1, &lease, nullptr, e);
    });
    // An end in case it never comes; a lease of a millisecond needs nothing near it.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (freed == 0 && std::chrono::steady_clock::now() < end) {
      expect(PREFIX_OK, [&](prefix_error* e) { return call(engine, &freed, e); });
      std::this_thread::yield();
    }
    EXPECT_EQ(freed, 50);
    expect(PREFIX_ERR_NOT_FOUND,
           [&](prefix_error* e) { return prefix_cache_unpin(engine, lease, e); });
  }
}

struct Seen {
  prefix_cache_event event;
  Tokens tokens;
};

std::vector<Seen> events_from(const prefix_engine* engine, int64_t from) {
  std::vector<Seen> all;
  for (;;) {
    Seen seen{PREFIX_CACHE_EVENT_INIT, Tokens(64)};
    size_t needed = 0;
    const prefix_status status = prefix_cache_next_event(
        engine, from, &seen.event, seen.tokens.data(), seen.tokens.size(), &needed, nullptr);
    if (status == PREFIX_ERR_NO_EVENT) return all;
    EXPECT_EQ(status, PREFIX_OK);
    if (status != PREFIX_OK) return all;
    seen.tokens.resize(needed);
    from = seen.event.sequence + 1;
    all.push_back(std::move(seen));
  }
}

TEST(CacheEvents, NeedTheirOption) {
  const Engine engine = make_engine();
  prefix_cache_event event = PREFIX_CACHE_EVENT_INIT;
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) {
           return prefix_cache_next_event(engine, 0, &event, nullptr, 0, nullptr, e);
         },
         {"cache_events"});
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_cache_dump_events(engine, nullptr, 0, nullptr, e); },
         {"cache_events"});
}

TEST(CacheEvents, TellOfBlocksThatComeAndGo) {
  const Engine engine = make_engine({{"cache_events", "100"}});
  prefix_cache_event event = PREFIX_CACHE_EVENT_INIT;
  size_t needed = 99;
  const auto next = [&](int64_t from, prefix_token* tokens, size_t capacity) {
    return [=, &engine, &event, &needed](prefix_error* e) {
      return prefix_cache_next_event(engine, from, &event, tokens, capacity, &needed, e);
    };
  };
  expect(PREFIX_ERR_NO_EVENT, next(0, nullptr, 0));
  expect(PREFIX_ERR_OUT_OF_RANGE, next(-1, nullptr, 0), {"-1"});
  const Tokens prompt = counting(70);
  const int64_t before = monotonic_us();
  warm(engine, prompt);
  const int64_t then = monotonic_us();

  std::vector<Seen> seen = events_from(engine, 0);
  ASSERT_EQ(seen.size(), 2u) << "two blocks of 32 tokens are full";
  for (size_t i = 0; i < 2; ++i) {
    const prefix_cache_event& stored = seen[i].event;
    EXPECT_EQ(stored.kind, PREFIX_CACHE_STORED);
    EXPECT_EQ(stored.sequence, seen[0].event.sequence + static_cast<int64_t>(i));
    EXPECT_GT(stored.block, 0);
    EXPECT_EQ(stored.parent, i == 0 ? 0 : seen[0].event.block);
    EXPECT_EQ(stored.ns, 0);
    EXPECT_EQ(stored.position, static_cast<int32_t>(32 * i));
    EXPECT_GE(stored.time_us, before);
    EXPECT_LE(stored.time_us, then);
    const auto begin = prompt.begin() + static_cast<ptrdiff_t>(32 * i);
    EXPECT_EQ(seen[i].tokens, Tokens(begin, begin + 32));
  }
  // The same block has the same name in another engine with this model.
  const Engine other = make_engine({{"cache_events", "100"}});
  warm(other, prompt);
  EXPECT_EQ(events_from(other, 0)[1].event.block, seen[1].event.block);

  // Too little room for the tokens, or none: the event stays, and can be read again.
  Tokens few(32, -1);
  expect(PREFIX_ERR_BUFFER_TOO_SMALL, next(0, few.data(), 31), {"tokens", "31", "32"});
  EXPECT_EQ(needed, 32u);
  EXPECT_EQ(few, Tokens(32, -1));
  expect(PREFIX_OK, next(0, nullptr, 0));
  EXPECT_EQ(event.block, seen[0].event.block);
  expect(PREFIX_ERR_INVALID_ARGUMENT, next(0, nullptr, 1), {"tokens", "NULL"});
  expect(PREFIX_ERR_NO_EVENT, next(INT64_MAX, few.data(), 32));
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
    return prefix_cache_next_event(engine, 0, nullptr, nullptr, 0, &needed, e);
  });

  const int64_t after = seen[1].event.sequence + 1;
  int64_t freed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_cache_trim(engine, 0, &freed, e); });
  const std::vector<Seen> gone = events_from(engine, after);
  ASSERT_EQ(gone.size(), 3u);
  EXPECT_EQ(gone[0].event.kind, PREFIX_CACHE_REMOVED);
  EXPECT_EQ(gone[0].event.block, seen[1].event.block) << "before its parent";
  EXPECT_EQ(gone[1].event.block, seen[0].event.block);
  EXPECT_EQ(gone[2].event.kind, PREFIX_CACHE_CLEARED);
  for (const Seen& g : gone) EXPECT_TRUE(g.tokens.empty());
}

TEST(CacheEvents, ThatWereNotReadInTimeAreMissedByNumber) {
  const Engine engine = make_engine({{"cache_events", "4"}});
  warm(engine, counting(32 * 9));
  const std::vector<Seen> kept = events_from(engine, 0);
  ASSERT_EQ(kept.size(), 4u);
  EXPECT_GE(kept[0].event.sequence, 5);
  EXPECT_EQ(events_from(engine, 1).size(), 4u);
  EXPECT_EQ(kept[3].event.position, 32 * 8);
}

TEST(CacheEvents, ADumpSaysWhatIsThereAndWhereToGoOn) {
  const Engine engine = make_engine({{"cache_events", "4"}, {"cache_event_tokens", "64"}});
  const auto dump = [&] {
    return text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
      return prefix_cache_dump_events(engine, buf, cap, needed, e);
    });
  };
  EXPECT_EQ(dump(), "{\"next\":0}\n");
  warm(engine, counting(64 * 9));
  const std::string full = dump();
  EXPECT_EQ(std::count(full.begin(), full.end(), '\n'), 10) << full;
  EXPECT_EQ(full.substr(0, 9), "{\"block\":");
  const size_t last = full.rfind("{\"next\":");
  ASSERT_NE(last, std::string::npos) << full;
  const int64_t next = std::atoll(full.c_str() + last + 8);
  EXPECT_TRUE(events_from(engine, next).empty());
  warm(engine, counting(64, 5));
  ASSERT_EQ(events_from(engine, next).size(), 1u);
  EXPECT_EQ(events_from(engine, next)[0].event.sequence, next);
}

TEST(CacheEvents, BlocksAreWholePages) {
  const Options options =
      make_options({{"cache_bytes", "16M"}, {"cache_events", "4"}, {"cache_event_tokens", "33"}});
  Engine engine;
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
         },
         {"33", "32"});
}

}  // namespace
}  // namespace prefix_abi
