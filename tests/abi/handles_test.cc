// Rule 1: whatever is given as a handle or left NULL is answered with a status, never with a crash.
#include <algorithm>
#include <cstdint>
#include <set>

#include "abi_support.h"
#include "every_function.h"

namespace prefix_abi {
namespace {

// Arguments that a live handle would be content with.
struct GoodArguments : Arguments {
  GoodArguments() {
    text = "{}";
    tokens = some_tokens;
    n_tokens = 2;
    offsets = some_offsets;
    n_offsets = 3;
    number = 1;
    options = &options_slot;
    engine = &engine_slot;
    batch = &batch_slot;
    job = &job_slot;
    queue = &queue_slot;
    sim = &sim_slot;
    source = &source_slot;
    read = [](void*, int64_t, void*, size_t) { return int32_t{1}; };
    pool = &pool_slot;
    constraint_calls = &kAnyToken;
    constraint = &constraint_slot;
    size = &size_slot;
    number_out = &number_slot;
    long_out = &long_slot;
    buf = text_slot;
    fraction = &fraction_slot;
    floats = float_slots;
    tokens_out = token_slots;
    capacity = 4;
    (option_details = &option_slot)->struct_size = sizeof(option_slot);
    (device_details = &device_slot)->struct_size = sizeof(device_slot);
    (memory = &memory_slot)->struct_size = sizeof(memory_slot);
    (engine_info = &engine_info_slot)->struct_size = sizeof(engine_info_slot);
    (stats = &stats_slot)->struct_size = sizeof(stats_slot);
    (event = &event_slot)->struct_size = sizeof(event_slot);
    (info = &info_slot)->struct_size = sizeof(info_slot);
    (totals = &totals_slot)->struct_size = sizeof(totals_slot);
    (cache = &cache_slot)->struct_size = sizeof(cache_slot);
    (usage = &usage_slot)->struct_size = sizeof(usage_slot);
    (cache_event = &cache_event_slot)->struct_size = sizeof(cache_event_slot);
    (snapshot = &snapshot_slot)->struct_size = sizeof(snapshot_slot);
    err = &error;
  }
  GoodArguments(const GoodArguments&) = delete;
  GoodArguments& operator=(const GoodArguments&) = delete;

  prefix_token some_tokens[2] = {1, 2};
  int64_t some_offsets[3] = {0, 1, 2};
  prefix_options* options_slot = nullptr;
  prefix_engine* engine_slot = nullptr;
  prefix_batch* batch_slot = nullptr;
  prefix_job* job_slot = nullptr;
  prefix_queue* queue_slot = nullptr;
  prefix_sim* sim_slot = nullptr;
  prefix_source* source_slot = nullptr;
  prefix_pool* pool_slot = nullptr;
  prefix_constraint* constraint_slot = nullptr;
  size_t size_slot = 0;
  int32_t number_slot = 0;
  int64_t long_slot = 0;
  char text_slot[4] = {};
  double fraction_slot = 0;
  float float_slots[4] = {};
  prefix_token token_slots[4] = {};
  prefix_option_details option_slot{};
  prefix_device_details device_slot{};
  prefix_memory memory_slot{};
  prefix_engine_info engine_info_slot{};
  prefix_engine_stats stats_slot{};
  prefix_event event_slot{};
  prefix_result_info info_slot{};
  prefix_job_totals totals_slot{};
  prefix_cache_info cache_slot{};
  prefix_cache_usage usage_slot{};
  prefix_cache_event cache_event_slot{};
  prefix_snapshot_info snapshot_slot{};
  Error error;
};

Handles same_for_all(void* pointer) {
  return {static_cast<prefix_options*>(pointer),   static_cast<prefix_engine*>(pointer),
          static_cast<prefix_batch*>(pointer),     static_cast<prefix_job*>(pointer),
          static_cast<prefix_queue*>(pointer),     static_cast<prefix_sim*>(pointer),
          static_cast<prefix_source*>(pointer),    static_cast<prefix_pool*>(pointer),
          static_cast<prefix_constraint*>(pointer)};
}

// Every function that takes a handle must see that these are none.
void expect_misuse(const Handles& handles, const char* what) {
  for (const Function& f : every_function()) {
    if (!f.takes_handle) continue;
    SCOPED_TRACE(std::string(f.name) + " with " + what);
    GoodArguments a;
    const prefix_status status = f.call(handles, a);
    if (!f.fallible) continue;
    EXPECT_EQ(status, PREFIX_ERR_MISUSE) << prefix_status_name(status) << ": " << a.error.message;
    EXPECT_EQ(a.error.code, PREFIX_ERR_MISUSE);
    EXPECT_STREQ(a.error.domain, f.name);
    EXPECT_NE(a.error.message[0], 0);
    EXPECT_EQ(a.job_slot, nullptr);
  }
  EXPECT_EQ(prefix_engine_state(handles.engine), PREFIX_ENGINE_CLOSED);
}

// One of each kind, with a finished job.
struct LiveHandles {
  Options options = make_options({});
  Engine engine = make_engine();
  Batch batch = make_batch(engine);
  Job job;
  Queue queue = make_queue();
  Sim sim = make_sim();
  Source source = make_source();
  Pool pool = make_pool();
  Constraint constraint = make_constraint(kAnyToken);
  LiveHandles() {
    add_logits(batch, {1, 2, 3});
    job = run(engine, batch);
  }
  Handles all() const {
    return {options, engine, batch, job, queue, sim, source, pool, constraint};
  }
};

TEST(Handles, TheListOfTestedFunctionsIsTheHeaders) {
  std::set<std::string> tested;
  for (const Function& f : every_function()) EXPECT_TRUE(tested.insert(f.name).second) << f.name;
  std::set<std::string> promised;
#define X(name) promised.insert(#name);
  PREFIX_FUNCTIONS(X)
#undef X
  EXPECT_EQ(tested, promised);
}

TEST(Handles, NullEverywhereIsInvalid) {
  for (const Function& f : every_function()) {
    SCOPED_TRACE(f.name);
    const prefix_status status = f.call(Handles{}, Arguments{});
    if (!f.fallible || f.with_null_arguments == PREFIX_ERR_NO_EVENT) continue;
    EXPECT_EQ(status, f.name == std::string("prefix_engine_shutdown") ? PREFIX_ERR_OUT_OF_RANGE
                                                                      : PREFIX_ERR_INVALID_ARGUMENT)
        << prefix_status_name(status);
  }
}

TEST(Handles, NullHandlesWithGoodArgumentsAreInvalid) {
  for (const Function& f : every_function()) {
    if (!f.takes_handle || !f.fallible) continue;
    SCOPED_TRACE(f.name);
    GoodArguments a;
    EXPECT_EQ(f.call(Handles{}, a), PREFIX_ERR_INVALID_ARGUMENT) << a.error.message;
    EXPECT_NE(std::string_view(a.error.message).find("NULL"), std::string_view::npos);
  }
}

TEST(Handles, NullArgumentsWithLiveHandles) {
  const LiveHandles live;
  for (const Function& f : every_function()) {
    if (!f.fallible) continue;
    SCOPED_TRACE(f.name);
    EXPECT_EQ(f.call(live.all(), Arguments{}), f.with_null_arguments);
  }
  // The references that the retains above added.
  prefix_options_release(live.options);
  prefix_engine_release(live.engine);
  prefix_batch_release(live.batch);
  prefix_job_release(live.job);
  prefix_queue_release(live.queue);
  prefix_sim_release(live.sim);
  prefix_source_release(live.source);
  prefix_pool_release(live.pool);
  prefix_constraint_release(live.constraint);
  expect_works(live.engine);
}

TEST(Handles, GarbageIsMisuse) {
  int on_the_stack = 0;
  expect_misuse(same_for_all(&on_the_stack), "a stack address");
  for (const uint64_t bits :
       {uint64_t{1}, uint64_t{15}, uint64_t{16}, uint64_t{0x7fffffff}, ~uint64_t{0},
        uint64_t{0xdeadbeefdeadbeef}, uint64_t{1} << 63, uint64_t{0xfffffff1}})
    expect_misuse(same_for_all(reinterpret_cast<void*>(static_cast<uintptr_t>(bits))), "garbage");
}

TEST(Handles, NeighboursOfALiveHandleAreMisuse) {
  const LiveHandles live;
  const Handles good = live.all();
  const auto moved = [](auto* handle, uint64_t by) {
    return reinterpret_cast<decltype(handle)>(reinterpret_cast<uintptr_t>(handle) + by);
  };
  for (const uint64_t by : {uint64_t{5}, ~uint64_t{0} - 10, uint64_t{1} << 32, uint64_t{1} << 27})
    expect_misuse({moved(good.options, by), moved(good.engine, by), moved(good.batch, by),
                   moved(good.job, by), moved(good.queue, by), moved(good.sim, by),
                   moved(good.source, by), moved(good.pool, by), moved(good.constraint, by)},
                  "a neighbour of a handle");
  expect_works(live.engine);
}

TEST(Handles, OneKindIsNotAnother) {
  const LiveHandles live;
  const Handles good = live.all();
  expect_misuse(
      {reinterpret_cast<prefix_options*>(good.engine), reinterpret_cast<prefix_engine*>(good.batch),
       reinterpret_cast<prefix_batch*>(good.job), reinterpret_cast<prefix_job*>(good.queue),
       reinterpret_cast<prefix_queue*>(good.sim), reinterpret_cast<prefix_sim*>(good.source),
       reinterpret_cast<prefix_source*>(good.pool), reinterpret_cast<prefix_pool*>(good.constraint),
       reinterpret_cast<prefix_constraint*>(good.options)},
      "a handle of another kind");
  expect_works(live.engine);
}

TEST(Handles, ReleasedHandlesAreMisuse) {
  Handles released;
  {
    const LiveHandles live;
    released = live.all();
  }
  expect_misuse(released, "a released handle");
  const LiveHandles reused;  // takes the slots of the released ones
  expect_misuse(released, "a released handle whose place was taken");
  expect_works(reused.engine);
}

// Options are not needed, so a bad one is a mistake that would otherwise pass unseen.
TEST(Handles, BadOptionsAreMisuseEvenWhereTheyMayBeNull) {
  const LiveHandles live;
  Handles handles = live.all();
  Options gone = make_options({});
  handles.options = gone;
  prefix_options_release(gone.give_up());
  const std::set<std::string> optional = {
      "prefix_engine_estimate",    "prefix_engine_create",           "prefix_engine_open",
      "prefix_engine_open_source", "prefix_batch_add_logits",        "prefix_batch_add_logprobs",
      "prefix_batch_add_choices",  "prefix_batch_add_continuations", "prefix_batch_add_embedding",
      "prefix_batch_add_generate", "prefix_batch_add_warm",          "prefix_pool_create"};
  for (const Function& f : every_function()) {
    if (!optional.count(f.name)) continue;
    SCOPED_TRACE(f.name);
    GoodArguments a;
    a.text = model_path().c_str();
    EXPECT_EQ(f.call(handles, a), PREFIX_ERR_MISUSE) << a.error.message;
    EXPECT_EQ(a.engine_slot, nullptr);
  }
  size_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_count(live.batch, &count, e); });
  EXPECT_EQ(count, 1u) << "a call that fails changes nothing";
}

TEST(Handles, ABatchMustFitItsEngine) {
  const Engine first = make_engine(), second = make_engine();
  const Batch batch = make_batch(first);
  add_logits(batch, {1, 2});
  Job job;
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_run(second, batch, job.out(), e); },
         {"another engine"});
  const Batch plan_only = make_batch(nullptr);
  add_logits(plan_only, {1, 2});
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_submit(first, plan_only, job.out(), e); },
         {"only to plan"});
  EXPECT_EQ(job, nullptr);
}

// References are counted: a handle lives as long as the last of them.
TEST(Handles, RetainedHandlesLiveUntilTheLastRelease) {
  LiveHandles live;
  for (int i = 0; i < 3; ++i) {
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_retain(live.engine, e); });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_retain(live.job, e); });
  }
  for (int i = 0; i < 3; ++i) {
    prefix_engine_release(live.engine);
    prefix_job_release(live.job);
    expect_works(live.engine);
    EXPECT_EQ(values_of(live.job, 0).size(), 3u);
  }
  prefix_engine* const engine = live.engine;
  prefix_job* const job = live.job;
  prefix_engine_release(live.engine.give_up());
  prefix_job_release(live.job.give_up());
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) { return prefix_engine_retain(engine, e); });
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) { return prefix_job_retain(job, e); });
}

}  // namespace
}  // namespace prefix_abi
