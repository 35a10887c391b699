// What a C program may do wrong with tasks: handles that are none, buffers and structs of the wrong
// size, lists that contradict themselves. Each is answered with a status.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

prefix_queue* some_queue() {
  static const prefix_abi::Queue queue = prefix_abi::make_queue();
  return queue;
}

// Every call that takes a task, by name; `release` is apart, since it cannot fail.
struct TaskCall {
  const char* name;
  prefix_status (*call)(prefix_task*, prefix_error*);
};
const TaskCall kTaskCalls[] = {
    {"prefix_task_retain",
     [](prefix_task* t, prefix_error* e) {
       const prefix_status status = prefix_task_retain(t, e);
       if (status == PREFIX_OK) prefix_task_release(t);
       return status;
     }},
    {"prefix_task_wait", [](prefix_task* t, prefix_error* e) { return prefix_task_wait(t, 0, e); }},
    {"prefix_task_notify",
     [](prefix_task* t, prefix_error* e) { return prefix_task_notify(t, some_queue(), 1, e); }},
    {"prefix_task_notify_events",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_notify_events(t, some_queue(), 1, e);
     }},
    {"prefix_task_cancel",
     [](prefix_task* t, prefix_error* e) { return prefix_task_cancel(t, e); }},
    {"prefix_task_count",
     [](prefix_task* t, prefix_error* e) {
       size_t n = 0;
       return prefix_task_count(t, &n, e);
     }},
    {"prefix_task_finished_count",
     [](prefix_task* t, prefix_error* e) {
       size_t n = 0;
       return prefix_task_finished_count(t, &n, e);
     }},
    {"prefix_task_next_event",
     [](prefix_task* t, prefix_error* e) {
       prefix_event event = PREFIX_EVENT_INIT;
       return prefix_task_next_event(t, 0, &event, nullptr, 0, nullptr, e);
     }},
    {"prefix_task_width",
     [](prefix_task* t, prefix_error* e) {
       size_t n = 0;
       return prefix_task_width(t, &n, e);
     }},
    {"prefix_task_item_tokens",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_item_tokens(t, 0, nullptr, 0, nullptr, e);
     }},
    {"prefix_task_item_info",
     [](prefix_task* t, prefix_error* e) {
       prefix_result_info out = PREFIX_RESULT_INFO_INIT;
       return prefix_task_item_info(t, 0, &out, e);
     }},
    {"prefix_task_item_message",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_item_message(t, 0, nullptr, 0, nullptr, e);
     }},
    {"prefix_task_item_values",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_item_values(t, 0, nullptr, 0, nullptr, e);
     }},
    {"prefix_task_item_text",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_item_text(t, 0, nullptr, 0, nullptr, e);
     }},
    {"prefix_task_item_partial_text",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_item_partial_text(t, 0, nullptr, 0, nullptr, e);
     }},
    {"prefix_task_item_logprobs",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_item_logprobs(t, 0, 0, nullptr, 0, nullptr, nullptr, 0, nullptr, 0, e);
     }},
    {"prefix_task_item_top",
     [](prefix_task* t, prefix_error* e) {
       // Of an item without tokens every place is beyond them.
       const prefix_status status =
           prefix_task_item_top(t, 0, 0, nullptr, 0, nullptr, nullptr, 0, e);
       return status == PREFIX_ERR_OUT_OF_RANGE ? PREFIX_OK : status;
     }},
    {"prefix_task_all_values",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_all_values(t, nullptr, 0, nullptr, e);
     }},
    {"prefix_task_statuses",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_statuses(t, nullptr, 0, nullptr, e);
     }},
    {"prefix_task_first_failure",
     [](prefix_task* t, prefix_error* e) {
       size_t item = 0;
       return prefix_task_first_failure(t, &item, e);
     }},
    {"prefix_task_ranking",
     [](prefix_task* t, prefix_error* e) {
       return prefix_task_ranking(t, 0, 3, nullptr, 0, nullptr, nullptr, 0, e);
     }},
    {"prefix_task_get_totals",
     [](prefix_task* t, prefix_error* e) {
       prefix_job_totals out = PREFIX_JOB_TOTALS_INIT;
       return prefix_task_get_totals(t, &out, e);
     }},
};

Task finished_task(const prefix_tokenizer* tokenizer, prefix_engine* engine) {
  Task task = rerank(engine, tokenizer, {"What?"}, {"Bread.", "Rivers and trees.", "\xff"});
  run(task);
  return task;
}

TEST(TaskHandles, EveryFunctionRefusesWhatIsNoTask) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  Task task = finished_task(tokenizer, engine);
  for (const TaskCall& f : kTaskCalls) {
    SCOPED_TRACE(f.name);
    Error error;
    const bool tells = f.name == std::string("prefix_task_first_failure");
    EXPECT_EQ(f.call(task, &error), tells ? PREFIX_ERR_INVALID_UTF8 : PREFIX_OK) << error.message;
  }
  prefix_task* const released = task.give_up();
  prefix_task_release(released);
  int stack = 0;
  const std::vector<std::pair<prefix_task*, prefix_status>> wrong = {
      {nullptr, PREFIX_ERR_INVALID_ARGUMENT},
      {released, PREFIX_ERR_MISUSE},
      {reinterpret_cast<prefix_task*>(1), PREFIX_ERR_MISUSE},
      {reinterpret_cast<prefix_task*>(~uintptr_t{0}), PREFIX_ERR_MISUSE},
      {reinterpret_cast<prefix_task*>(&stack), PREFIX_ERR_MISUSE},
      {reinterpret_cast<prefix_task*>(static_cast<prefix_engine*>(engine)), PREFIX_ERR_MISUSE},
      {reinterpret_cast<prefix_task*>(static_cast<prefix_tokenizer*>(tokenizer)),
       PREFIX_ERR_MISUSE},
  };
  for (const auto& [handle, status] : wrong) {
    for (const TaskCall& f : kTaskCalls) {
      SCOPED_TRACE(f.name);
      expect(status, [&, h = handle](prefix_error* e) { return f.call(h, e); }, {"task"});
      Error error;
      f.call(handle, &error);
      EXPECT_STREQ(error.domain, f.name);
      EXPECT_EQ(f.call(handle, nullptr), status) << "without an error to write to";
    }
    prefix_task_release(handle);
  }
  // Releasing what is no task has released nothing else.
  EXPECT_EQ(prefix_tokenizer_retain(tokenizer, nullptr), PREFIX_OK);
  prefix_tokenizer_release(tokenizer);
  prefix_abi::expect_works(engine);
}

// Only the calling thread lives on in a child; it is told so instead of waiting for locks.
TEST(TaskHandles, AForkedChildIsToldSo) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = finished_task(tokenizer, engine);
  some_queue();  // made by the parent
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int wrong = 0;
    for (const TaskCall& f : kTaskCalls) wrong += f.call(task, nullptr) != PREFIX_ERR_FORKED;
    prefix_task_release(task);
    _exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "functions that did not say FORKED";
  EXPECT_EQ(values(task).size(), 3u) << "the parent keeps what it has";
}

TEST(TaskHandles, MakersRefuseWhatIsNoEngineOrTokenizer) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  prefix_engine* gone = words_engine().give_up();
  prefix_engine_release(gone);
  Tokenizer other = words_tokenizer();
  prefix_tokenizer* const gone_tokenizer = other.give_up();
  prefix_tokenizer_release(gone_tokenizer);

  struct Pair {
    prefix_engine* engine;
    const prefix_tokenizer* tokenizer;
    prefix_status status;
    const char* word;
  };
  const Pair pairs[] = {
      {nullptr, tokenizer, PREFIX_ERR_INVALID_ARGUMENT, "engine is NULL"},
      {gone, tokenizer, PREFIX_ERR_MISUSE, "engine"},
      {reinterpret_cast<prefix_engine*>(3), tokenizer, PREFIX_ERR_MISUSE, "engine"},
      {reinterpret_cast<prefix_engine*>(static_cast<prefix_tokenizer*>(tokenizer)), tokenizer,
       PREFIX_ERR_MISUSE, "engine"},
      {engine, nullptr, PREFIX_ERR_INVALID_ARGUMENT, "tokenizer is NULL"},
      {engine, gone_tokenizer, PREFIX_ERR_MISUSE, "tokenizer"},
      {engine, reinterpret_cast<const prefix_tokenizer*>(static_cast<prefix_engine*>(engine)),
       PREFIX_ERR_MISUSE, "tokenizer"},
  };
  for (const Pair& p : pairs) {
    prefix_task* out = nullptr;
    expect(p.status,
           [&](prefix_error* e) {
             return prefix_task_create(p.engine, p.tokenizer, "embed", 5, nullptr, &out, e);
           },
           {p.word});
    EXPECT_EQ(out, nullptr);
  }
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_task_create(engine, tokenizer, "embed", 5, nullptr, nullptr, e);
         },
         {"out is NULL"});
  prefix_task* out = nullptr;
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_task_create(engine, tokenizer, nullptr, 5, nullptr, &out, e);
         },
         {"kind is NULL"});
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) {
           return prefix_task_create(engine, tokenizer, "embed", 5,
                                     reinterpret_cast<const prefix_options*>(3), &out, e);
         },
         {"options"});
  EXPECT_EQ(out, nullptr);
}

TEST(TaskHandles, AQueueMustBeOne) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = embed(engine, tokenizer, {"a"});
  auto* const wrong = reinterpret_cast<prefix_queue*>(static_cast<prefix_engine*>(engine));
  for (prefix_queue* const queue : {static_cast<prefix_queue*>(nullptr), wrong}) {
    const prefix_status status = queue ? PREFIX_ERR_MISUSE : PREFIX_ERR_INVALID_ARGUMENT;
    expect(status, [&](prefix_error* e) { return prefix_task_notify(task, queue, 1, e); },
           {"queue"});
    expect(status, [&](prefix_error* e) { return prefix_task_notify_events(task, queue, 1, e); },
           {"queue"});
  }
}

// What all items would stumble over is refused before there are items.
TEST(TaskLists, LabelsMustBeUtf8) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = task_of(engine, tokenizer, "classify");
  expect(PREFIX_ERR_INVALID_UTF8,
         [&](prefix_error* e) { return try_set_labels(task, {"a", "\x80"}, e); }, {"label 1"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) { return try_set_labels(task, {}, e); },
         {"labels"});

  const Task bad = rerank(engine, tokenizer, {"q", "\xff"}, {"d\xc3", "ok"});
  run(bad);
  EXPECT_EQ(statuses(bad),
            (std::vector<int32_t>{PREFIX_ERR_INVALID_UTF8, PREFIX_OK, PREFIX_ERR_INVALID_UTF8,
                                  PREFIX_ERR_INVALID_UTF8}));
  EXPECT_NE(message(bad, 0).find("document"), std::string::npos) << message(bad, 0);
  EXPECT_NE(message(bad, 2).find("query"), std::string::npos) << message(bad, 2);
}

// Lists of empty texts cost nothing, their product does.
TEST(TaskLists, TooManyItemsAreRefused) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Texts many(Strings(100'000));
  const Task task = rerank(engine, tokenizer, {"q"}, {"d"});
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) { return try_add_product(task, many, many, 0, nullptr, e); },
         {"10000000000 more items", "16777216"});
  run(task);
  EXPECT_EQ(statuses(task), std::vector<int32_t>{PREFIX_OK});
}

TEST(TaskBuffers, TakeAllOrNothing) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = finished_task(tokenizer, engine);
  float scores[3] = {7, 7, 7};
  size_t needed = 0;
  expect(PREFIX_ERR_BUFFER_TOO_SMALL,
         [&](prefix_error* e) { return prefix_task_all_values(task, scores, 2, &needed, e); });
  EXPECT_EQ(needed, 3u);
  EXPECT_EQ(scores[0], 7);
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_task_all_values(task, nullptr, 3, &needed, e); },
         {"capacity"});
  int64_t columns[2] = {-1, -1};
  expect(PREFIX_ERR_BUFFER_TOO_SMALL, [&](prefix_error* e) {
    return prefix_task_ranking(task, 0, 3, columns, 1, &needed, scores, 3, e);
  });
  EXPECT_EQ(needed, 2u) << "the document that failed has no place";
  EXPECT_EQ(columns[0], -1);
  expect(PREFIX_ERR_BUFFER_TOO_SMALL, [&](prefix_error* e) {
    return prefix_task_ranking(task, 0, 3, columns, 2, &needed, scores, 1, e);
  });
  EXPECT_EQ(columns[0], -1);
  EXPECT_EQ(scores[0], 7);
  int32_t status[3];
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_statuses(task, status, 3, nullptr, e); });
  EXPECT_EQ(status[2], PREFIX_ERR_INVALID_UTF8);

  char text[8];
  std::memset(text, '?', sizeof(text));
  expect(PREFIX_ERR_BUFFER_TOO_SMALL,
         [&](prefix_error* e) { return prefix_task_item_message(task, 2, text, 4, &needed, e); });
  EXPECT_EQ(std::string(text, 5), "?????");
  EXPECT_GT(needed, 8u);
  expect(PREFIX_ERR_INVALID_UTF8,
         [&](prefix_error* e) { return prefix_task_item_text(task, 2, text, 4, &needed, e); },
         {"document"});
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_item_message(task, 0, text, 4, &needed, e); });
  EXPECT_EQ(needed, 0u);
  EXPECT_EQ(text[0], 0);
}

TEST(TaskBuffers, IndexesHaveLimits) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = finished_task(tokenizer, engine);
  prefix_result_info item{};
  item.struct_size = sizeof(item);
  for (const size_t index : {size_t{3}, std::numeric_limits<size_t>::max()}) {
    const std::string number = std::to_string(index);
    const auto refused = [&](auto call) { expect(PREFIX_ERR_OUT_OF_RANGE, call, {number}); };
    refused([&](prefix_error* e) { return prefix_task_item_info(task, index, &item, e); });
    refused([&](prefix_error* e) {
      return prefix_task_item_message(task, index, nullptr, 0, nullptr, e);
    });
    refused([&](prefix_error* e) {
      return prefix_task_item_text(task, index, nullptr, 0, nullptr, e);
    });
    refused([&](prefix_error* e) {
      return prefix_task_item_partial_text(task, index, nullptr, 0, nullptr, e);
    });
    refused([&](prefix_error* e) {
      return prefix_task_item_logprobs(task, index, 0, nullptr, 0, nullptr, nullptr, 0, nullptr, 0,
                                       e);
    });
    refused([&](prefix_error* e) {
      return prefix_task_item_top(task, index, 0, nullptr, 0, nullptr, nullptr, 0, e);
    });
    refused([&](prefix_error* e) {
      return prefix_task_item_tokens(task, index, nullptr, 0, nullptr, e);
    });
    refused([&](prefix_error* e) {
      return prefix_task_item_values(task, index, nullptr, 0, nullptr, e);
    });
  }
  const size_t most = std::numeric_limits<size_t>::max();
  const std::pair<size_t, size_t> ranges[] = {{4, 0}, {0, 4}, {3, 1}, {most, 1}, {1, most}};
  for (const auto& [first, count] : ranges)
    expect(PREFIX_ERR_OUT_OF_RANGE,
           [&, f = first, c = count](prefix_error* e) {
             return prefix_task_ranking(task, f, c, nullptr, 0, nullptr, nullptr, 0, e);
           },
           {std::to_string(first), std::to_string(count), "has 3"});
  const Task vectors = embed(engine, tokenizer, {"a"});
  run(vectors);
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) {
           return prefix_task_ranking(vectors, 0, 1, nullptr, 0, nullptr, nullptr, 0, e);
         },
         {"rerank and classify"});
  EXPECT_EQ(answer_text(vectors, 0), "");
}

// The Rust side has the structs of the file that bindgen made of prefix.h: one that is older than
// the header would show here, by its size or by what its fields hold.
template <typename Struct, typename Call>
void expect_struct_rules(const char* name, const Call& call) {
  struct Larger {
    Struct known;
    char rest[24];
  };
  for (const size_t size : {size_t{0}, size_t{4}, sizeof(Struct) - 1}) {
    Struct out;
    std::memset(&out, 0x5a, sizeof(out));
    out.struct_size = static_cast<int32_t>(size);
    const Struct before = out;
    expect(PREFIX_ERR_STRUCT_TOO_OLD, [&](prefix_error* e) { return call(&out, e); },
           {name, std::to_string(size), std::to_string(sizeof(Struct))});
    EXPECT_EQ(std::memcmp(&out, &before, sizeof(out)), 0) << "nothing is written";
  }
  Struct negative{};
  negative.struct_size = -1;
  expect(PREFIX_ERR_STRUCT_TOO_OLD, [&](prefix_error* e) { return call(&negative, e); });

  Larger larger;
  std::memset(&larger, 0x5a, sizeof(larger));
  larger.known.struct_size = sizeof(larger);
  expect(PREFIX_OK, [&](prefix_error* e) { return call(&larger.known, e); });
  EXPECT_EQ(larger.known.struct_size, static_cast<int32_t>(sizeof(larger)));
  for (const char c : larger.rest) EXPECT_EQ(c, 0x5a) << "behind what the library knows";

  Struct exact{};
  exact.struct_size = sizeof(exact);
  expect(PREFIX_OK, [&](prefix_error* e) { return call(&exact, e); });
  exact.struct_size = sizeof(larger);
  EXPECT_EQ(std::memcmp(&exact, &larger.known, sizeof(exact)), 0);
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) { return call(nullptr, e); }, {"NULL"});
}

TEST(TaskStructs, FollowStructSize) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = finished_task(tokenizer, engine);
  expect_struct_rules<prefix_result_info>("prefix_result_info",
                                          [&](prefix_result_info* out, prefix_error* e) {
                                            return prefix_task_item_info(task, 0, out, e);
                                          });
  expect_struct_rules<prefix_job_totals>("prefix_job_totals",
                                         [&](prefix_job_totals* out, prefix_error* e) {
                                           return prefix_task_get_totals(task, out, e);
                                         });
  // An error without its size is left alone.
  prefix_error blank{};
  EXPECT_EQ(prefix_task_wait(nullptr, 0, &blank), PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(blank.code, 0);
}

TEST(TaskStructs, HoldWhatTheEngineCounted) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = answer(engine, tokenizer, "Bread is baked from flour.",
                           {"What is baked?", "From what?", "\xff"},
                           {{"recipe", "extractive-qa"}, {"max_tokens", 3}, {"ignore_eos", true}});
  run(task);
  prefix_engine_stats stats{};
  stats.struct_size = sizeof(stats);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_stats(engine, &stats, e); });
  const prefix_job_totals t = totals(task);
  EXPECT_EQ(t.requests, 3);
  EXPECT_EQ(t.failed, 1);
  EXPECT_EQ(t.tokens_given, stats.tokens_given);
  EXPECT_EQ(t.tokens_computed, stats.tokens_computed);
  EXPECT_EQ(t.tokens_cached, stats.tokens_cached);
  EXPECT_EQ(t.tokens_shared, stats.tokens_shared);
  EXPECT_EQ(t.tokens_generated, stats.tokens_generated);
  EXPECT_EQ(t.steps, stats.steps);
  EXPECT_EQ(t.rows, stats.rows);
  EXPECT_GT(t.total_us, 0);

  int64_t generated = 0, prompts = 0;
  for (size_t i = 0; i < 2; ++i) {
    const prefix_result_info item = info(task, i);
    EXPECT_EQ(item.status, PREFIX_OK);
    EXPECT_TRUE(item.finish == PREFIX_FINISH_LENGTH || item.finish == PREFIX_FINISH_STOP);
    EXPECT_EQ(item.user_tag, 0);
    EXPECT_EQ(item.prompt_tokens, item.cached_tokens + item.shared_tokens + item.computed_tokens);
    EXPECT_LE(item.queue_us, item.first_us);
    EXPECT_LE(item.first_us, item.total_us);
    EXPECT_GT(item.total_us, 0);
    generated += item.generated_tokens;
    prompts += item.prompt_tokens;
  }
  EXPECT_EQ(generated, t.tokens_generated);
  EXPECT_EQ(prompts, t.tokens_given);
  EXPECT_GT(t.tokens_shared, 0);
}

}  // namespace
}  // namespace prefix_tasks
