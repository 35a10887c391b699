// Texts while they are written: events, stop texts, queues, and the kinds that generate.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "published.h"
#include "tasks_support.h"

namespace prefix_tasks {
namespace {

Texts questions(size_t count) {
  Texts list;
  for (size_t i = 0; i < count; ++i) list.add("Which tree is number " + std::to_string(i) + "?");
  return list;
}

// The pieces of each item add up to its text, and its end comes after them, once.
void expect_whole(const prefix_task* task, const std::vector<Seen>& all) {
  std::map<int64_t, std::string> texts;
  std::map<int64_t, int> ended;
  int64_t clock_us = 1;
  for (const Seen& seen : all) {
    const int64_t item = seen.event.request;
    EXPECT_EQ(ended[item], 0) << "item " << item << " goes on after its end";
    if (seen.event.kind == PREFIX_EVENT_TEXT) {
      EXPECT_FALSE(seen.text.empty());
      texts[item] += seen.text;
      continue;
    }
    const prefix_result_info result = info(task, static_cast<size_t>(item));
    EXPECT_EQ(seen.event.kind,
              result.status == PREFIX_OK ? PREFIX_EVENT_FINISHED : PREFIX_EVENT_ERROR);
    EXPECT_EQ(seen.event.status, result.status);
    EXPECT_EQ(seen.event.user_tag, result.user_tag);
    EXPECT_EQ(seen.event.computed, result.computed_tokens);
    EXPECT_GE(seen.event.time_us, clock_us) << "events come in the order of time";
    clock_us = seen.event.time_us;
    ++ended[item];
  }
  const size_t count = statuses(task).size();
  EXPECT_EQ(ended.size(), count);
  for (size_t i = 0; i < count; ++i)
    EXPECT_EQ(texts[static_cast<int64_t>(i)], answer_text(task, i)) << "item " << i;
}

TEST(Stream, PiecesAddUpToTheTexts) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Json options = {{"recipe", "extractive-qa"}, {"max_tokens", 40}, {"ignore_eos", true}};
  Json streamed = options;
  streamed["stream"] = true;
  Texts asked = questions(6);
  asked.add("\xff");
  const Task task = answer(engine, tokenizer, "Rivers and trees.", asked, streamed);
  submit(task);
  const std::vector<Seen> all = events(task);
  expect_whole(task, all);
  EXPECT_GT(all.size(), 12u) << "in more than one piece";
  const Task plain = answer(engine, tokenizer, "Rivers and trees.", asked, options);
  run(plain);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(answer_text(task, i), answer_text(plain, i));
}

TEST(Stream, IsNotThereUnlessAskedFor) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = answer(engine, tokenizer, "Rivers.", questions(3), {{"max_tokens", 5}});
  submit(task);
  const std::vector<Seen> all = events(task);
  EXPECT_EQ(all.size(), 3u);
  for (const Seen& seen : all) EXPECT_EQ(seen.event.kind, PREFIX_EVENT_FINISHED);
  const Task scores = rerank(engine, tokenizer, {"q"}, {"a", "b"});
  submit(scores);
  EXPECT_EQ(events(scores).size(), 2u);
}

// A chunk is sent when of those before it one at most is unfinished.
TEST(Times, CountFromTheSubmissionOfTheTask) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = task_of(engine, tokenizer, "generate",
                            {{"chunk_tokens", 2}, {"max_tokens", 8}, {"ignore_eos", true}});
  constexpr size_t kItems = 30;  // each a chunk of its own
  Texts texts = questions(kItems - 1);
  texts.add("\xff");  // which the engine never gets
  add(task, texts);
  const int64_t before = prefix_abi::monotonic_us();
  submit(task);
  const std::vector<Seen> all = events(task);
  const int64_t after = prefix_abi::monotonic_us();
  ASSERT_EQ(all.size(), kItems);
  const prefix_job_totals whole = totals(task);
  for (const Seen& seen : all) {
    const prefix_result_info item = info(task, static_cast<size_t>(seen.event.request));
    EXPECT_LE(before + item.total_us, seen.event.time_us) << "an event is told after its item";
    EXPECT_LE(seen.event.time_us, after);
    EXPECT_LE(item.queue_us, item.first_us);
    EXPECT_LE(item.first_us, item.total_us);
    EXPECT_LE(item.total_us, whole.total_us);
  }
  EXPECT_LE(whole.total_us, after - before);
  std::vector<int64_t>
      ends;  // of the items before: all but one were over when the next one was sent
  for (size_t i = 0; i < kItems; ++i) {
    const bool failed = i == kItems - 1;
    const int64_t end = info(task, i).total_us;
    if (i >= 2) {
      EXPECT_GE(failed ? end : info(task, i).queue_us, ends[i - 2]) << "item " << i;
    }
    ends.insert(std::ranges::upper_bound(ends, end), end);
  }
}

// A call that only asks, or whose buffer is too small, leaves the event where it is.
TEST(Stream, AnEventWaitsForABufferThatTakesIt) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = answer(engine, tokenizer, "Rivers.", questions(1),
                           {{"recipe", "extractive-qa"}, {"stream", true}, {"max_tokens", 8}});
  run(task);
  ASSERT_NE(answer_text(task, 0), "");
  prefix_event event = PREFIX_EVENT_INIT;
  char buf[512] = "?";
  size_t needed = 0, again = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_next_event(task, 0, &event, nullptr, 0, &needed, e);
  });
  EXPECT_EQ(event.kind, PREFIX_EVENT_TEXT);
  ASSERT_GT(needed, 0u);
  expect(PREFIX_ERR_BUFFER_TOO_SMALL, [&](prefix_error* e) {
    return prefix_task_next_event(task, 0, &event, buf, needed, &again, e);
  });
  EXPECT_EQ(again, needed);
  EXPECT_EQ(buf[0], '?');
  event.struct_size = 3;
  expect(PREFIX_ERR_STRUCT_TOO_OLD, [&](prefix_error* e) {
    return prefix_task_next_event(task, 0, &event, buf, sizeof(buf), &again, e);
  });
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
    return prefix_task_next_event(task, 0, nullptr, buf, sizeof(buf), &again, e);
  });
  const std::vector<Seen> all = events(task);
  expect_whole(task, all);
}

// The text up to the stop text, as if it had been cut afterwards; and less is generated.
TEST(Stop, EndsATextWhereItComes) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Json options = {{"max_tokens", 120}, {"ignore_eos", true}};
  const Task whole = task_of(engine, tokenizer, "generate", options);
  const Texts prompts = {"Rivers and trees", "Bread is", "One"};
  add(whole, prompts);
  run(whole);
  for (size_t i = 0; i < prompts.list.size(); ++i) {
    const std::string text = answer_text(whole, i);
    ASSERT_GT(text.size(), 60u);
    // Eleven bytes from the middle: more than one token, and on no border of tokens in particular.
    size_t at = text.size() / 3;
    while ((text[at] & 0xC0) == 0x80 || text[at] == ' ') ++at;
    size_t end = at + 11;
    while ((text[end] & 0xC0) == 0x80) ++end;
    const std::string stop = text.substr(at, end - at);
    std::string wanted = text.substr(0, text.find(stop));
    wanted.erase(wanted.find_last_not_of(" \t\n") + 1);
    for (const bool stream : {false, true}) {
      Json with = options;
      with["stop"] = {"never in there", stop};
      with["stream"] = stream;
      const Task task = task_of(engine, tokenizer, "generate", with);
      add(task, {prompts.list[i]});
      submit(task);
      const std::vector<Seen> all = events(task);
      EXPECT_EQ(answer_text(task, 0), wanted);
      const prefix_result_info result = info(task, 0);
      EXPECT_EQ(result.status, PREFIX_OK) << message(task, 0);
      EXPECT_EQ(result.finish, PREFIX_FINISH_STOP);
      EXPECT_EQ(totals(task).failed, 0);
      if (stream) expect_whole(task, all);
    }
  }
}

// An item can be read when its own request has ended, whatever others of its chunk do.
TEST(Stream, LetsAnItemBeReadBeforeTheOthers) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (size_t count = 3'000; count < 100'000; count *= 4) {
    const Task task = task_of(engine, tokenizer, "embed", {{"chunk_tokens", 1 << 20}});
    add(task, questions(count));
    submit(task);
    Seen seen;
    ASSERT_EQ(next(task, kMinute, &seen), PREFIX_OK);
    EXPECT_EQ(info(task, static_cast<size_t>(seen.event.request)).status, PREFIX_OK);
    const size_t finished = done(task);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_cancel(task, e); });
    wait(task);
    if (finished < count) return;
    // Else the machine had no time for this thread until the others had ended too.
  }
  ADD_FAILURE() << "no item was there before the others of its chunk";
}

// Option ignore_eos goes beyond the end tokens of the tokenizer too.
TEST(Stop, IsNotAnEndTokenWithIgnoreEos) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task =
      task_of(engine, tokenizer, "generate", {{"max_tokens", 5}, {"ignore_eos", true}});
  Texts prompts;
  for (int i = 0; i < 3'000; ++i) prompts.add(std::to_string(i) + " x");
  add(task, prompts);
  run(task);
  for (size_t i = 0; i < prompts.list.size(); ++i) {
    ASSERT_EQ(info(task, i).generated_tokens, 5) << i;
    ASSERT_EQ(info(task, i).finish, PREFIX_FINISH_LENGTH) << i;
  }
}

// What a caller adds ends a text besides what the tokenizer has for it,
// which may be more than the model's own.
TEST(Stop, TokensOfTheCallerAreFurtherOnes) {
  const TempFolder folder;
  const Tokenizer tokenizer = words_tokenizer();
  constexpr prefix_token kEndOfText = 959;  // and not <|im_end|>
  const Engine engine =
      engine_at(directory(folder, "few ends", words_files({{"eos_token_id", kEndOfText}})));
  const auto generated = [&](Json options) {
    options.update({{"max_tokens", 60}, {"temperature", 3}, {"seed", 3}});
    const Task task = task_of(engine, tokenizer, "generate", options);
    Texts prompts;
    for (int i = 0; i < 60; ++i) prompts.add(std::to_string(i) + " x");
    add(task, prompts);
    run(task);
    std::vector<int64_t> tokens;
    for (size_t i = 0; i < prompts.list.size(); ++i)
      tokens.push_back(info(task, i).generated_tokens);
    return tokens;
  };
  const std::vector<int64_t> plain = generated(Json::object());
  EXPECT_EQ(generated({{"stop_tokens", {kEndOfText}}}), plain);
  EXPECT_NE(generated({{"ignore_eos", true}, {"stop_tokens", {kEndOfText}}}), plain);
}

// A token that was added behind those of the model is never written, so it ends nothing;
// the engine refuses it.
TEST(Stop, TokensBehindThoseOfTheModelAreLeftOut) {
  const Engine engine = words_engine();
  const Tokenizer own = words_tokenizer();
  const Tokenizer tokenizer = changed_tokenizer([](Json& whole, Json&) {
    Json& added = whole.at("added_tokens");
    const Json like = added.at(0);
    for (int i = 0; i < 64; ++i) {
      Json token = like;
      token["id"] = 964 + i;
      token["content"] = i == 63 ? "<|end_of_text|>" : "<|more " + std::to_string(i) + "|>";
      added.push_back(token);
    }
  });
  std::vector<prefix_token> ends(8);
  size_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_tokenizer_end_tokens(tokenizer, ends.data(), ends.size(), &count, e);
  });
  ASSERT_EQ(ends.at(count - 1), 1027) << "the model has 1003";
  const auto texts = [&](const Tokenizer& by, Json options) {
    options["max_tokens"] = 8;
    const Task task = task_of(engine, by, "generate", options);
    add(task, {"Rivers and trees", "Bread is"});
    run(task);
    return Strings{answer_text(task, 0), answer_text(task, 1)};
  };
  EXPECT_EQ(texts(tokenizer, Json::object()), texts(own, Json::object()));
  const Json unending = {{"ignore_eos", true}};
  Json stopped = unending;
  stopped["stop"] = {"<|more 62|>"};
  EXPECT_EQ(texts(tokenizer, stopped), texts(own, unending));
}

// The engine ends at the token of a stop text only where the token is this text,
// and not what a normalizer makes of it.
TEST(Stop, IsNoOtherTextOfItsToken) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer =
      changed_tokenizer([](Json& whole, Json&) { whole["normalizer"] = {{"type", "Lowercase"}}; });
  const auto texts = [&](Json options) {
    options.update({{"max_tokens", 30}, {"ignore_eos", true}, {"temperature", 8}, {"seed", 209}});
    const Task task = task_of(engine, tokenizer, "generate", options);
    Texts prompts;
    for (int i = 0; i < 400; ++i) prompts.add(std::to_string(i) + " x");
    add(task, prompts);
    run(task);
    Strings all;
    for (size_t i = 0; i < prompts.list.size(); ++i) all.push_back(answer_text(task, i));
    return all;
  };
  const Strings whole = texts(Json::object());
  const auto has_it = [](const std::string& text) { return text.find('e') != std::string::npos; };
  ASSERT_TRUE(std::ranges::any_of(whole, has_it)) << "else it shows nothing";
  Strings wanted;
  for (const std::string& text : whole) {
    std::string cut = text.substr(0, text.find('E'));
    cut.erase(cut.find_last_not_of(" \t\n") + 1);
    wanted.push_back(cut);
  }
  EXPECT_EQ(texts({{"stop", "E"}}), wanted);
}

// A text does not begin with white space, so none ends it there.
TEST(Stop, WhiteSpaceInFrontIsNoEnd) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto texts = [&](Json options) {
    options.update({{"max_tokens", 12}, {"temperature", 8}, {"seed", 209}, {"ignore_eos", true}});
    const Task task = task_of(engine, tokenizer, "generate", options);
    Texts prompts;
    for (int i = 0; i < 300; ++i) prompts.add(std::to_string(i) + " x");
    add(task, prompts);
    run(task);
    std::vector<std::string> all;
    for (size_t i = 0; i < prompts.list.size(); ++i) all.push_back(answer_text(task, i));
    return all;
  };
  const std::vector<std::string> whole = texts(Json::object());
  std::vector<std::string> wanted;
  for (const std::string& text : whole) {
    std::string cut = text.substr(0, text.find('\n'));
    cut.erase(cut.find_last_not_of(" \t\n") + 1);
    wanted.push_back(cut);
  }
  EXPECT_EQ(texts({{"stop", "\n"}}), wanted);
}

TEST(Stop, IsOneTextOrSeveral) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task one = task_of(engine, tokenizer, "generate", {{"stop", "x"}, {"max_tokens", 3}});
  add(one, {"a"});
  run(one);
  EXPECT_EQ(statuses(one), std::vector<int32_t>{PREFIX_OK});
}

TEST(Cancelled, TextsKeepWhatThereIs) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Json options = {
      {"recipe", "completion"}, {"max_tokens", 900}, {"ignore_eos", true}, {"stream", true}};
  const Task task = task_of(engine, tokenizer, "generate", options);
  add(task, {"Rivers and trees", "Bread"});
  submit(task);
  std::map<int64_t, std::string> texts;
  for (int pieces = 0; pieces < 12; ++pieces) {
    Seen seen;
    ASSERT_EQ(next(task, kMinute, &seen), PREFIX_OK);
    ASSERT_EQ(seen.event.kind, PREFIX_EVENT_TEXT);
    texts[seen.event.request] += seen.text;
  }
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_cancel(task, e); });
  for (Seen& seen : events(task))
    if (seen.event.kind == PREFIX_EVENT_TEXT) texts[seen.event.request] += seen.text;
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(statuses(task)[i], PREFIX_ERR_CANCELLED);
    EXPECT_EQ(answer_text(task, i), texts[static_cast<int64_t>(i)]);
    expect(PREFIX_ERR_CANCELLED,
           [&](prefix_error* e) { return prefix_task_item_text(task, i, nullptr, 0, nullptr, e); });
  }
  EXPECT_NE(texts[0] + texts[1], "");
}

// "chat" renders messages as prefix_tokenizer_chat_tokens does, "generate" takes a prompt as it is.
TEST(Kinds, ChatAndGenerateAreTheirPrompts) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const std::string messages =
      R"([{"role": "user", "content": "Bread?"}, {"role": "assistant", "content": "Yes."},
          {"role": "user", "content": "Why?"}])";
  std::vector<prefix_token> tokens(512);
  size_t needed = 0;
  const char* const variables = R"({"variables": {"enable_thinking": false}})";
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_tokenizer_chat_tokens(tokenizer, messages.data(), messages.size(), variables,
                                        PREFIX_NUL, tokens.data(), tokens.size(), &needed, nullptr,
                                        0, e);
  });
  const Task chat = task_of(engine, tokenizer, "chat", {{"max_tokens", 12}});
  add(chat, {messages, "[]", "{",
             R"([{"role": "user", "content": ")" + std::string(9'000, 'x') + "\"}]"});
  run(chat);
  EXPECT_EQ(info(chat, 0).prompt_tokens, static_cast<int64_t>(needed));
  EXPECT_EQ(statuses(chat)[2], PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(statuses(chat)[3], PREFIX_ERR_PROMPT_TOO_LONG) << "messages are never cut";

  const auto options = prefix_abi::make_options({{"max_tokens", "12"}});
  const auto batch = prefix_abi::make_batch(engine);
  tokens.resize(needed);
  prefix_abi::add_generate(batch, tokens, options);
  const auto job = prefix_abi::run(engine, batch);
  EXPECT_EQ(prefix_abi::info_of(job, 0).generated_tokens, info(chat, 0).generated_tokens);

  // An object has options of the template too; the recipe's variables are the defaults.
  const Task object = task_of(engine, tokenizer, "chat", {{"max_tokens", 12}});
  add(object, {"{\"messages\": " + messages + "}",
               "{\"messages\": " + messages + R"(, "add_generation_prompt": false})",
               "{\"messages\": " + messages + R"(, "tool": []})", R"({"tools": []})"});
  run(object);
  EXPECT_EQ(answer_text(object, 0), answer_text(chat, 0));
  EXPECT_LT(info(object, 1).prompt_tokens, info(object, 0).prompt_tokens);
  EXPECT_EQ(statuses(object)[2], PREFIX_ERR_UNKNOWN_OPTION) << message(object, 2);
  EXPECT_EQ(statuses(object)[3], PREFIX_ERR_INVALID_ARGUMENT);

  const Task turn =
      task_of(engine, tokenizer, "generate", {{"recipe", "chat-turn"}, {"max_tokens", 12}});
  add(turn, {"Bread?"});
  run(turn);
  const Task same = task_of(engine, tokenizer, "chat", {{"max_tokens", 12}});
  add(same, {R"([{"role": "user", "content": "Bread?"}])"});
  run(same);
  EXPECT_EQ(answer_text(turn, 0), answer_text(same, 0));
  EXPECT_EQ(info(turn, 0).prompt_tokens, info(same, 0).prompt_tokens);
}

TEST(Notice, OfTheEndBeforeAndAfter) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto queue = prefix_abi::make_queue();
  const Task task = rerank(engine, tokenizer, {"Trees?"}, {"a", "b"});
  const auto notify = [&](int64_t tag) {
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_notify(task, queue, tag, e); });
  };
  const auto take = [&](int64_t timeout) {
    int64_t tag = -1;
    Error error;
    return prefix_queue_next(queue, timeout, &tag, &error) == PREFIX_OK ? tag : -1;
  };
  notify(7);
  EXPECT_EQ(take(0), -1) << "it was not submitted";
  submit(task);
  EXPECT_EQ(take(kMinute), 7);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_wait(task, 0, e); });
  notify(8);
  EXPECT_EQ(take(0), 8);
  EXPECT_EQ(take(0), -1);
}

// Also of what no longer can begin.
TEST(Notice, OfATaskThatIsNeverSubmitted) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto queue = prefix_abi::make_queue();
  const auto take = [&] {
    int64_t tag = -1;
    return prefix_queue_next(queue, 0, &tag, nullptr) == PREFIX_OK ? tag : -1;
  };
  {
    const Task task = rerank(engine, tokenizer, {"Trees?"}, {"a", "b"});
    for (const int64_t tag : {7, 8})
      expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_notify(task, queue, tag, e); });
    expect(PREFIX_OK,
           [&](prefix_error* e) { return prefix_task_notify_events(task, queue, 9, e); });
    EXPECT_EQ(take(), -1);
  }
  for (const int64_t tag : {7, 8, 9, -1}) EXPECT_EQ(take(), tag);
}

// A hundred tasks that stream into one queue: no tag is missed, and there is one thread for them.
TEST(Notice, OfEventsOfManyTasks) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto queue = prefix_abi::make_queue();
  const auto before = threads();
  constexpr size_t kTasks = 100;
  std::vector<Task> tasks;
  for (size_t i = 0; i < kTasks; ++i) {
    tasks.push_back(task_of(engine, tokenizer, "generate",
                            {{"stream", true}, {"max_tokens", 6}, {"ignore_eos", true}}));
    add(tasks[i], questions(2), static_cast<int64_t>(i));
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_task_notify_events(tasks[i], queue, static_cast<int64_t>(i), e);
    });
    submit(tasks[i]);
  }
  EXPECT_LE(threads(), before + 1);
  std::vector<std::vector<Seen>> all(kTasks);
  for (size_t left = kTasks; left > 0;) {
    int64_t tag = -1;
    ASSERT_EQ(prefix_queue_next(queue, kMinute, &tag, nullptr), PREFIX_OK) << left << " tasks left";
    const auto at = static_cast<size_t>(tag);
    for (Seen seen;; seen = Seen()) {
      const prefix_status status = next(tasks[at], 0, &seen);
      if (status == PREFIX_ERR_NO_EVENT) --left;
      if (status != PREFIX_OK) break;
      all[at].push_back(seen);
    }
  }
  for (size_t i = 0; i < kTasks; ++i) expect_whole(tasks[i], all[i]);
}

}  // namespace
}  // namespace prefix_tasks
