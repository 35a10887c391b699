// What the tests of the ready-made tasks share: the tiny model that reads text, lists of texts, and
// results as vectors. All of it goes through prefix.h and prefix_text.h.
#pragma once

#include <prefix_text.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "abi/abi_support.h"
#include "support/build_folder.h"

namespace prefix_tasks {

using prefix_abi::Engine;
using prefix_abi::Error;
using prefix_abi::expect;
using prefix_abi::Handle;
using prefix_abi::Settings;
using Json = nlohmann::json;
using Tokenizer = Handle<prefix_tokenizer, prefix_tokenizer_release>;
using Strings = std::vector<std::string>;

inline constexpr double kBound = 1e-5;  // of what is compared with transformers
inline constexpr int64_t kMinute =
    60'000;  // ms: instead of "for ever", so that a hang is a failure

// A list of texts as the functions that fill a task take it.
struct Texts {
  Strings list;

  Texts() = default;
  Texts(std::initializer_list<std::string_view> texts) : list(texts.begin(), texts.end()) {}
  Texts(const Strings& texts) : list(texts) {}  // NOLINT: a list of strings is one
  void add(std::string_view text) { list.emplace_back(text); }
  std::vector<const char*> pointers() const {
    std::vector<const char*> all;
    for (const std::string& text : list) all.push_back(text.data());
    return all;
  }
  std::vector<size_t> lengths() const {
    std::vector<size_t> all;
    for (const std::string& text : list) all.push_back(text.size());
    return all;
  }
};

// A task whose items are rows x columns: queries x documents; one column for other kinds.
struct Task : Handle<prefix_task, prefix_task_release> {
  size_t columns = 1;
  bool is_submitted = false;
};

// An event of a task with its text.
struct Seen {
  prefix_event event = PREFIX_EVENT_INIT;
  std::string text;
};

// The next event with its text; the status of the call.
inline prefix_status next(prefix_task* task, int64_t timeout_ms, Seen* seen) {
  std::vector<char> buf(1);
  size_t needed = 0;
  Error error;
  prefix_status status = prefix_task_next_event(task, timeout_ms, &seen->event, buf.data(),
                                                buf.size(), &needed, &error);
  if (status == PREFIX_ERR_BUFFER_TOO_SMALL) {
    buf.resize(needed + 1);
    status = prefix_task_next_event(task, 0, &seen->event, buf.data(), buf.size(), &needed, &error);
  }
  if (status == PREFIX_OK) seen->text.assign(buf.data(), needed);
  return status;
}

// All events of a task that was submitted.
inline std::vector<Seen> events(prefix_task* task) {
  std::vector<Seen> all;
  for (Seen seen;; seen = Seen()) {
    const prefix_status status = next(task, kMinute, &seen);
    if (status == PREFIX_ERR_NO_EVENT) return all;
    EXPECT_EQ(status, PREFIX_OK);
    if (status != PREFIX_OK) return all;
    all.push_back(seen);
  }
}

// Written by tools/golden/make_models.py before the tests run; 1,024 positions.
inline std::string words_model() {
  return prefix::testing_support::build_folder() + "/golden-models/qwen3-words";
}

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << "cannot read " << path << "; tools/run_tests models writes the tiny models";
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Engine words_engine(Settings settings = {}) {
  const auto options =
      prefix_abi::make_options({{"cache_bytes", "64M"}, {"threads", "2"}, {"dtype", "f32"}});
  for (const auto& [key, value] : settings)
    expect(PREFIX_OK, [&, k = key, v = value](prefix_error* e) {
      return prefix_options_set(options, k, PREFIX_NUL, v, PREFIX_NUL, e);
    });
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(words_model().c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  return engine;
}

inline Tokenizer words_tokenizer() {
  Tokenizer tokenizer;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_tokenizer_open(words_model().c_str(), PREFIX_NUL, tokenizer.out(), e);
  });
  return tokenizer;
}

// The tokenizer of the model after a change of its tokenizer.json or tokenizer_config.json.
template <typename Change>
Tokenizer changed_tokenizer(const Change& change) {
  Json whole = Json::parse(file_text(words_model() + "/tokenizer.json"));
  Json config = Json::parse(file_text(words_model() + "/tokenizer_config.json"));
  change(whole, config);
  const std::string text = whole.dump(), config_text = config.dump();
  Tokenizer tokenizer;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_tokenizer_from_json(text.data(), text.size(), config_text.data(),
                                      config_text.size(), tokenizer.out(), e);
  });
  return tokenizer;
}

// That many short texts that differ. With `signal` one that is not UTF-8 comes first: it fails while
// the task is being encoded, which tells another thread that the task has begun.
inline Texts documents(size_t count, bool signal = false) {
  Texts list;
  if (signal) list.add("\xff");
  for (size_t i = 0; i < count; ++i)
    list.add("Document " + std::to_string(i * 7919 % 10007) + " is about rivers and trees.");
  return list;
}

// The options of a task from an object of JSON, or from text that is none.
inline prefix_status try_options(const std::string& json, prefix_options** out, prefix_error* err) {
  const prefix_status status = prefix_options_create(out, err);
  return status != PREFIX_OK || json.empty()
             ? status
             : prefix_options_set_json(*out, json.data(), json.size(), err);
}
inline std::string dumped(const Json& options) { return options.is_null() ? "" : options.dump(); }

inline prefix_status try_create(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                                const char* kind, const std::string& json, prefix_task** out,
                                prefix_error* err) {
  prefix_abi::Options options;
  const prefix_status status = try_options(json, options.out(), err);
  if (status != PREFIX_OK) return status;
  return prefix_task_create(engine, tokenizer, kind, PREFIX_NUL, options, out, err);
}

inline prefix_status try_add(prefix_task* task, const Texts& texts, int64_t tag, size_t* index,
                             prefix_error* err) {
  return prefix_task_add(task, texts.pointers().data(), texts.lengths().data(), texts.list.size(),
                         tag, index, err);
}
inline prefix_status try_add_product(prefix_task* task, const Texts& firsts, const Texts& seconds,
                                     int64_t tag, size_t* index, prefix_error* err) {
  return prefix_task_add_product(task, firsts.pointers().data(), firsts.lengths().data(),
                                 firsts.list.size(), seconds.pointers().data(),
                                 seconds.lengths().data(), seconds.list.size(), tag, index, err);
}
inline prefix_status try_set_labels(prefix_task* task, const Texts& labels, prefix_error* err) {
  return prefix_task_set_labels(task, labels.pointers().data(), labels.lengths().data(),
                                labels.list.size(), err);
}

// A task without items.
inline Task task_of(prefix_engine* engine, const prefix_tokenizer* tokenizer, const char* kind,
                    const Json& options = nullptr) {
  Task task;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return try_create(engine, tokenizer, kind, dumped(options), task.out(), e);
  });
  return task;
}
inline size_t add(prefix_task* task, const Texts& texts, int64_t tag = 0) {
  size_t index = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return try_add(task, texts, tag, &index, e); });
  return index;
}
inline size_t add_product(prefix_task* task, const Texts& firsts, const Texts& seconds,
                          int64_t tag = 0) {
  size_t index = 0;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return try_add_product(task, firsts, seconds, tag, &index, e); });
  return index;
}

inline Task rerank(prefix_engine* engine, const prefix_tokenizer* tokenizer, const Texts& queries,
                   const Texts& documents, const Json& options = nullptr) {
  Task task = task_of(engine, tokenizer, "rerank", options);
  add_product(task, queries, documents);
  task.columns = documents.list.size();
  return task;
}
inline Task embed(prefix_engine* engine, const prefix_tokenizer* tokenizer, const Texts& texts,
                  const Json& options = nullptr) {
  Task task = task_of(engine, tokenizer, "embed", options);
  add(task, texts);
  return task;
}
inline Task answer(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                   const std::string& context, const Texts& questions,
                   const Json& options = nullptr) {
  Task task = task_of(engine, tokenizer, "answer", options);
  add_product(task, {context}, questions);
  return task;
}
inline Task classify(prefix_engine* engine, const prefix_tokenizer* tokenizer, const Texts& texts,
                     const Texts& labels, const Json& options = nullptr) {
  Task task = task_of(engine, tokenizer, "classify", options);
  expect(PREFIX_OK, [&](prefix_error* e) { return try_set_labels(task, labels, e); });
  add(task, texts);
  return task;
}

inline void submit(prefix_task* task) {
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_submit(task, e); });
}
inline void wait(prefix_task* task) {
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_wait(task, -1, e); });
}
inline void run(prefix_task* task) {
  submit(task);
  wait(task);
}

// Results of a task.
inline std::vector<float> values(const prefix_task* task) {
  size_t needed = 0;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_all_values(task, nullptr, 0, &needed, e); });
  std::vector<float> out(needed);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_all_values(task, out.data(), needed, nullptr, e);
  });
  return out;
}
inline std::vector<int32_t> statuses(const prefix_task* task) {
  size_t needed = 0;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_statuses(task, nullptr, 0, &needed, e); });
  std::vector<int32_t> out(needed);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_statuses(task, out.data(), needed, nullptr, e);
  });
  return out;
}
// Places of values [first, first + count) from best to worst; their values are those of
// all_values.
inline std::vector<int64_t> ranking(const prefix_task* task, size_t first, size_t count) {
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_ranking(task, first, count, nullptr, 0, &needed, nullptr, 0, e);
  });
  std::vector<int64_t> out(needed);
  std::vector<float> scores(needed);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_ranking(task, first, count, out.data(), needed, nullptr, scores.data(),
                               needed, e);
  });
  const std::vector<float> all = values(task);
  for (size_t i = 0; i < needed; ++i)
    EXPECT_EQ(scores[i], all[first + static_cast<size_t>(out[i])]) << "place " << i;
  return out;
}
// The ranking of a row of a rerank task.
inline std::vector<int64_t> order(const Task& task, size_t row) {
  return ranking(task, row * task.columns, task.columns);
}
inline prefix_result_info info(const prefix_task* task, size_t item) {
  prefix_result_info out = PREFIX_RESULT_INFO_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_item_info(task, item, &out, e); });
  return out;
}
// How many items are done.
inline size_t done(const prefix_task* task) {
  size_t n = 77;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_finished_count(task, &n, e); });
  return n;
}

inline bool was_cut(const prefix_task* task, size_t item) {
  return (info(task, item).flags & PREFIX_RESULT_CUT) != 0;
}
inline prefix_job_totals totals(const prefix_task* task) {
  prefix_job_totals out = PREFIX_JOB_TOTALS_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_get_totals(task, &out, e); });
  return out;
}
inline std::string message(const prefix_task* task, size_t item) {
  return prefix_abi::text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_task_item_message(task, item, buf, cap, needed, e);
  });
}
// The whole prompt of an item.
inline std::vector<prefix_token> tokens_of(const prefix_task* task, size_t item) {
  std::vector<prefix_token> tokens(2048);
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_item_tokens(task, item, tokens.data(), tokens.size(), &needed, e);
  });
  tokens.resize(needed);
  return tokens;
}
inline std::string answer_text(const prefix_task* task, size_t item) {
  return prefix_abi::text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_task_item_partial_text(task, item, buf, cap, needed, e);
  });
}

// NaN, for an item that failed, equals NaN.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Runs a task and gives its values.
inline std::vector<float> values_after_run(const Task& task) {
  run(task);
  return values(task);
}

}  // namespace prefix_tasks
