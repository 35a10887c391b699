// Out of memory, at every allocation there is: operator new of this program is the library's too,
// so it can be told to fail. (memory_limit_test.cc does the same with a real limit of the system.)
#include <atomic>
#include <functional>
#include <new>
#include <set>

#include "abi_support.h"
#include "random_adapter.h"

namespace {

enum class Fail { kNever, kOnce, kFromThenOn };

// Counted down by allocations of the armed threads.
std::atomic<Fail> mode{Fail::kNever};
std::atomic<int64_t> left{0};
std::atomic<bool> other_threads{false};
thread_local bool armed = false;

bool must_fail() {
  const Fail now = mode.load(std::memory_order_relaxed);
  if (now == Fail::kNever || armed == other_threads.load(std::memory_order_relaxed)) return false;
  const int64_t n = left.fetch_sub(1, std::memory_order_relaxed);
  return n == 0 || (n < 0 && now == Fail::kFromThenOn);
}

void* allocate(size_t size, size_t alignment) {
  if (must_fail()) throw std::bad_alloc();
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(size);
  } else if (posix_memalign(&memory, alignment, size) != 0) {
    memory = nullptr;
  }
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All of them: a sanitizer brings its own set, and memory of one set must not go to the other. g++
// sees free() where a delete was inlined and a new was not, and takes them for strangers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(size_t size) { return allocate(size, 1); }
void* operator new[](size_t size) { return allocate(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return must_fail() ? nullptr : std::malloc(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return must_fail() ? nullptr : std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace prefix_abi {
namespace {

// Runs the call with the nth allocation of this thread (or of all the others) failing. True when
// there were so many.
bool failing(Fail how, int64_t nth, const std::function<void()>& call, bool others = false) {
  left = nth;
  other_threads = others;
  armed = true;
  mode = how;
  call();
  mode = Fail::kNever;
  armed = false;
  return left < 0;
}

struct Case {
  const char* name;
  std::function<prefix_status(prefix_error*)> call;
  std::function<void(bool)> check;  // after each call: did it succeed?
};

// All that the cache has can go: nothing holds it any more.
void expect_nothing_left(prefix_engine* engine) {
  EXPECT_EQ(prefix_cache_trim(engine, 0, nullptr, nullptr), PREFIX_OK);
  EXPECT_EQ(stats_of(engine).pages_used, 0);
  EXPECT_EQ(stats_of(engine).tree_tokens, 0);
}

// Who followed the events from the first one on knows the blocks that are there, or sees that some were
// lost.
void expect_told(prefix_engine* engine) {
  std::set<int64_t> blocks;
  prefix_cache_event event = PREFIX_CACHE_EVENT_INIT;
  int64_t next = 0;
  for (; prefix_cache_next_event(engine, next, &event, nullptr, 0, nullptr, nullptr) == PREFIX_OK;
       ++next) {
    if (event.sequence != next) return;
    if (event.kind == PREFIX_CACHE_STORED) {
      EXPECT_TRUE(blocks.insert(event.block).second);
    }
    if (event.kind == PREFIX_CACHE_REMOVED) {
      EXPECT_EQ(blocks.erase(event.block), 1u);
    }
  }
  const std::string there = text([&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_cache_dump_events(engine, b, c, n, e);
  });
  const std::string end = "{\"next\":" + std::to_string(next) + "}\n";
  if (!there.ends_with(end)) return;
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(there, '\n')), blocks.size() + 1) << there;
}

// Lets each allocation of the call fail in turn. The answer is OUT_OF_MEMORY with a sentence, or OK
// where the library can do without; then `check` sees whether anything changed.
void every_allocation(const Case& c, int64_t stride = 1) {
  int64_t failures = 0;
  for (const Fail how : {Fail::kOnce, Fail::kFromThenOn}) {
    bool more = true;
    for (int64_t nth = 0; more; nth += nth < 50 ? 1 : stride) {
      SCOPED_TRACE(std::string(c.name) + ", allocation " + std::to_string(nth));
      Error error;
      prefix_status status = PREFIX_OK;
      more = failing(how, nth, [&] { status = c.call(&error); });
      if (status != PREFIX_OK) {
        ++failures;
        ASSERT_EQ(status, PREFIX_ERR_OUT_OF_MEMORY)
            << prefix_status_name(status) << ": " << error.message;
        EXPECT_NE(std::string_view(error.message).find("memory"), std::string_view::npos)
            << error.message;
        EXPECT_NE(error.domain[0], 0);
      }
      EXPECT_TRUE(more || status == PREFIX_OK) << "nothing failed";
      if (c.check) c.check(status == PREFIX_OK);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(failures, 0) << c.name << " allocates nothing: is operator new not shared?";
}

TEST(Memory, HandlesAndOptions) {
  prefix_options* made = nullptr;
  every_allocation({"prefix_options_create",
                    [&](prefix_error* e) { return prefix_options_create(&made, e); },
                    [&](bool ok) {
                      EXPECT_EQ(made != nullptr, ok);
                      prefix_options_release(std::exchange(made, nullptr));
                    }});
  const Options options = make_options({{"rows", "7"}});
  const auto value = [&](const char* key) {
    return text([&](char* b, size_t c, size_t* n, prefix_error* e) {
      return prefix_options_get(options, key, PREFIX_NUL, b, c, n, e);
    });
  };
  const std::string longer(100, 'n');
  const auto restore = [&] {
    ASSERT_EQ(
        prefix_options_set_json(options, "{\"rows\": 7, \"namespace\": \"\"}", PREFIX_NUL, nullptr),
        PREFIX_OK);
  };
  const auto unchanged = [&](bool ok) {
    EXPECT_EQ(value("rows"), ok ? "8" : "7");
    EXPECT_EQ(value("namespace"), ok ? longer : "");
    restore();
  };
  const std::string json = "{\"namespace\": \"" + longer + "\", \"rows\": 8}";
  every_allocation({"prefix_options_set_json",
                    [&](prefix_error* e) {
                      return prefix_options_set_json(options, json.data(), json.size(), e);
                    },
                    unchanged});
  every_allocation({"prefix_options_set",
                    [&](prefix_error* e) {
                      return prefix_options_set(options, "namespace", PREFIX_NUL, longer.data(),
                                                longer.size(), e);
                    },
                    [&](bool ok) {
                      EXPECT_EQ(value("namespace"), ok ? longer : "");
                      restore();
                    }});
}

TEST(Memory, AddingToABatchIsAllOrNothing) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  const Options options = make_options({{"namespace", "a name that is longer than any buffer"}});
  const Tokens t(100, 3);
  const int64_t offsets[] = {0, 10, 40, 100};
  size_t before = 0;
  const auto whole = [&](size_t added) {
    return [&, added](bool ok) {
      size_t count = 0;
      ASSERT_EQ(prefix_batch_count(batch, &count, nullptr), PREFIX_OK);
      ASSERT_EQ(count, before + (ok ? added : 0));
      ASSERT_EQ(prefix_batch_clear(batch, nullptr), PREFIX_OK);
      before = 0;
    };
  };
  using E = prefix_error;
  prefix_batch* const b = batch;
  every_allocation({"prefix_batch_add_logits",
                    [&](E* e) {
                      return prefix_batch_add_logits(b, t.data(), 100, t.data(), 100, options, 0,
                                                     nullptr, e);
                    },
                    whole(1)});
  every_allocation(
      {"prefix_batch_add_logprobs",
       [&](E* e) { return prefix_batch_add_logprobs(b, t.data(), 100, 1, options, 0, nullptr, e); },
       whole(1)});
  every_allocation({"prefix_batch_add_choices",
                    [&](E* e) {
                      return prefix_batch_add_choices(b, t.data(), 100, t.data(), 100, offsets, 4,
                                                      options, 0, nullptr, e);
                    },
                    whole(1)});
  every_allocation({"prefix_batch_add_continuations",
                    [&](E* e) {
                      return prefix_batch_add_continuations(b, t.data(), 100, t.data(), 100,
                                                            offsets, 4, options, 0, nullptr, e);
                    },
                    whole(3)});
  every_allocation(
      {"prefix_batch_add_embedding",
       [&](E* e) { return prefix_batch_add_embedding(b, t.data(), 100, options, 0, nullptr, e); },
       whole(1)});
  every_allocation(
      {"prefix_batch_add_generate",
       [&](E* e) { return prefix_batch_add_generate(b, t.data(), 100, options, 0, nullptr, e); },
       whole(1)});
  prefix_batch* made = nullptr;
  every_allocation({"prefix_batch_create",
                    [&](E* e) { return prefix_batch_create(engine, &made, e); },
                    [&](bool ok) {
                      EXPECT_EQ(made != nullptr, ok);
                      prefix_batch_release(std::exchange(made, nullptr));
                    }});
  expect_works(engine);
}

TEST(Memory, Loading) {
  const std::string& path = model_path();
  const Options options = make_options({{"cache_bytes", "1M"}, {"threads", "1"}});
  prefix_memory memory{};
  memory.struct_size = sizeof(memory);
  every_allocation({"prefix_engine_estimate",
                    [&](prefix_error* e) {
                      return prefix_engine_estimate(path.c_str(), PREFIX_NUL, options, &memory, e);
                    },
                    nullptr},
                   11);
  std::vector<char> text(1 << 12);
  every_allocation({"prefix_model_info_json",
                    [&](prefix_error* e) {
                      return prefix_model_info_json(path.c_str(), PREFIX_NUL, text.data(),
                                                    text.size(), nullptr, e);
                    },
                    nullptr},
                   11);
  prefix_engine* engine = nullptr;
  every_allocation({"prefix_engine_create",
                    [&](prefix_error* e) {
                      return prefix_engine_create(path.c_str(), PREFIX_NUL, options, &engine, e);
                    },
                    [&](bool ok) {
                      EXPECT_EQ(engine != nullptr, ok);
                      prefix_engine_release(std::exchange(engine, nullptr));
                    }},
                   quick() ? 97 : 3);
}

// A load that rounds weights by what they are multiplied with says so when it cannot: others would come of less.
TEST(Memory, RoundingWeights) {
  const Options options =
      make_options({{"cache_bytes", "1M"}, {"threads", "1"}, {"compute", "int8"}, {"kv", "int8"}});
  const auto values = [](prefix_engine* engine) {
    const Batch batch = make_batch(engine);
    add_logits(batch, {1, 2, 3});
    return values_of(run(engine, batch), 0);
  };
  std::vector<float> wanted;
  Engine made;
  const auto load = [&](prefix_error* e) {
    return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, made.out(), e);
  };
  expect(PREFIX_OK, load);
  wanted = values(made);
  made = {};
  every_allocation({"prefix_engine_create with compute=int8", load,
                    [&](bool ok) {
                      if (ok) {
                        EXPECT_EQ(values(made), wanted);
                      }
                      made = {};
                    }},
                   quick() ? 41 : 7);
}

TEST(Memory, AskingAnEngine) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  for (int i = 0; i < 20; ++i) add_logits(batch, {1, 2, i});
  const Job job = run(engine, batch);
  std::vector<char> buf(1 << 20);
  std::vector<float> values(100);
  const Tokens tokens = {1, 2, 3};
  prefix_cache_info info{};
  info.struct_size = sizeof(info);
  int32_t ns = 0;
  std::string name(40, 'a');
  using E = prefix_error;
  char* const b = buf.data();
  const size_t n = buf.size();
  every_allocation({"prefix_engine_info_json",
                    [&](E* e) { return prefix_engine_info_json(engine, b, n, nullptr, e); },
                    nullptr});
  every_allocation({"prefix_metrics_text",
                    [&](E* e) { return prefix_metrics_text(engine, b, n, nullptr, e); }, nullptr});
  every_allocation({"prefix_batch_plan_json",
                    [&](E* e) { return prefix_batch_plan_json(batch, b, n, nullptr, e); },
                    nullptr});
  every_allocation({"prefix_cache_tree_json",
                    [&](E* e) { return prefix_cache_tree_json(engine, b, n, nullptr, e); },
                    nullptr});
  every_allocation(
      {"prefix_job_all_values",
       [&](E* e) { return prefix_job_all_values(job, values.data(), 100, nullptr, nullptr, 0, e); },
       nullptr});
  every_allocation(
      {"prefix_cache_lookup",
       [&](E* e) { return prefix_cache_lookup(engine, 0, tokens.data(), 3, &info, e); }, nullptr});
  every_allocation({"prefix_namespace_open",
                    [&](E* e) { return prefix_namespace_open(engine, name.data(), 40, &ns, e); },
                    [&](bool) { ++name[0]; }});
  expect_works(engine);
}

TEST(Memory, Submitting) {
  const Engine engine = make_engine();
  const Options options = make_options({{"namespace", "a name that is longer than any buffer"}});
  const Batch batch = make_batch(engine);
  for (int i = 0; i < 5; ++i) add_logits(batch, {1, 2, i}, {0, 1}, options);
  add_logits(batch, {-1});  // its refusal takes memory too
  prefix_job* job = nullptr;
  every_allocation({"prefix_submit",
                    [&](prefix_error* e) { return prefix_submit(engine, batch, &job, e); },
                    [&](bool ok) {
                      EXPECT_EQ(job != nullptr, ok);
                      if (job) {
                        EXPECT_EQ(prefix_job_wait(job, -1, nullptr), PREFIX_OK);
                        EXPECT_EQ(info_of(job, 0).status, PREFIX_OK);
                        EXPECT_EQ(info_of(job, 5).status, PREFIX_ERR_OUT_OF_RANGE);
                      }
                      prefix_job_release(std::exchange(job, nullptr));
                    }});
  expect_works(engine);
}

TEST(Memory, Simulating) {
  prefix_sim* made = nullptr;
  every_allocation({"prefix_sim_create",
                    [&](prefix_error* e) {
                      return prefix_sim_create(R"({"policy": "gdsf", "page": 2})", PREFIX_NUL,
                                               &made, e);
                    },
                    [&](bool ok) {
                      EXPECT_EQ(made != nullptr, ok);
                      prefix_sim_release(std::exchange(made, nullptr));
                    }});
  // Every time anew, in a simulation of its own: the same operation with less and less memory.
  const char* const kOperations[] = {
      R"({"op": "insert", "tokens": [1, 2, 3, 4, 5, 6, 7], "ns": "a"})",
      R"({"op": "insert", "tokens": [1, 2, 3, 9, 9], "slots": [0, 1, 2, 50, 51], "ns": "b"})",
      R"({"op": "match", "tokens": [1, 2, 3, 4], "ns": "a"})",
      R"({"op": "lock", "tokens": [1, 2], "ns": "a"})",
      R"({"op": "unlock", "tokens": [1, 2, 3], "ns": "b"})",
      R"({"op": "evict", "n": 2})",
      R"({"op": "dump"})",
      R"({"op": "stats"})",
      R"({"op": "reset"})",
  };
  for (const char* const operation : kOperations) {
    Sim sim;
    const auto fresh = [&](bool) {
      sim = make_sim();
      for (const char* const before : {R"({"op": "insert", "tokens": [1, 2, 3, 4], "ns": "a"})",
                                       R"({"op": "insert", "tokens": [1, 2, 3, 4], "ns": "b"})",
                                       R"({"op": "lock", "tokens": [1, 2, 3], "ns": "b"})"})
        ASSERT_EQ(prefix_sim_apply(sim, before, PREFIX_NUL, nullptr), PREFIX_OK);
    };
    fresh(true);
    every_allocation(
        {operation,
         [&](prefix_error* e) { return prefix_sim_apply(sim, operation, PREFIX_NUL, e); }, fresh});
  }
  // One that goes on after all of that still works.
  {
    const Sim tried = make_sim(R"({"capacity": 64})");
    for (const char* const operation : kOperations)
      every_allocation(
          {operation,
           [&](prefix_error* e) {
             const prefix_status s = prefix_sim_apply(tried, operation, PREFIX_NUL, e);
             return s == PREFIX_ERR_MISUSE || s == PREFIX_ERR_CACHE_FULL ? PREFIX_OK : s;
           },
           [&](bool) {
             for (const char* const after : {R"({"op":"insert","tokens":[9,8,7]})",
                                             R"({"op":"evict","n":2})", R"({"op":"dump"})"})
               EXPECT_EQ(prefix_sim_apply(tried, after, PREFIX_NUL, nullptr), PREFIX_OK);
           }});
  }
  Sim sim = make_sim(R"({"capacity": 30})");
  const Tokens tokens(40, 3);
  every_allocation({"prefix_sim_request",
                    [&](prefix_error* e) {
                      return prefix_sim_request(sim, "a", 1, tokens.data(), 40, 30, nullptr, e);
                    },
                    [&](bool) { sim = make_sim(R"({"capacity": 30})"); }});
}

TEST(Memory, OrderingAndPartitioning) {
  std::vector<int64_t> cells;
  Tokens tokens;
  std::vector<int64_t> offsets = {0};
  for (int64_t r = 0; r < 40; ++r) {
    for (int64_t c = 0; c < 3; ++c) cells.push_back(r * (c + 3) % 7);
    for (prefix_token t = 0; t < 5; ++t) tokens.push_back(static_cast<prefix_token>(r) % (t + 2));
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  std::vector<int64_t> rows(40, -1), order(40, -1), work(4, -1), computed(40, -1);
  std::vector<int32_t> columns(120, -1), parts(40, -1);
  const auto written_only_when = [](auto& list) {
    return [&list](bool ok) {
      EXPECT_EQ(list[0] != -1, ok);
      std::fill(list.begin(), list.end(), -1);
    };
  };
  every_allocation({"prefix_order",
                    [&](prefix_error* e) {
                      return prefix_order(cells.data(), 120, nullptr, 0, 3, rows.data(), 40,
                                          columns.data(), 120, nullptr, e);
                    },
                    written_only_when(rows)});
  every_allocation({"prefix_partition",
                    [&](prefix_error* e) {
                      return prefix_partition(tokens.data(), tokens.size(), offsets.data(), 41, 4,
                                              0, parts.data(), 40, order.data(), 40, work.data(), 4,
                                              nullptr, e);
                    },
                    written_only_when(work)});
  every_allocation({"prefix_estimate_batch",
                    [&](prefix_error* e) {
                      return prefix_estimate_batch(tokens.data(), tokens.size(), offsets.data(), 41,
                                                   computed.data(), 40, nullptr, e);
                    },
                    written_only_when(computed)});
}

TEST(Memory, SimulatingAHybridModel) {
  for (const char* const options :
       {R"({"hybrid": {"state_bytes": 9, "kv_bytes": 1}, "capacity": 90,
            "admission": ["branch", "end", "prompt", "placed"]})",
        R"({"hybrid": {"state_bytes": 9, "kv_bytes": 1}, "capacity": 90, "policy": "marconi",
            "compat": "marconi"})",
        R"({"hybrid": {"state_bytes": 9, "kv_bytes": 1}, "capacity": 90, "policy": "block"})"}) {
    prefix_sim* made = nullptr;
    every_allocation(
        {"prefix_sim_create",
         [&](prefix_error* e) { return prefix_sim_create(options, PREFIX_NUL, &made, e); },
         [&](bool ok) {
           EXPECT_EQ(made != nullptr, ok);
           prefix_sim_release(std::exchange(made, nullptr));
         }});
    Sim sim;
    const auto request = [&](const Tokens& tokens, prefix_error* e) {
      return prefix_sim_request(sim, "a", 1, tokens.data(), tokens.size(), 20, nullptr, e);
    };
    const Tokens before(30, 3);
    Tokens tokens(36, 3);
    tokens[25] = 4;
    const auto fresh = [&](bool ok) {
      // Its trees may differ from each other: it says so, and does not go on.
      if (!ok)
        for (int i = 0; i < 2; ++i) {
          const prefix_status s = request(tokens, nullptr);
          EXPECT_TRUE(s == PREFIX_OK || s == PREFIX_ERR_OUT_OF_MEMORY) << s;
        }
      sim = make_sim(options);
      ASSERT_EQ(request(before, nullptr), PREFIX_OK);
    };
    fresh(true);
    every_allocation(
        {"prefix_sim_request", [&](prefix_error* e) { return request(tokens, e); }, fresh});
  }
}

// What a caller does to the cache finds no memory: it is done or it is not, requests get the same values
// afterwards, and nothing of the cache is lost.
TEST(Memory, ChangingTheCache) {
  const std::string snapshot = testing::TempDir() + "memory_test.snapshot";
  Tokens path(100), branch(70);
  for (size_t i = 0; i < path.size(); ++i) path[i] = static_cast<prefix_token>(i % 7);
  std::copy_n(path.begin(), 50, branch.begin());
  const Settings settings = {{"threads", "1"}, {"cache_events", "64"}};
  int32_t name_space = 0;
  const auto values = [&](prefix_engine* engine, const Tokens& tokens) {
    const Options options = make_options({{"namespace_id", std::to_string(name_space).c_str()}});
    const Batch batch = make_batch(engine);
    add_logits(batch, tokens, {0, 1, 2}, options);
    return values_of(run(engine, batch), 0);
  };
  const auto filled = [&] {
    Engine engine = make_engine(settings);
    EXPECT_EQ(prefix_namespace_open(engine, "n", 1, &name_space, nullptr), PREFIX_OK);
    values(engine, path);
    values(engine, branch);
    return engine;
  };
  std::vector<float> wanted;
  {
    const Engine engine = filled();
    wanted = values(engine, path);
    ASSERT_EQ(
        prefix_snapshot_save(engine, snapshot.c_str(), PREFIX_NUL, nullptr, 0, nullptr, nullptr),
        PREFIX_OK);
  }
  using Change =
      prefix_status (*)(prefix_engine*, int32_t, const Tokens&, const char*, prefix_error*);
  const std::pair<const char*, Change> changes[] = {
      {"evict", [](prefix_engine* g, int32_t n, const Tokens& t, const char*,
                   prefix_error* e) { return prefix_cache_evict(g, n, t.data(), 40, nullptr, e); }},
      {"drop", [](prefix_engine* g, int32_t n, const Tokens&, const char*,
                  prefix_error* e) { return prefix_namespace_drop(g, n, nullptr, e); }},
      {"trim", [](prefix_engine* g, int32_t, const Tokens&, const char*,
                  prefix_error* e) { return prefix_cache_trim(g, 1, nullptr, e); }},
      {"pin",
       [](prefix_engine* g, int32_t n, const Tokens& t, const char*, prefix_error* e) {
         int64_t lease = 0, pinned = 0;
         const prefix_status s = prefix_cache_pin(g, n, t.data(), t.size(), 0, &lease, &pinned, e);
         if (s == PREFIX_OK) prefix_cache_unpin(g, lease, nullptr);
         return s;
       }},
      {"limits",
       [](prefix_engine* g, int32_t n, const Tokens&, const char*, prefix_error* e) {
         const prefix_status s = prefix_cache_set_limits(g, n, 0, 1 << 20, e);
         if (s == PREFIX_OK) prefix_cache_set_limits(g, n, 0, 0, nullptr);
         return s;
       }},
      {"close", [](prefix_engine* g, int32_t n, const Tokens&, const char*,
                   prefix_error* e) { return prefix_namespace_close(g, n, nullptr, e); }},
      {"load", [](prefix_engine* g, int32_t, const Tokens&, const char* file, prefix_error* e) {
         prefix_cache_trim(g, 0, nullptr, nullptr);
         return prefix_snapshot_load(g, file, PREFIX_NUL, nullptr, e);
       }}};
  for (const auto& [name, change] : changes) {
    bool more = true;
    for (int64_t nth = 0; more; nth += quick() ? 7 : 1) {
      SCOPED_TRACE(std::string(name) + ", allocation " + std::to_string(nth));
      const Engine engine = filled();
      Error error;
      prefix_status status = PREFIX_OK;
      more = failing(nth % 2 ? Fail::kOnce : Fail::kFromThenOn, nth,
                     [&] { status = change(engine, name_space, path, snapshot.c_str(), &error); });
      if (status != PREFIX_OK) {
        ASSERT_EQ(status, PREFIX_ERR_OUT_OF_MEMORY) << error.message;
      }
      expect_told(engine);
      // A namespace that is closed is another one when it is opened again.
      ASSERT_EQ(prefix_namespace_open(engine, "n", 1, &name_space, nullptr), PREFIX_OK);
      EXPECT_EQ(values(engine, branch), values(engine, branch));
      EXPECT_EQ(values(engine, path), wanted);
      expect_nothing_left(engine);
      if (HasFailure()) return;
    }
  }
}

// A name that stood for one adapter stands for another, or for none: with all that follows, or not at all.
TEST(Memory, ChangingAnAdapter) {
  const prefix::testing_support::TempFolder first, second;
  prefix::tools::write_adapter(first.path(), {}, {});
  prefix::tools::write_adapter(second.path(), {}, {.seed = 2});
  const Options with = make_options({{"adapter", "a"}});
  const auto values = [&](prefix_engine* engine) {
    const Batch batch = make_batch(engine);
    add_logits(batch, {1, 2, 3, 4, 5}, {0, 1, 2}, with);
    return values_of(run(engine, batch), 0);
  };
  const auto load = [](prefix_engine* engine, const std::string& path, prefix_error* e) {
    return prefix_adapter_load(engine, "a", PREFIX_NUL, path.c_str(), PREFIX_NUL, e);
  };
  const auto made = [&](const std::string& path) {
    Engine engine = make_engine({{"threads", "1"}});
    EXPECT_EQ(load(engine, path, nullptr), PREFIX_OK);
    return engine;
  };
  const std::vector<float> before = values(made(first.path())), after = values(made(second.path()));
  ASSERT_NE(before, after);
  const auto changes = [&](prefix_engine* engine, bool loads, prefix_error* e) {
    return loads ? load(engine, second.path(), e)
                 : prefix_adapter_unload(engine, "a", PREFIX_NUL, e);
  };
  for (const bool loads : {true, false}) {
    constexpr int64_t kMany = 1 << 20;
    const Engine whole = made(first.path());
    failing(Fail::kOnce, kMany, [&] { changes(whole, loads, nullptr); });
    const int64_t all = kMany - left;
    ASSERT_GT(all, 0);
    // What changes the engine comes last.
    for (int64_t nth = 0; nth < all; nth += nth < all - 40 ? 1 + (all - nth) / 16 : 1) {
      SCOPED_TRACE(std::string(loads ? "load" : "unload") + ", allocation " + std::to_string(nth));
      const Engine engine = made(first.path());
      values(engine);
      Error error;
      prefix_status status = PREFIX_OK;
      failing(nth % 2 ? Fail::kOnce : Fail::kFromThenOn, nth,
              [&] { status = changes(engine, loads, &error); });
      if (status == PREFIX_OK) continue;
      ASSERT_EQ(status, PREFIX_ERR_OUT_OF_MEMORY) << error.message;
      EXPECT_EQ(values(engine), before);
      ASSERT_EQ(changes(engine, loads, &error), PREFIX_OK) << error.message;
      if (loads) {
        EXPECT_EQ(values(engine), after);
      }
      expect_nothing_left(engine);
      if (HasFailure()) return;
    }
  }
}

// Memory that is short for the engine's own threads while a batch runs: every request ends, with OK
// or a status that tells of it, and the process lives. Where the engine cannot go on, it says so
// from then on.
void run_out(Fail how, int64_t nth, int64_t* failures) {
  const Engine engine = make_engine({{"rows", "16"}});
  const Options options =
      make_options({{"max_tokens", "6"}, {"ignore_eos", "true"}, {"temperature", "1"}});
  const Batch batch = make_batch(engine);
  const Tokens choice_tokens = {4, 5, 6};
  const int64_t offsets[] = {0, 1, 3};
  for (int i = 0; i < 3; ++i) {
    add_logits(batch, {1, 2, 3, i});
    add_generate(batch, {1, 2, i}, options);
    ASSERT_EQ(prefix_batch_add_choices(batch, choice_tokens.data(), 3, choice_tokens.data(), 3,
                                       offsets, 3, nullptr, 0, nullptr, nullptr),
              PREFIX_OK);
  }
  prefix_job* job = nullptr;
  prefix_status submitted = PREFIX_OK, waited = PREFIX_OK;
  failing(
      how, nth,
      [&] {
        submitted = prefix_submit(engine, batch, &job, nullptr);
        if (job) waited = prefix_job_wait(job, -1, nullptr);
      },
      true);
  ASSERT_EQ(submitted, PREFIX_OK);
  ASSERT_EQ(waited, PREFIX_OK);
  int ends = 0;
  prefix_event event = PREFIX_EVENT_INIT;
  while (prefix_job_next_event(job, -1, &event, nullptr) == PREFIX_OK)
    ends += event.kind == PREFIX_EVENT_FINISHED || event.kind == PREFIX_EVENT_ERROR;
  EXPECT_EQ(ends, 9);
  for (size_t i = 0; i < 9; ++i) {
    const prefix_status status = info_of(job, i).status;
    if (status == PREFIX_OK) continue;
    ++*failures;
    EXPECT_TRUE(status == PREFIX_ERR_OUT_OF_MEMORY || status == PREFIX_ERR_ENGINE_FAILED)
        << prefix_status_name(status) << ": " << message_of(job, i);
    EXPECT_FALSE(message_of(job, i).empty());
  }
  if (prefix_engine_state(engine) == PREFIX_ENGINE_READY) {
    expect_nothing_left(engine);
    expect_works(engine);
  } else {
    EXPECT_EQ(prefix_engine_state(engine), PREFIX_ENGINE_FAILED);
    Job none;
    expect(PREFIX_ERR_ENGINE_FAILED,
           [&](prefix_error* e) { return prefix_run(engine, batch, none.out(), e); });
  }
  prefix_job_release(job);
}

TEST(Memory, Running) {
  int64_t failures = 0;
  for (int64_t nth = 0; nth < 2000 && !HasFailure(); nth += nth < 60 ? 1 : (quick() ? 301 : 37)) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    run_out(Fail::kOnce, nth, &failures);
  }
  EXPECT_GT(failures, 0);
}

TEST(Memory, RunningWithoutAnyMore) {
  int64_t failures = 0;
  for (int64_t nth = 0; nth < 2000 && !HasFailure(); nth += nth < 60 ? 1 : (quick() ? 301 : 37)) {
    SCOPED_TRACE("from allocation " + std::to_string(nth));
    run_out(Fail::kFromThenOn, nth, &failures);
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace prefix_abi
