// Option samples: several texts of one prompt, each the text of a task with a seed of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

constexpr int64_t kLastSeed = 9'000'000'000'000'000;

struct Drawn {
  std::string text;
  int64_t seed = 0;
  std::vector<prefix_token> tokens;
  std::vector<float> logprobs;
  bool operator==(const Drawn&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Drawn& drawn) {
    return out << drawn.seed << ": " << drawn.text;
  }
};

Drawn drawn(const prefix_task* task, size_t item) {
  Drawn found{answer_text(task, item), info(task, item).seed, std::vector<prefix_token>(64),
              std::vector<float>(64)};
  size_t n = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_item_logprobs(task, item, 0, found.tokens.data(), 64, &n,
                                     found.logprobs.data(), 64, nullptr, 0, e);
  });
  found.tokens.resize(n);
  found.logprobs.resize(n);
  return found;
}

Json drawing(const Json& more = Json::object()) {
  Json options = {{"max_tokens", 12}, {"temperature", 1.5}, {"logprobs", true}};
  options.update(more);
  return options;
}

// Two prompts of each kind.
void add_two(prefix_task* task, const std::string& kind) {
  const std::string messages = R"([{"role": "user", "content": "Which tree?"}])";
  const std::string others = R"([{"role": "user", "content": "Whose bread?"}])";
  if (kind == "answer")
    add_product(task, {"Rivers and trees."}, {"Which one?", "Where?"});
  else
    add(task, kind == "chat" ? Texts{messages, others} : Texts{"Rivers and", "One"});
}

size_t count_of(const prefix_task* task) {
  size_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_count(task, &count, e); });
  return count;
}

TEST(Samples, AreTheTextsOfSingleTasksWithTheSeedsBehind) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (const char* kind : {"generate", "answer", "chat"}) {
    const Task task = task_of(engine, tokenizer, kind, drawing({{"samples", 3}, {"seed", 40}}));
    add_two(task, kind);
    EXPECT_EQ(count_of(task), 6u);
    run(task);
    std::set<std::string> texts;
    for (size_t k = 0; k < 3; ++k) {
      const Task single = task_of(engine, tokenizer, kind, drawing({{"seed", 40 + k}}));
      add_two(single, kind);
      run(single);
      for (size_t prompt = 0; prompt < 2; ++prompt) {
        const Drawn wanted = drawn(single, prompt);
        ASSERT_FALSE(wanted.text.empty()) << kind;
        EXPECT_EQ(wanted.seed, static_cast<int64_t>(40 + k));
        EXPECT_EQ(drawn(task, prompt * 3 + k), wanted) << kind << " " << prompt << " " << k;
        texts.insert(wanted.text);
      }
    }
    EXPECT_EQ(texts.size(), 6u) << kind << ": no two are the same by chance";
  }
}

TEST(Samples, HaveNewSeedsUnlessOneIsSet) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (const Json& more : {Json::object(), Json{{"seed", -1}}}) {
    Json options = drawing({{"samples", 8}});
    options.update(more);
    const Task task = task_of(engine, tokenizer, "generate", options);
    add(task, {"Rivers and", "One"});
    run(task);
    std::set<int64_t> seeds;
    for (size_t item = 0; item < 16; ++item) seeds.insert(info(task, item).seed);
    EXPECT_EQ(seeds.size(), 16u) << options;
  }
}

TEST(Samples, TheFirstSeedFollowsTheLast) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task =
      task_of(engine, tokenizer, "generate", drawing({{"samples", 3}, {"seed", kLastSeed - 1}}));
  add(task, {"Rivers"});
  run(task);
  EXPECT_EQ(info(task, 0).seed, kLastSeed - 1);
  EXPECT_EQ(info(task, 1).seed, kLastSeed);
  EXPECT_EQ(info(task, 2).seed, 0);
}

TEST(Samples, AreAllTheSameAtTemperatureZero) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task =
      task_of(engine, tokenizer, "generate", {{"max_tokens", 12}, {"samples", 4}, {"seed", 3}});
  add(task, {"Rivers and"});
  run(task);
  ASSERT_FALSE(answer_text(task, 0).empty());
  for (size_t item = 1; item < 4; ++item) EXPECT_EQ(answer_text(task, item), answer_text(task, 0));
}

// Whether anything is kept between requests or not, and also where a prompt's samples do not fit into one chunk.
TEST(Samples, OfOnePromptCostItsWorkOnce) {
  const Tokenizer tokenizer = words_tokenizer();
  const std::string prompt = [] {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "Tree " + std::to_string(i * 7919 % 1009) + " is old. ";
    return text;
  }();
  for (const char* cache : {"true", "false"}) {
    for (const char* queue : {"1000", "8"}) {
      if (cache == std::string_view("false") && queue == std::string_view("8")) continue;
      const Engine engine = words_engine({{"cache", cache}, {"queue_limit", queue}});
      const Task task =
          task_of(engine, tokenizer, "generate",
                  drawing({{"samples", 16}, {"max_tokens", 4}, {"ignore_eos", true}}));
      add(task, {prompt});
      run(task);
      const prefix_job_totals sum = totals(task);
      const int64_t length = info(task, 0).prompt_tokens;
      ASSERT_GT(length, 200);
      EXPECT_EQ(sum.requests, 16);
      EXPECT_EQ(sum.tokens_given, 16 * length);
      EXPECT_EQ(sum.tokens_generated, 16 * 4);
      // The last token of a prompt has to be there for every chunk's first draws.
      EXPECT_LE(sum.tokens_computed, length + 16 * 4) << cache << " " << queue;
      int64_t found = 0;
      for (size_t item = 0; item < 16; ++item) {
        const prefix_result_info result = info(task, item);
        EXPECT_EQ(result.prompt_tokens, length);
        found += result.cached_tokens + result.shared_tokens;
      }
      EXPECT_GE(found, 15 * (length - 1)) << cache << " " << queue;
    }
  }
}

TEST(Samples, AreItemsWithNumbersTagsAndFailuresOfTheirOwn) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = task_of(engine, tokenizer, "answer",
                            drawing({{"samples", 3}, {"recipe", "extractive-qa"}, {"seed", 5}}));
  EXPECT_EQ(add(task, {"Rivers and trees.", "Which one?"}, 7), 0u);
  EXPECT_EQ(add_product(task, {"Bread.", "\xff"}, {"Where?", "Who?"}, 8), 3u);
  EXPECT_EQ(add(task, {"Salt.", "Which one?"}, 9), 15u);
  EXPECT_EQ(count_of(task), 18u);
  for (size_t item = 0; item < 9; ++item)
    EXPECT_EQ(tokens_of(task, item), tokens_of(task, item / 3 * 3)) << item;
  EXPECT_NE(tokens_of(task, 3), tokens_of(task, 6));
  run(task);
  const std::vector<int32_t> status = statuses(task);
  ASSERT_EQ(status.size(), 18u);
  for (size_t item = 0; item < 18; ++item) {
    const bool is_bad = item >= 9 && item < 15;
    EXPECT_EQ(status[item], is_bad ? PREFIX_ERR_INVALID_UTF8 : PREFIX_OK) << item;
    EXPECT_EQ(info(task, item).user_tag, item < 3 ? 7 : item < 15 ? 8 : 9);
    EXPECT_EQ(message(task, item).empty(), !is_bad);
    if (!is_bad) {
      EXPECT_EQ(info(task, item).seed, static_cast<int64_t>(5 + item % 3));
    }
  }
  EXPECT_EQ(totals(task).failed, 6);
}

TEST(Samples, OfAPromptThatWasCutAllSaySo) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task =
      task_of(engine, tokenizer, "answer",
              drawing({{"samples", 2}, {"max_prompt_tokens", 120}, {"recipe", "extractive-qa"}}));
  std::string context;
  for (int i = 0; i < 60; ++i) context += "Rivers and trees. ";
  add(task, {"Bread.", "Why?", context, "Why?"});
  run(task);
  for (size_t item = 0; item < 4; ++item) {
    EXPECT_EQ(info(task, item).status, PREFIX_OK) << message(task, item);
    EXPECT_EQ(was_cut(task, item), item >= 2) << item;
  }
}

TEST(Samples, AreStreamedEachAndEndByThemselves) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Json options = drawing({{"seed", 11}, {"max_tokens", 40}, {"stop", {"a"}}});
  Json streamed = options;
  streamed.update({{"samples", 4}, {"stream", true}});
  const Task task = task_of(engine, tokenizer, "generate", streamed);
  add(task, {"Rivers", "One"});
  submit(task);
  Strings texts(8);
  std::vector<int> ended(8);
  for (const Seen& seen : events(task)) {
    const auto item = static_cast<size_t>(seen.event.request);
    if (seen.event.kind == PREFIX_EVENT_TEXT)
      texts.at(item) += seen.text;
    else
      ++ended.at(item);
  }
  size_t stopped = 0;
  for (size_t k = 0; k < 4; ++k) {
    Json own = options;
    own["seed"] = 11 + k;
    const Task single = task_of(engine, tokenizer, "generate", own);
    add(single, {"Rivers", "One"});
    run(single);
    for (size_t prompt = 0; prompt < 2; ++prompt) {
      const size_t item = prompt * 4 + k;
      EXPECT_EQ(ended[item], 1);
      EXPECT_EQ(texts[item], answer_text(single, prompt)) << item;
      EXPECT_EQ(info(task, item).finish, info(single, prompt).finish) << item;
      stopped += info(task, item).finish == PREFIX_FINISH_STOP;
    }
  }
  EXPECT_GT(stopped, 0u);
  EXPECT_EQ(texts[0].find('a'), std::string::npos);
}

// A text by rules has a place in them of its own.
TEST(Samples, KeepToTheirRulesEach) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = task_of(
      engine, tokenizer, "generate",
      drawing(
          {{"samples", 12}, {"regex", "(yes|no)( [0-9]){3}"}, {"seed", 1}, {"max_tokens", 60}}));
  add(task, {"Rivers"});
  run(task);
  std::set<std::string> texts;
  for (size_t item = 0; item < 12; ++item) {
    const std::string text = answer_text(task, item);
    EXPECT_EQ(info(task, item).finish, PREFIX_FINISH_STOP) << message(task, item);
    const size_t word = text.starts_with("yes") ? 3 : 2;
    EXPECT_TRUE(text.starts_with("yes") || text.starts_with("no")) << text;
    EXPECT_EQ(text.size(), word + 6) << text;
    texts.insert(text);
  }
  EXPECT_GT(texts.size(), 6u);
}

TEST(Samples, AreAtMostSoMany) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (const char* value : {"0", "-1", "1025", "9000000000000000000"}) {
    Task task;
    expect(PREFIX_ERR_OUT_OF_RANGE,
           [&](prefix_error* e) {
             return try_create(engine, tokenizer, "generate",
                               R"({"samples": )" + std::string(value) + "}", task.out(), e);
           },
           {"samples", value, "1", "1024"});
  }
  const Task most = task_of(engine, tokenizer, "generate",
                            {{"samples", 1024}, {"max_tokens", 1}, {"temperature", 1}});
  add(most, {"Rivers"});
  run(most);
  const std::vector<int32_t> status = statuses(most);
  EXPECT_EQ(std::ranges::count(status, PREFIX_OK), 1024);
}

TEST(Samples, AreOfTasksThatWriteTexts) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (const char* kind : {"rerank", "embed", "classify"}) {
    Task task;
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) {
             return try_create(engine, tokenizer, kind, R"({"samples": 2})", task.out(), e);
           },
           {"samples", kind, "answer, generate, chat"});
  }
}

TEST(Samples, OfACancelledTaskEachHasItsEnd) {
  const Engine engine = words_engine({{"queue_limit", "4"}});
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = task_of(engine, tokenizer, "generate",
                            drawing({{"samples", 100}, {"max_tokens", 800}, {"ignore_eos", true}}));
  add(task, {"Rivers", "One"});
  submit(task);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_cancel(task, e); });
  wait(task);
  const std::vector<int32_t> status = statuses(task);
  ASSERT_EQ(status.size(), 200u);
  EXPECT_EQ(status.back(), PREFIX_ERR_CANCELLED);
  for (const int32_t one : status) EXPECT_TRUE(one == PREFIX_OK || one == PREFIX_ERR_CANCELLED);
}

}  // namespace
}  // namespace prefix_tasks
