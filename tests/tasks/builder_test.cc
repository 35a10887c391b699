// What a task is filled with, and when: pairs, products, lists, none at all; calls that come too
// early or too late; texts that leave nothing of a prompt.
#include <gtest/gtest.h>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

TEST(Builder, EverythingHasItsMoment) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(3));
  size_t count = 0, needed = 77;
  prefix_result_info item = PREFIX_RESULT_INFO_INIT;
  prefix_job_totals all = PREFIX_JOB_TOTALS_INIT;
  prefix_event event = PREFIX_EVENT_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_count(task, &count, e); });
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(done(task), 0u);
  const auto early = [&](auto call) { expect(PREFIX_ERR_MISUSE, call, {"not submitted"}); };
  early([&](prefix_error* e) { return prefix_task_wait(task, 0, e); });
  early([&](prefix_error* e) { return prefix_task_width(task, &needed, e); });
  early([&](prefix_error* e) { return prefix_task_all_values(task, nullptr, 0, &needed, e); });
  early([&](prefix_error* e) {
    return prefix_task_ranking(task, 0, 0, nullptr, 0, &needed, nullptr, 0, e);
  });
  early([&](prefix_error* e) { return prefix_task_statuses(task, nullptr, 0, &needed, e); });
  early([&](prefix_error* e) { return prefix_task_item_info(task, 0, &item, e); });
  early([&](prefix_error* e) { return prefix_task_item_message(task, 0, nullptr, 0, &needed, e); });
  early([&](prefix_error* e) { return prefix_task_first_failure(task, &needed, e); });
  early([&](prefix_error* e) { return prefix_task_get_totals(task, &all, e); });
  early([&](prefix_error* e) {
    return prefix_task_next_event(task, 0, &event, nullptr, 0, &needed, e);
  });
  EXPECT_EQ(needed, 77u);
  run(task);
  const auto late = [&](auto call) { expect(PREFIX_ERR_MISUSE, call, {"was submitted"}); };
  late([&](prefix_error* e) { return prefix_task_submit(task, e); });
  late([&](prefix_error* e) { return try_add(task, {"a", "b"}, 0, nullptr, e); });
  late([&](prefix_error* e) { return try_add_product(task, {"a"}, {"b"}, 0, nullptr, e); });
  late([&](prefix_error* e) { return try_set_labels(task, {"a"}, e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_count(task, &count, e); });
  EXPECT_EQ(count, 3u);
}

// Pairs, products and lists in one task; what each item is shows in its score and tag.
TEST(Builder, PairsAndProductsWithTags) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Texts queries = {"What is baked?", "Where is it?"}, texts = {"Bread.", "In Paris.", "No."};
  const Task task = task_of(engine, tokenizer, "rerank");
  EXPECT_EQ(add(task, {queries.list[1], texts.list[0], queries.list[0], texts.list[2]}, 5), 0u);
  EXPECT_EQ(add_product(task, queries, texts, -6), 2u);
  EXPECT_EQ(add(task, {}, 9), 8u);
  run(task);
  const std::vector<float> got = values(task);
  ASSERT_EQ(got.size(), 8u);
  const std::vector<float> table = values_after_run(rerank(engine, tokenizer, queries, texts));
  EXPECT_EQ(got[0], table[3]);
  EXPECT_EQ(got[1], table[2]);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(got[2 + i], table[i]) << i;
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(info(task, i).user_tag, i < 2 ? 5 : -6) << i;
  float one = 0;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_item_values(task, 4, &one, 1, nullptr, e); });
  EXPECT_EQ(one, got[4]);
}

// The prompt of an item, to look for it in the cache: all of it is there once the task is done.
TEST(Builder, TokensOfAnItemAreThoseOfItsRequest) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"What?"}, {"Bread.", "A longer text\xff"});
  const std::vector<prefix_token> before = tokens_of(task, 0);
  const auto cached = [&] {
    prefix_cache_info found = PREFIX_CACHE_INFO_INIT;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_cache_lookup(engine, 0, before.data(), before.size(), &found, e);
    });
    return found.cached_tokens;
  };
  EXPECT_EQ(cached(), 0);
  expect(PREFIX_ERR_INVALID_UTF8,
         [&](prefix_error* e) { return prefix_task_item_tokens(task, 1, nullptr, 0, nullptr, e); });
  run(task);
  EXPECT_EQ(tokens_of(task, 0), before);
  EXPECT_EQ(info(task, 0).prompt_tokens, static_cast<int64_t>(before.size()));
  EXPECT_GE(cached(), static_cast<int64_t>(before.size()) - 1);
}

// lengths may be left out, all or single ones.
TEST(Builder, TextsMayEndWithAZero) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const char* const texts[] = {"Bread and more", "Rain"};
  const size_t lengths[] = {5, PREFIX_NUL};
  const Task task = task_of(engine, tokenizer, "embed");
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_add(task, texts, lengths, 2, 0, nullptr, e); });
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_add(task, texts, nullptr, 2, 0, nullptr, e); });
  EXPECT_TRUE(same_bits(
      values_after_run(task),
      values_after_run(embed(engine, tokenizer, {"Bread", "Rain", "Bread and more", "Rain"}))));
}

// What is wrong with a call leaves the task as it was.
TEST(Builder, CallsThatFailAddNothing) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, {"Rivers."});
  const char* const missing[] = {"a", nullptr};
  size_t index = 77;
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_task_add(task, missing, nullptr, 2, 0, &index, e); },
         {"text 1", "texts is NULL"});
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_task_add(task, nullptr, nullptr, 2, 0, &index, e); },
         {"texts is NULL"});
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return try_add(task, {"a", "b", "c"}, 0, &index, e); },
         {"3 texts", "query, document"});
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_task_add_product(task, missing, nullptr, 1, missing + 1, nullptr, 1, 0,
                                          &index, e);
         },
         {"seconds"});
  expect(PREFIX_ERR_MISUSE, [&](prefix_error* e) { return try_set_labels(task, {"a"}, e); },
         {"rerank has no labels"});
  EXPECT_EQ(index, 77u);
  run(task);
  EXPECT_EQ(statuses(task), std::vector<int32_t>{PREFIX_OK});

  const Task labels = task_of(engine, tokenizer, "classify");
  add(labels, {"a"});
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_task_submit(labels, e); }, {"no labels"});
  expect(PREFIX_OK, [&](prefix_error* e) { return try_set_labels(labels, {"x", "y"}, e); });
  run(labels);
  EXPECT_EQ(values(labels).size(), 2u) << "a submission that failed may be repeated";
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return try_add_product(task, {"a"}, {"b"}, 0, nullptr, e); });
}

TEST(Options, NamespacesShareNothing) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto cached = [&](const char* tenant) {
    const Task task = rerank(engine, tokenizer, {"Trees?"}, documents(10), {{"namespace", tenant}});
    run(task);
    return totals(task).tokens_cached;
  };
  EXPECT_EQ(cached("one"), 0);
  EXPECT_GT(cached("one"), 0);
  EXPECT_EQ(cached("two"), 0);
}

TEST(Empty, ListsAreTasksWithoutItems) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  struct Case {
    Task task;
    size_t width;
  };
  std::vector<Case> cases;
  cases.push_back({rerank(engine, tokenizer, {}, {"a", "b"}), 1});
  cases.push_back({rerank(engine, tokenizer, {"a", "b"}, {}), 1});
  cases.push_back({embed(engine, tokenizer, {}), 128});
  cases.push_back({answer(engine, tokenizer, "context", {}), 0});
  cases.push_back({classify(engine, tokenizer, {}, {"a"}), 1});
  for (const Case& c : cases) {
    run(c.task);
    size_t width = 77;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_width(c.task, &width, e); });
    EXPECT_EQ(width, c.width);
    EXPECT_TRUE(values(c.task).empty());
    EXPECT_TRUE(statuses(c.task).empty());
    EXPECT_EQ(totals(c.task).requests, 0);
    prefix_event event = PREFIX_EVENT_INIT;
    expect(PREFIX_ERR_NO_EVENT, [&](prefix_error* e) {
      return prefix_task_next_event(c.task, -1, &event, nullptr, 0, nullptr, e);
    });
  }
  EXPECT_TRUE(ranking(cases[1].task, 0, 0).empty());
}

// An empty text has no tokens of its own; whether that is enough depends on the prompt around it.
TEST(Empty, TextsFailAloneWhereNothingIsLeft) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task bare = embed(engine, tokenizer, {"a", "", "b"});
  run(bare);
  EXPECT_EQ(statuses(bare),
            (std::vector<int32_t>{PREFIX_OK, PREFIX_ERR_INVALID_ARGUMENT, PREFIX_OK}));
  EXPECT_NE(message(bare, 1).find("no tokens"), std::string::npos) << message(bare, 1);
  const Task with_end = embed(engine, tokenizer, {"a", "", "b"}, {{"recipe", "qwen3-embedding"}});
  run(with_end);
  EXPECT_EQ(statuses(with_end), std::vector<int32_t>(3, PREFIX_OK));
  const Task ranked = rerank(engine, tokenizer, {""}, {""});
  run(ranked);
  EXPECT_EQ(statuses(ranked), std::vector<int32_t>(1, PREFIX_OK));
}

}  // namespace
}  // namespace prefix_tasks
