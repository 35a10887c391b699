// prefix_text.hpp: what it adds to the C interface, which is tested elsewhere.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <list>
#include <prefix_text.hpp>
#include <type_traits>

#include "support/build_folder.h"

namespace {

using std::chrono::milliseconds;
using Strings = std::vector<std::string>;
using Numbers = std::vector<prefix_token>;

template <typename Texts>
constexpr bool kTextsOfPairs = requires { Texts{{"a", "b"}, {"c", "d"}}; };

// Written by tools/golden/make_models.py before the tests run; 1,024 positions.
const std::string kModel = prefix::testing_support::build_folder() + "/golden-models/qwen3-words";

prefix::Engine words_engine() {
  const auto options =
      prefix::Options().set("cache_bytes", "64M").set("threads", 2).set("dtype", "f32");
  return prefix::Engine(kModel, &options);
}

TEST(CppText, ATokenizer) {
  const prefix::Tokenizer tokenizer(kModel);
  const std::string text = "Rivers and trees: \xc3\xa9.";
  const Numbers tokens = tokenizer.encode(text);
  ASSERT_FALSE(tokens.empty());
  EXPECT_EQ(tokenizer.decode(tokens), text);
  EXPECT_GT(tokenizer.vocab_size(), tokens[0]);
  EXPECT_FALSE(tokenizer.token_bytes(tokens[0]).empty());
  EXPECT_FALSE(tokenizer.end_tokens().empty());
  EXPECT_EQ(tokenizer.special_token("nonsense"), std::nullopt);
  EXPECT_EQ(tokenizer.token_id("\xc3\xa9 of none"), std::nullopt);
  EXPECT_NE(tokenizer.info_json().find("vocab_size"), std::string::npos);
  const std::string_view messages = R"([{"role": "user", "content": "Trees?"}])";
  const std::string prompt = tokenizer.chat_text(messages);
  EXPECT_NE(prompt.find("Trees?"), std::string::npos);
  EXPECT_EQ(tokenizer.chat_tokens(messages), tokenizer.encode(prompt));
  const std::string_view open = R"({"add_generation_prompt": false})";
  const std::string unasked = tokenizer.chat_text(messages, open);
  EXPECT_NE(unasked, prompt);
  EXPECT_EQ(tokenizer.chat_tokens(messages, open), tokenizer.encode(unasked));

  prefix::Detokenizer detok(tokenizer);
  std::string again;
  for (const prefix_token token : tokens) again += detok.push(token);
  EXPECT_EQ(again + detok.flush(), text);
  EXPECT_EQ(detok.push(tokens) + detok.flush(), text);
}

TEST(CppText, ATokenizerThatFails) {
  prefix_error error = PREFIX_ERROR_INIT;
  const prefix::Tokenizer none("/nowhere", &error);
  EXPECT_EQ(error.code, PREFIX_ERR_NOT_FOUND);
  EXPECT_EQ(none.get(), nullptr);
  EXPECT_TRUE(none.encode("a", 0, &error).empty());
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(none.special_token("bos", &error), std::nullopt);
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_ARGUMENT) << "not the same as a token that is not there";
  EXPECT_THROW(none.special_token("bos"), prefix::Error);
  EXPECT_THROW(prefix::Tokenizer::from_json("{}"), prefix::Error);
  EXPECT_THROW(prefix::recipe_json("nonsense"), prefix::Error);
  EXPECT_NE(prefix::recipe_json("completion").find("{prompt}"), std::string::npos);
}

TEST(CppText, TextsComeFromListsOfStrings) {
  const std::array<const char*, 2> pointers = {"one", "two"};
  const std::list<std::string> strings = {"one", "two"};
  const std::string_view views[] = {"one", std::string_view("two!", 3)};
  const auto same = [](const prefix::Texts& texts) {
    ASSERT_EQ(texts.size(), 2u);
    EXPECT_EQ(std::string_view(texts.data()[0], texts.lengths()[0]), "one");
    EXPECT_EQ(std::string_view(texts.data()[1], texts.lengths()[1]), "two");
  };
  same({"one", "two"});
  same({{"one", "two"}});
  same(pointers);
  same(strings);
  same(views);
  EXPECT_EQ(prefix::Texts(Strings{}).size(), 0u);
  EXPECT_THROW(prefix::Texts(std::array<const char*, 1>{nullptr}), prefix::Error);
  static_assert(!kTextsOfPairs<prefix::Texts>, "two items of two texts are four in a row");
  static_assert(!std::is_convertible_v<std::string, prefix::Texts>);
  static_assert(!std::is_convertible_v<Numbers, prefix::Texts>);
}

// What a ranking has computed is found in the cache by the tokens of its items,
// and what a batch has warmed is found by a ranking.
TEST(CppText, TheTokensOfRankedDocumentsAreInTheCache) {
  const prefix::Engine engine = words_engine();
  const prefix::Tokenizer tokenizer(kModel);
  Strings documents;
  for (int i = 0; i < 13; ++i) documents.push_back("Document " + std::to_string(i) + " of trees.");
  const auto task_of = [&] {
    prefix::Task task(engine, tokenizer, "rerank");
    task.add_product({"Trees?"}, documents);
    return task;
  };
  prefix::Task warmed = task_of();
  prefix::Batch batch(engine);
  batch.add_warm(warmed.tokens(5));
  (void)engine.run(batch);
  prefix::Task task = task_of();
  for (const prefix::Task* one : {&warmed, &task}) EXPECT_EQ(one->tokens(5), task.tokens(5));
  task.submit();
  task.wait();
  for (size_t item = 0; item < documents.size(); ++item) {
    const Numbers tokens = task.tokens(item);
    // The last one is only scored; but that of item 5 was warmed.
    const size_t kept = item == 5 ? tokens.size() : tokens.size() - 1;
    EXPECT_EQ(engine.cache().lookup(tokens).cached_tokens, static_cast<int64_t>(kept)) << item;
  }
  EXPECT_GT(task.info(5).cached_tokens, task.info(4).cached_tokens) << "it was warmed";
}

TEST(CppText, ManyTextsAndWhereTheirTokensComeFrom) {
  const prefix::Tokenizer tokenizer(kModel);
  std::vector<int64_t> offsets;
  const std::string text = "Rivers run.";
  const Numbers tokens = tokenizer.encode_offsets(text, offsets);
  EXPECT_EQ(tokens, tokenizer.encode(text));
  ASSERT_EQ(offsets.size(), 2 * tokens.size());
  EXPECT_EQ(offsets.front(), 0);
  EXPECT_EQ(offsets.back(), static_cast<int64_t>(text.size()));
  const Strings texts = {text, "", "Trees grow."};
  const std::vector<Numbers> lists = tokenizer.encode_batch(texts);
  ASSERT_EQ(lists.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(lists[i], tokenizer.encode(texts[i])) << i;
  EXPECT_EQ(tokenizer.encode_batch({"", ""}).size(), 2u);
  prefix_error error = PREFIX_ERROR_INIT;
  EXPECT_TRUE(tokenizer.encode_batch({"a", "\xff"}, 0, &error).empty()) << "not two empty lists";
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_UTF8);
  EXPECT_THROW(tokenizer.encode_batch({"a", "\xff"}), prefix::Error);
  const std::vector<std::string> names = prefix::recipes();
  EXPECT_NE(std::find(names.begin(), names.end(), "query-likelihood"), names.end());
  EXPECT_NE(prefix::text_version().find('.'), std::string::npos);
}

TEST(CppText, ARanking) {
  const prefix::Engine engine = words_engine();
  const prefix::Tokenizer tokenizer(kModel);
  const Strings documents = {"Rivers run to the sea.", "Trees grow.", "\xff"};
  prefix::Task task(engine, tokenizer, "rerank");
  EXPECT_EQ(task.add({"Trees?", "A tree."}, 5), 0u);
  EXPECT_EQ(task.add_product({"Rivers?", "Trees?"}, documents, 7), 1u);
  EXPECT_EQ(task.size(), 7u);
  const Numbers tokens = task.tokens(2);
  EXPECT_NE(tokens, task.tokens(1));
  EXPECT_THROW(task.wait(), prefix::Error) << "not submitted";
  prefix::Queue queue;
  task.notify(queue, 3);
  task.submit();
  EXPECT_TRUE(task.wait());
  EXPECT_EQ(queue.next(prefix::kForever), 3);
  EXPECT_EQ(task.finished_count(), 7u);
  EXPECT_GT(engine.cache().lookup(tokens).cached_tokens, 0);
  EXPECT_EQ(task.width(), 1u);
  EXPECT_EQ(task.info(0).user_tag, 5);
  EXPECT_EQ(task.info(1).user_tag, 7);

  const std::vector<float> all = task.all_values();
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(task.values(2), std::vector<float>{all[2]});
  const std::vector<prefix::Ranked> ranking = task.ranking(4, 3);
  ASSERT_EQ(ranking.size(), 2u) << "the one that failed has no place";
  EXPECT_GE(ranking[0].score, ranking[1].score);
  for (const auto& [place, score] : ranking) EXPECT_EQ(score, all[4 + place]);

  const std::vector<prefix_status> statuses = task.statuses();
  ASSERT_EQ(statuses.size(), 7u);
  EXPECT_EQ(statuses[3], PREFIX_ERR_INVALID_UTF8);
  EXPECT_TRUE(std::isnan(all[3]));
  const auto failure = task.first_failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->request, 3u);
  EXPECT_EQ(failure->error.code, PREFIX_ERR_INVALID_UTF8);
  EXPECT_NE(std::string(failure->error.message).find(task.message(3)), std::string::npos);
  EXPECT_THROW(task.values(3), prefix::Error);
  EXPECT_EQ(task.totals().failed, 2);
  prefix_error error = PREFIX_ERROR_INIT;
  EXPECT_TRUE(task.ranking(5, 3, &error).empty());
  EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE);
  // The room follows from what there is: -1 would make it 0, and others more than any memory.
  for (const size_t count : {SIZE_MAX, SIZE_MAX - 1, size_t{1} << 61}) {
    error.code = PREFIX_OK;
    EXPECT_TRUE(task.ranking(0, count, &error).empty());
    EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE) << count;
  }
  static_assert(std::is_nothrow_move_constructible_v<prefix::Task>);
  static_assert(!std::is_copy_constructible_v<prefix::Task>);
}

TEST(CppText, LabelsAndOptions) {
  const prefix::Engine engine = words_engine();
  const prefix::Tokenizer tokenizer(kModel);
  const prefix::Options options(R"({"top_n": 1})");
  prefix::Task task(engine, tokenizer, "classify", &options);
  task.set_labels({"river", "tree", "sea"});
  task.add({"Trees grow."});
  task.submit();
  task.wait();
  EXPECT_EQ(task.first_failure(), std::nullopt);
  EXPECT_EQ(task.width(), 3u);
  EXPECT_EQ(task.ranking(0, 3).size(), 1u);
  EXPECT_THROW(task.set_labels({"late"}), prefix::Error);
  try {
    prefix::Task(engine, tokenizer, "sort");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const prefix::Error& e) {
    EXPECT_EQ(e.status(), PREFIX_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(e.function(), "prefix_task_create");
  }
  EXPECT_THROW(prefix::Options(R"({"top": 1})"), prefix::Error);
}

TEST(CppText, TextsAreStreamed) {
  const prefix::Engine engine = words_engine();
  const prefix::Tokenizer tokenizer(kModel);
  const auto options = prefix::Options()
                           .set("stream", true)
                           .set("max_tokens", 40)
                           .set("ignore_eos", true)
                           .set("stop", Strings{"never, ever", "this"});
  EXPECT_EQ(options.value("stop"), R"(["never, ever","this"])");
  prefix::Task task(engine, tokenizer, "generate", &options);
  task.add({"Rivers", "Trees"});
  prefix::Queue queue;
  task.notify_events(queue, 9);
  task.submit();
  EXPECT_EQ(queue.next(prefix::kForever), 9);
  std::array<std::string, 2> texts;
  size_t ended = 0;
  while (const auto next = task.next_event()) {
    if (next->event.kind == PREFIX_EVENT_TEXT)
      texts.at(static_cast<size_t>(next->event.request)) += next->text;
    else
      ++ended;
  }
  EXPECT_EQ(ended, 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(texts[i].empty());
    EXPECT_EQ(texts[i], task.text(i));
    EXPECT_EQ(texts[i], task.partial_text(i));
  }
  prefix_error error = PREFIX_ERROR_INIT;
  EXPECT_EQ(task.next_event(milliseconds(0), &error), std::nullopt);
  EXPECT_EQ(error.code, PREFIX_OK) << "the end is no failure";
  EXPECT_THROW(prefix::Task(engine, tokenizer, "generate").next_event(), prefix::Error);
}

TEST(CppText, TheTokensOfATextHaveLogProbs) {
  const prefix::Engine engine = words_engine();
  const prefix::Tokenizer tokenizer(kModel);
  for (const int likely : {0, 2}) {
    const auto told =
        prefix::Options().max_tokens(100).ignore_eos(true).logprobs(true).top_logprobs(likely);
    prefix::Task task(engine, tokenizer, "generate", &told);
    task.add({"Rivers"});
    task.submit();
    task.wait();
    const Numbers prompt = task.tokens(0);
    prefix::Batch batch(engine);
    batch.add_generate(prompt, {&told});
    const prefix::Job job = engine.run(batch);
    const std::vector<prefix::TextToken> tokens = task.logprobs(0);
    ASSERT_EQ(tokens.size(), 100u);
    const auto top = job.top(0);
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(tokens[i].token, job.tokens(0)[i]);
      EXPECT_EQ(tokens[i].logprob, job.logprobs(0)[i]);
      EXPECT_LE(tokens[i].offset, task.text(0).size());
      ASSERT_EQ(tokens[i].top.size(), static_cast<size_t>(likely));
      for (size_t at = 0; at < tokens[i].top.size(); ++at) {
        EXPECT_EQ(tokens[i].top[at].token, top[i][at].token);
        EXPECT_EQ(tokens[i].top[at].logprob, top[i][at].logprob);
      }
    }
    const std::vector<prefix::TextToken> rest = task.logprobs(0, 97);
    ASSERT_EQ(rest.size(), 3u);
    EXPECT_EQ(rest[2].token, tokens[99].token);
    EXPECT_EQ(rest[2].offset, tokens[99].offset);
    EXPECT_EQ(rest[2].top.size(), static_cast<size_t>(likely));
    EXPECT_TRUE(task.logprobs(0, 100).empty());
    prefix_error error = PREFIX_ERROR_INIT;
    EXPECT_TRUE(task.logprobs(0, 101, &error).empty());
    EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE);
  }
}

TEST(CppText, CancelledTasksAndThoseWithoutAnOwnerEnd) {
  const prefix::Engine engine = words_engine();
  const prefix::Tokenizer tokenizer(kModel);
  const auto endless = prefix::Options().set("max_tokens", 900).set("ignore_eos", true);
  prefix::Task task(engine, tokenizer, "generate", &endless);
  task.add(Strings(50, "Rivers"));
  task.cancel();
  task.submit();
  EXPECT_TRUE(task.wait());
  EXPECT_EQ(task.first_failure()->error.code, PREFIX_ERR_CANCELLED);
  EXPECT_THROW(task.text(0), prefix::Error);
  EXPECT_EQ(task.partial_text(0), "");
  {
    prefix::Task left(engine, tokenizer, "generate", &endless);
    left.add(Strings(50, "Trees"));
    left.submit();
  }
  EXPECT_EQ(engine.info().vocabulary >= 1, true);
}

}  // namespace
