// The tokens of texts with their log-probs, against those of the same request through prefix.h.
#include <gtest/gtest.h>

#include <algorithm>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

struct Likely {
  std::vector<prefix_token> tokens;
  std::vector<float> logprobs;
  bool operator==(const Likely&) const = default;
};

// The tokens of a text from one on.
struct Scored {
  std::vector<prefix_token> tokens;
  std::vector<float> logprobs;
  std::vector<int64_t> offsets;
  std::vector<Likely> top;
  bool operator==(const Scored&) const = default;

  size_t size() const { return tokens.size(); }
  // For messages.
  friend std::ostream& operator<<(std::ostream& out, const Scored& found) {
    for (size_t i = 0; i < found.size(); ++i)
      out << " " << found.tokens[i] << "@" << found.offsets[i] << ":" << found.logprobs[i] << "/"
          << found.top[i].tokens.size();
    return out;
  }
  Scored first(size_t n) const {
    const auto cut = [n](auto list) {
      list.resize(n);
      return list;
    };
    return {cut(tokens), cut(logprobs), cut(offsets), cut(top)};
  }
  void append(const Scored& more) {
    tokens.insert(tokens.end(), more.tokens.begin(), more.tokens.end());
    logprobs.insert(logprobs.end(), more.logprobs.begin(), more.logprobs.end());
    offsets.insert(offsets.end(), more.offsets.begin(), more.offsets.end());
    top.insert(top.end(), more.top.begin(), more.top.end());
  }
};

Likely likely(const prefix_task* task, size_t item, size_t place) {
  Likely found;
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_item_top(task, item, place, nullptr, 0, &needed, nullptr, 0, e);
  });
  found.tokens.resize(needed);
  found.logprobs.resize(needed);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_item_top(task, item, place, found.tokens.data(), needed, nullptr,
                                found.logprobs.data(), needed, e);
  });
  return found;
}

Scored scored(const prefix_task* task, size_t item, size_t first = 0) {
  Scored found;
  constexpr size_t kRoom = 512;
  found.tokens.resize(kRoom);
  found.logprobs.resize(kRoom);
  found.offsets.resize(kRoom);
  size_t n = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_item_logprobs(task, item, first, found.tokens.data(), kRoom, &n,
                                     found.logprobs.data(), kRoom, found.offsets.data(), kRoom, e);
  });
  found.tokens.resize(n);
  found.logprobs.resize(n);
  found.offsets.resize(n);
  for (size_t i = 0; i < n; ++i) found.top.push_back(likely(task, item, first + i));
  return found;
}

std::string bytes_of(const prefix_tokenizer* tokenizer, prefix_token token) {
  return prefix_abi::text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_tokenizer_token_bytes(tokenizer, token, buf, cap, needed, e);
  });
}

// What the engine says of a generation behind the tokens of an item.
Scored generated(prefix_engine* engine, const prefix_task* task, size_t item, size_t k) {
  const auto options = prefix_abi::make_options({{"max_tokens", "24"},
                                                 {"ignore_eos", "true"},
                                                 {"logprobs", "true"},
                                                 {"top_logprobs", std::to_string(k).c_str()}});
  const std::vector<prefix_token> prompt = tokens_of(task, item);
  prefix_abi::Batch batch;
  prefix_abi::Job job;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_create(engine, batch.out(), e); });
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_generate(batch, prompt.data(), prompt.size(), options, 0, nullptr, e);
  });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_run(engine, batch, job.out(), e); });
  Scored found;
  size_t n = 0;
  found.tokens.resize(24);
  found.logprobs.resize(24);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_tokens(job, 0, found.tokens.data(), 24, &n, e);
  });
  EXPECT_EQ(n, 24u);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_logprobs(job, 0, found.logprobs.data(), 24, &n, e);
  });
  for (size_t place = 0; place < 24; ++place) {
    Likely& top = found.top.emplace_back();
    top.tokens.resize(k);
    top.logprobs.resize(k);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_job_partial_top(job, 0, place, top.tokens.data(), k, nullptr,
                                    top.logprobs.data(), k, e);
    });
  }
  return found;
}

Json options_of(const Json& more = Json::object()) {
  Json options = {{"max_tokens", 24}, {"ignore_eos", true}, {"top_logprobs", 3}};
  options.update(more);
  return options;
}

TEST(TaskLogprobs, AreThoseOfTheRequestsThatTheTaskMakes) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (const char* kind : {"generate", "answer", "chat"}) {
    const Task task = task_of(engine, tokenizer, kind, options_of());
    const std::string messages = R"([{"role": "user", "content": "Which tree?"}])";
    if (kind == std::string("answer"))
      add(task, {"Rivers and trees.", "Which one?", "Bread.", "Where?"});
    else
      add(task, kind == std::string("chat") ? Texts{messages} : Texts{"Rivers and", "One"});
    run(task);
    for (size_t item = 0; item < statuses(task).size(); ++item) {
      const Scored found = scored(task, item);
      Scored wanted = generated(engine, task, item, 3);
      ASSERT_GT(found.size(), 0u) << kind;
      if (kind != std::string("answer")) {
        EXPECT_EQ(found.size(), 24u) << "there is no stop text";
      }
      wanted.offsets = found.offsets;
      wanted.offsets.resize(24);
      EXPECT_EQ(found, wanted.first(found.size())) << kind;
      EXPECT_TRUE(std::ranges::is_sorted(found.offsets));
    }
  }
}

TEST(TaskLogprobs, WithoutLikelyTokensThereAreTheOthersAlone) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto of = [&](const Json& options) {
    const Task task = task_of(engine, tokenizer, "generate", options);
    add(task, {"Rivers and"});
    run(task);
    return scored(task, 0);
  };
  Scored wanted = of(options_of());
  ASSERT_EQ(wanted.size(), 24u);
  wanted.top.assign(24, {});
  EXPECT_EQ(of(options_of({{"top_logprobs", 0}, {"logprobs", true}})), wanted);
  EXPECT_EQ(of(options_of({{"top_logprobs", 0}})), Scored());
  EXPECT_EQ(of(options_of({{"top_logprobs", "0"}, {"logprobs", "off"}})), Scored());
}

// The bytes of its tokens are a text by rules; a character may have several.
TEST(TaskLogprobs, OffsetsAreWhereTheCharactersOfTokensBegin) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Json options = {{"regex", "( |😀|é|漢){24}"},
                        {"temperature", 1},
                        {"seed", 5},
                        {"logprobs", true},
                        {"max_tokens", 120}};
  const Task task = task_of(engine, tokenizer, "generate", options);
  add(task, {"Write."});
  run(task);
  const std::string text = answer_text(task, 0);
  const prefix_result_info result = info(task, 0);
  ASSERT_EQ(result.finish, PREFIX_FINISH_STOP) << message(task, 0);
  const Scored found = scored(task, 0);
  EXPECT_EQ(static_cast<int64_t>(found.size()) + 1, result.generated_tokens)
      << "the end token is no part of the text";
  std::string bytes;
  size_t parts = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    size_t begin = bytes.size();
    while (begin > 0 && (text.at(begin) & 0xC0) == 0x80) --begin;
    EXPECT_EQ(found.offsets[i], static_cast<int64_t>(begin)) << "token " << i;
    parts += begin < bytes.size();
    bytes += bytes_of(tokenizer, found.tokens[i]);
  }
  EXPECT_EQ(bytes, text);
  EXPECT_GT(parts, 0u) << "no token is a part of a character";
}

TEST(TaskLogprobs, AStopTextTakesItsTokensAway) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Json options = options_of({{"max_tokens", 80}});
  const auto of = [&](const Json& with, std::string* text) {
    const Task task = task_of(engine, tokenizer, "generate", with);
    add(task, {"Rivers and trees"});
    run(task);
    *text = answer_text(task, 0);
    return scored(task, 0);
  };
  std::string text;
  const Scored whole = of(options, &text);
  ASSERT_GT(text.size(), 60u);
  for (size_t at = text.size() / 3; at < text.size() / 3 + 12; ++at) {
    if ((text[at] & 0xC0) == 0x80 || text[at] == ' ') continue;
    size_t end = at + 9;
    while ((text[end] & 0xC0) == 0x80) ++end;
    Json with = options;
    with["stop"] = {text.substr(at, end - at)};
    const auto first = static_cast<int64_t>(text.find(text.substr(at, end - at)));
    const auto is_behind = [&](int64_t offset) { return offset >= first; };
    const auto kept = std::ranges::find_if(whole.offsets, is_behind) - whole.offsets.begin();
    Scored wanted = whole.first(static_cast<size_t>(kept));
    std::string cut;
    const Scored found = of(with, &cut);
    EXPECT_EQ(found.size(), wanted.size()) << with;
    // Those of white space in front of the stop text are at the end of the text.
    for (int64_t& offset : wanted.offsets)
      offset = std::min(offset, static_cast<int64_t>(cut.size()));
    EXPECT_EQ(found, wanted) << with;
  }
}

// A stop token that stands for a text is a part of it.
TEST(TaskLogprobs, AStopTokenIsThereWhereItsTextIs) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto of = [&](const Json& options) {
    const Task task = task_of(engine, tokenizer, "generate", options);
    add(task, {"Rivers and trees"});
    run(task);
    return scored(task, 0);
  };
  const Scored whole = of(options_of());
  const prefix_token stop = whole.tokens.at(5);
  ASSERT_NE(bytes_of(tokenizer, stop), "");
  const auto first = std::ranges::find(whole.tokens, stop) - whole.tokens.begin();
  const Scored cut = of(options_of({{"stop_tokens", {stop}}}));
  EXPECT_EQ(cut.tokens, whole.first(static_cast<size_t>(first) + 1).tokens);
}

TEST(TaskLogprobs, TokensComeWithTheirText) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = task_of(engine, tokenizer, "generate",
                            options_of({{"stream", true},
                                        {"stop", {"qqqqq", "a"}},
                                        {"max_tokens", 60},
                                        {"temperature", 2},
                                        {"seed", 11}}));
  for (int i = 0; i < 12; ++i) add(task, {"Rivers " + std::to_string(i)});
  submit(task);
  std::vector<Scored> so_far(12);
  std::vector<size_t> sent(12);
  size_t pieces = 0;
  for (Seen seen;; seen = Seen()) {
    const prefix_status status = next(task, kMinute, &seen);
    if (status == PREFIX_ERR_NO_EVENT) break;
    ASSERT_EQ(status, PREFIX_OK);
    const auto item = static_cast<size_t>(seen.event.request);
    so_far[item].append(scored(task, item, so_far[item].size()));
    if (seen.event.kind != PREFIX_EVENT_TEXT) continue;
    ++pieces;
    sent[item] += seen.text.size();
    ASSERT_GT(so_far[item].size(), 0u);
    // The first that is not there yet begins behind this text.
    const Scored later = scored(task, item);
    for (size_t i = so_far[item].size(); i < later.size(); ++i)
      EXPECT_GE(later.offsets[i], static_cast<int64_t>(sent[item])) << "item " << item;
  }
  EXPECT_GT(pieces, 12u);
  for (size_t item = 0; item < 12; ++item) {
    EXPECT_EQ(so_far[item], scored(task, item)) << "what was there has not changed";
  }
}

TEST(TaskLogprobs, OfATextThatWasCancelledThereIsWhatThereWas) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task =
      task_of(engine, tokenizer, "generate", options_of({{"stream", true}, {"max_tokens", 900}}));
  add(task, {"Rivers and trees"});
  submit(task);
  prefix_event event = PREFIX_EVENT_INIT;
  char buf[4096];
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_next_event(task, kMinute, &event, buf, sizeof(buf), nullptr, e);
  });
  ASSERT_EQ(event.kind, PREFIX_EVENT_TEXT);
  const Scored begun = scored(task, 0);
  ASSERT_GT(begun.size(), 0u);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_cancel(task, e); });
  wait(task);
  const Scored found = scored(task, 0);
  ASSERT_GE(found.size(), begun.size());
  EXPECT_EQ(found.first(begun.size()), begun);
  if (info(task, 0).status == PREFIX_ERR_CANCELLED) {
    EXPECT_LE(static_cast<int64_t>(found.size()), info(task, 0).generated_tokens);
  }
}

TEST(TaskLogprobs, OfAnUnfinishedItemTheyNeedOptionStream) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto status = [&](bool stream) {
    const Task task = task_of(engine, tokenizer, "generate",
                              options_of({{"stream", stream}, {"max_tokens", 900}}));
    add(task, {"Rivers"});
    Error early;
    EXPECT_EQ(
        prefix_task_item_logprobs(task, 0, 0, nullptr, 0, nullptr, nullptr, 0, nullptr, 0, &early),
        PREFIX_ERR_MISUSE)
        << "before it is submitted";
    submit(task);
    Error error;
    const prefix_status found =
        prefix_task_item_logprobs(task, 0, 0, nullptr, 0, nullptr, nullptr, 0, nullptr, 0, &error);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_cancel(task, e); });
    wait(task);
    return found;
  };
  EXPECT_EQ(status(true), PREFIX_OK);
  EXPECT_EQ(status(false), PREFIX_ERR_MISUSE);
}

TEST(TaskLogprobs, AreWrittenWholeOrNotAtAll) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Task task = task_of(engine, tokenizer, "generate", options_of());
  add(task, {"Rivers", "\xff"});
  run(task);
  size_t n = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_item_logprobs(task, 0, 20, nullptr, 0, &n, nullptr, 0, nullptr, 0, e);
  });
  EXPECT_EQ(n, 4u);
  for (const size_t small : {0, 1, 2}) {
    prefix_token tokens[4] = {-1, -1, -1, -1};
    float logprobs[4] = {7, 7, 7, 7};
    int64_t offsets[4] = {-1, -1, -1, -1};
    const auto room = [small](size_t which) { return which == small ? size_t{3} : size_t{4}; };
    expect(PREFIX_ERR_BUFFER_TOO_SMALL,
           [&](prefix_error* e) {
             return prefix_task_item_logprobs(task, 0, 20, tokens, room(0), &n, logprobs, room(1),
                                              offsets, room(2), e);
           },
           {"3", "4"});
    EXPECT_EQ(tokens[0], -1);
    EXPECT_EQ(logprobs[0], 7);
    EXPECT_EQ(offsets[0], -1);
    expect(PREFIX_ERR_BUFFER_TOO_SMALL, [&](prefix_error* e) {
      return prefix_task_item_top(task, 0, 0, tokens, 2, &n, logprobs, 3, e);
    });
    EXPECT_EQ(n, 3u);
    EXPECT_EQ(logprobs[0], 7);
  }
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_item_logprobs(task, 0, 24, nullptr, 0, &n, nullptr, 0, nullptr, 0, e);
  });
  EXPECT_EQ(n, 0u);
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_task_item_logprobs(task, 0, 25, nullptr, 0, &n, nullptr, 0, nullptr, 0, e);
         },
         {"25", "24"});
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_task_item_top(task, 0, 24, nullptr, 0, &n, nullptr, 0, e);
         },
         {"24"});
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_task_item_logprobs(task, 0, 0, nullptr, 0, &n, nullptr, 0, nullptr, 9, e);
         },
         {"offsets"});
  // An item that failed has none.
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_item_logprobs(task, 1, 0, nullptr, 0, &n, nullptr, 0, nullptr, 0, e);
  });
  EXPECT_EQ(n, 0u);
}

TEST(TaskLogprobs, TasksThatWriteNoTextsHaveNoSuchOptions) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  for (const char* kind : {"rerank", "embed", "classify"})
    for (const Json& options : {Json{{"logprobs", true}}, Json{{"top_logprobs", 2}}}) {
      Task task;
      expect(PREFIX_ERR_INVALID_ARGUMENT,
             [&](prefix_error* e) {
               return try_create(engine, tokenizer, kind, dumped(options), task.out(), e);
             },
             {options.begin().key().c_str(), kind, "answer, generate, chat"});
    }
  Task task;
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return try_create(engine, tokenizer, "generate", R"({"top_logprobs": 257})", task.out(),
                             e);
         },
         {"top_logprobs", "257", "256"});
}

}  // namespace
}  // namespace prefix_tasks
