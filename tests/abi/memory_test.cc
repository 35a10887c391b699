// Out of memory, at every allocation there is: operator new of this program is the library's too,
// so it can be told to fail. (memory_limit_test.cc does the same with a real limit of the system.)
#include "failing_memory.h"

namespace prefix_abi {
namespace {

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

TEST(Memory, AConstraintThatIsNotMadeIsNotReleased) {
  prefix_constraint_calls calls = kAnyToken;
  calls.release = [](void* user) { ++*static_cast<int*>(user); };
  int released = 0;
  prefix_constraint* made = nullptr;
  every_allocation(
      {"prefix_constraint_create",
       [&](prefix_error* e) { return prefix_constraint_create(&calls, &released, &made, e); },
       [&](bool ok) {
         EXPECT_EQ(made != nullptr, ok);
         EXPECT_EQ(released, 0);
         prefix_constraint_release(std::exchange(made, nullptr));
         EXPECT_EQ(std::exchange(released, 0), ok ? 1 : 0);
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
                    },
                    true},
                   quick() ? 97 : 3);
}

// A load that rounds weights by what they are multiplied with says so when it cannot:
// others would come of less.
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
                    },
                    true},
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

// Memory that is short for the engine's own threads while a batch runs: every request ends, with OK
// or a status that tells of it, and the process lives. Where the engine cannot go on, it says so
// from then on.
void run_out(Fail how, int64_t nth, int64_t* failures) {
  const Engine engine = make_engine({{"rows", "16"}});
  const Options options = make_options({{"max_tokens", "6"},
                                        {"ignore_eos", "true"},
                                        {"temperature", "1"},
                                        {"frequency_penalty", "1"},
                                        {"top_logprobs", "3"}});
  const Constraint constraint = make_constraint(kAnyToken);
  const Batch batch = make_batch(engine);
  const Tokens choice_tokens = {4, 5, 6};
  const int64_t offsets[] = {0, 1, 3};
  for (int i = 0; i < 3; ++i) {
    add_logits(batch, {1, 2, 3, i});
    add_generate(batch, {1, 2, i}, options);
    if (i == 0) {
      ASSERT_EQ(prefix_batch_constrain(batch, 1, constraint, nullptr), PREFIX_OK);
    }
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
