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

namespace prefix_tasks {

using prefix_abi::Engine;
using prefix_abi::Error;
using prefix_abi::expect;
using prefix_abi::Handle;
using prefix_abi::Settings;
using Json = nlohmann::json;
using Tokenizer = Handle<prefix_tokenizer, prefix_tokenizer_release>;
using Task = Handle<prefix_task, prefix_task_release>;
using Strings = std::vector<std::string>;

// A list of texts as the functions that make a task take it.
struct Texts {
  std::string bytes;
  std::vector<int64_t> offsets = {0};

  Texts() = default;
  Texts(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) add(text);
  }
  Texts(const Strings& texts) {  // NOLINT: a list of strings is one
    for (const std::string& text : texts) add(text);
  }
  void add(std::string_view text) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
};

// Written by tools/golden/make_models.py before the tests run; 1,024 positions.
inline std::string words_model() { return PREFIX_BUILD_DIR "/golden-models/qwen3-words"; }

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

inline std::string dumped(const Json& options) { return options.is_null() ? "" : options.dump(); }
inline const char* text_or_null(const std::string& text) {
  return text.empty() ? nullptr : text.data();
}

// The calls that make a task; `out` may be NULL.
inline prefix_status try_rerank(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                                const Texts& queries, const Texts& documents, const Json& options,
                                prefix_task** out, prefix_error* err) {
  const std::string text = dumped(options);
  return prefix_rerank(engine, tokenizer, queries.bytes.data(), queries.bytes.size(),
                       queries.offsets.data(), queries.offsets.size(), documents.bytes.data(),
                       documents.bytes.size(), documents.offsets.data(), documents.offsets.size(),
                       text_or_null(text), text.size(), out, err);
}
inline prefix_status try_embed(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                               const Texts& texts, const Json& options, prefix_task** out,
                               prefix_error* err) {
  const std::string text = dumped(options);
  return prefix_embed(engine, tokenizer, texts.bytes.data(), texts.bytes.size(),
                      texts.offsets.data(), texts.offsets.size(), text_or_null(text), text.size(),
                      out, err);
}
inline prefix_status try_answer(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                                const std::string& context, const Texts& questions,
                                const Json& options, prefix_task** out, prefix_error* err) {
  const std::string text = dumped(options);
  return prefix_answer(engine, tokenizer, context.data(), context.size(), questions.bytes.data(),
                       questions.bytes.size(), questions.offsets.data(), questions.offsets.size(),
                       text_or_null(text), text.size(), out, err);
}
inline prefix_status try_classify(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                                  const Texts& texts, const Texts& labels, const Json& options,
                                  prefix_task** out, prefix_error* err) {
  const std::string text = dumped(options);
  return prefix_classify(engine, tokenizer, texts.bytes.data(), texts.bytes.size(),
                         texts.offsets.data(), texts.offsets.size(), labels.bytes.data(),
                         labels.bytes.size(), labels.offsets.data(), labels.offsets.size(),
                         text_or_null(text), text.size(), out, err);
}

// The same, for those that must succeed.
inline Task rerank(prefix_engine* engine, const prefix_tokenizer* tokenizer, const Texts& queries,
                   const Texts& documents, const Json& options = nullptr) {
  Task task;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return try_rerank(engine, tokenizer, queries, documents, options, task.out(), e);
  });
  return task;
}
inline Task embed(prefix_engine* engine, const prefix_tokenizer* tokenizer, const Texts& texts,
                  const Json& options = nullptr) {
  Task task;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return try_embed(engine, tokenizer, texts, options, task.out(), e);
  });
  return task;
}
inline Task answer(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                   const std::string& context, const Texts& questions,
                   const Json& options = nullptr) {
  Task task;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return try_answer(engine, tokenizer, context, questions, options, task.out(), e);
  });
  return task;
}
inline Task classify(prefix_engine* engine, const prefix_tokenizer* tokenizer, const Texts& texts,
                     const Texts& labels, const Json& options = nullptr) {
  Task task;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return try_classify(engine, tokenizer, texts, labels, options, task.out(), e);
  });
  return task;
}

inline void run(prefix_task* task) {
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_run(task, -1, e); });
}

// Results of a finished task.
inline std::vector<float> values(const prefix_task* task) {
  size_t needed = 0;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_values(task, nullptr, 0, &needed, e); });
  std::vector<float> out(needed);
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_values(task, out.data(), needed, nullptr, e); });
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
inline std::vector<int64_t> order(const prefix_task* task, int64_t row) {
  size_t needed = 0;
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_task_order(task, row, nullptr, 0, &needed, e); });
  std::vector<int64_t> out(needed);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_task_order(task, row, out.data(), needed, nullptr, e);
  });
  return out;
}
inline prefix_result_info info(const prefix_task* task, int64_t item) {
  prefix_result_info out{};
  out.struct_size = sizeof(out);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_item_info(task, item, &out, e); });
  return out;
}
inline prefix_job_totals totals(const prefix_task* task) {
  prefix_job_totals out{};
  out.struct_size = sizeof(out);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_task_totals(task, &out, e); });
  return out;
}
inline std::string message(const prefix_task* task, int64_t item) {
  return prefix_abi::text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_task_item_message(task, item, buf, cap, needed, e);
  });
}
inline std::string answer_text(const prefix_task* task, int64_t item) {
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
