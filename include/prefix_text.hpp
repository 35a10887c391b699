/* prefix_text.hpp - prefix_text.h in the shape of C++20: tokenizers and tasks.
 *
 *   #include <prefix_text.hpp>
 *   #include <cstdio>
 *
 *   int main() {
 *     const prefix::Engine engine("model.gguf");
 *     const prefix::Tokenizer tokenizer("model.gguf");
 *     const char* documents[] = {"The moon circles the earth.", "Bread is baked from flour."};
 *     prefix::Task task(engine, tokenizer, "rerank");
 *     task.add_product({"How is bread made?"}, documents);
 *     task.submit();
 *     task.wait();
 *     for (const auto& [place, score] : task.ranking(0, 2))
 *       std::printf("%.3f %s\n", score, documents[place]);
 *   }
 *
 * A program that includes it links libprefix.so and libprefix_text.so. What functions do, their
 * limits and errors stand in prefix_text.h; how failures are told, in prefix.hpp.
 */
#ifndef PREFIX_TEXT_HPP
#define PREFIX_TEXT_HPP

#include <algorithm>
#include <initializer_list>
#include <ranges>
#include <type_traits>

#include "prefix.hpp"
#include "prefix_text.h"

namespace prefix {
inline namespace cpp1 {

/* Texts as an argument: {"one", "two"}, or anything that holds strings. It does not own them. */
class Texts {
 public:
  Texts(std::initializer_list<Text> texts) { add_all(texts); }
  template <std::ranges::input_range Range>
    requires std::is_lvalue_reference_v<std::ranges::range_reference_t<const Range>> &&
             std::convertible_to<std::ranges::range_reference_t<const Range>, std::string_view>
  Texts(const Range& texts) {  // NOLINT: whatever holds strings is one
    add_all(texts);
  }
  size_t size() const noexcept { return texts_.size(); }
  /* As C takes them. */
  const char* const* data() const noexcept { return texts_.data(); }
  const size_t* lengths() const noexcept { return lengths_.data(); }

 private:
  template <typename Range>
  void add_all(const Range& texts) {
    for (const Text text : texts) {
      texts_.push_back(text.data());
      lengths_.push_back(text.size());
    }
  }

  std::vector<const char*> texts_;
  std::vector<size_t> lengths_;
};

/* A tokenizer with the chat templates of its model. */
class Tokenizer {
 public:
  /* A Hugging Face directory, a tokenizer.json or a .gguf file. With `error`, one that failed to
   * open is empty: get() is NULL, and every call of it fails. */
  explicit Tokenizer(Text path, prefix_error* error = nullptr)
      : handle_(detail::made<prefix_tokenizer>(error, [&](auto... to) {
          return prefix_tokenizer_open(path.data(), path.size(), to...);
        })) {}
  /* From the contents of tokenizer.json and of tokenizer_config.json ("" for none). */
  static Tokenizer from_json(Text tokenizer, Text config = {}, prefix_error* error = nullptr) {
    return Tokenizer(detail::made<prefix_tokenizer>(error, [&](auto... to) {
      return prefix_tokenizer_from_json(tokenizer.data(), tokenizer.size(), config.data(),
                                        config.size(), to...);
    }));
  }

  std::string info_json(prefix_error* error = nullptr) const {
    return read<std::string>(
        1024, [&](auto... to) { return prefix_tokenizer_info_json(get(), to...); }, error);
  }
  int64_t vocab_size(prefix_error* error = nullptr) const {
    return detail::filled<int64_t>(
        0, error, [&](auto... to) { return prefix_tokenizer_vocab_size(get(), to...); });
  }
  /* The token of a role, "bos" for instance; nothing when the model has none. */
  std::optional<prefix_token> special_token(Text role, prefix_error* error = nullptr) const {
    return found(error, [&](auto... to) {
      return prefix_tokenizer_special_token(get(), role.data(), role.size(), to...);
    });
  }
  /* The token of a name, "<|im_end|>" for instance; nothing when there is none. */
  std::optional<prefix_token> token_id(Text name, prefix_error* error = nullptr) const {
    return found(error, [&](auto... to) {
      return prefix_tokenizer_token_id(get(), name.data(), name.size(), to...);
    });
  }
  std::string token_bytes(prefix_token token, prefix_error* error = nullptr) const {
    return read<std::string>(
        32, [&](auto... to) { return prefix_tokenizer_token_bytes(get(), token, to...); }, error);
  }
  /* Those after which a generation is over. */
  std::vector<prefix_token> end_tokens(prefix_error* error = nullptr) const {
    return read<std::vector<prefix_token>>(
        16, [&](auto... to) { return prefix_tokenizer_end_tokens(get(), to...); }, error);
  }
  /* flags: PREFIX_ENCODE_*. */
  std::vector<prefix_token> encode(Text text, int32_t flags = 0,
                                   prefix_error* error = nullptr) const {
    // Seldom more tokens than bytes, and a few that the model wants around them.
    return read<std::vector<prefix_token>>(
        text.size() + 8,
        [&](auto... to) {
          return prefix_tokenizer_encode(get(), text.data(), text.size(), flags, to...);
        },
        error);
  }
  /* The same with the bytes of the text that each token comes from: offsets[2 * i] up to
   * offsets[2 * i + 1]. */
  std::vector<prefix_token> encode_offsets(Text text, std::vector<int64_t>& offsets,
                                           int32_t flags = 0, prefix_error* error = nullptr) const {
    std::vector<prefix_token> tokens = read<std::vector<prefix_token>>(
        text.size() + 8,
        [&](prefix_token* out, size_t n, size_t* needed, prefix_error* e) {
          offsets.resize(2 * n);
          return prefix_tokenizer_encode_offsets(get(), text.data(), text.size(), flags, out, n,
                                                 needed, offsets.data(), offsets.size(), e);
        },
        error);
    offsets.resize(2 * tokens.size());
    return tokens;
  }
  /* Many texts in one call, each on its own. */
  std::vector<std::vector<prefix_token>> encode_batch(const Texts& texts, int32_t flags = 0,
                                                      prefix_error* error = nullptr) const {
    std::string all;
    std::vector<int64_t> ends = {0}, places(texts.size() + 1);
    for (size_t i = 0; i < texts.size(); ++i) {
      all.append(texts.data()[i], texts.lengths()[i]);
      ends.push_back(static_cast<int64_t>(all.size()));
    }
    std::vector<std::vector<prefix_token>> lists;
    prefix_error failure = PREFIX_ERROR_INIT;
    const auto tokens = read<std::vector<prefix_token>>(
        all.size() + 8 * texts.size(),
        [&](prefix_token* out, size_t n, size_t* needed, prefix_error* e) {
          return prefix_tokenizer_encode_batch(get(), all.data(), all.size(), ends.data(),
                                               ends.size(), flags, out, n, needed, places.data(),
                                               places.size(), e);
        },
        &failure);
    if (!detail::ok(failure.code, failure, error)) return lists;
    for (size_t i = 0; i + 1 < places.size(); ++i)
      lists.emplace_back(tokens.begin() + places[i], tokens.begin() + places[i + 1]);
    return lists;
  }
  /* flags: PREFIX_DECODE_*. */
  std::string decode(std::span<const prefix_token> tokens, int32_t flags = 0,
                     prefix_error* error = nullptr) const {
    return read<std::string>(
        8 * tokens.size() + 64,
        [&](auto... to) {
          return prefix_tokenizer_decode(get(), tokens.data(), tokens.size(), flags, to...);
        },
        error);
  }
  /* The prompt of a conversation; both arguments are JSON, see prefix_tokenizer_chat_text. */
  std::string chat_text(Text messages, Text options = "{}", prefix_error* error = nullptr) const {
    return read<std::string>(
        messages.size() + 1024,
        [&](auto... to) {
          return prefix_tokenizer_chat_text(get(), messages.data(), messages.size(), options.data(),
                                            options.size(), to...);
        },
        error);
  }
  std::vector<prefix_token> chat_tokens(Text messages, Text options = "{}",
                                        prefix_error* error = nullptr) const {
    return read<std::vector<prefix_token>>(
        messages.size() + 256,
        [&](prefix_token* out, size_t n, size_t* needed, prefix_error* e) {
          return prefix_tokenizer_chat_tokens(get(), messages.data(), messages.size(),
                                              options.data(), options.size(), out, n, needed,
                                              nullptr, 0, e);
        },
        error);
  }
  prefix_tokenizer* get() const noexcept { return handle_.get(); }

 private:
  using Handle = detail::Handle<prefix_tokenizer, prefix_tokenizer_release>;
  explicit Tokenizer(prefix_tokenizer* handle) : handle_(handle) {}

  template <typename Find>
  static std::optional<prefix_token> found(prefix_error* error, const Find& find) {
    prefix_token token = 0;
    prefix_error failure = PREFIX_ERROR_INIT;
    const prefix_status status = find(&token, &failure);
    if (!detail::ok_unless(status, failure, error, PREFIX_ERR_NOT_FOUND)) return std::nullopt;
    return token;
  }

  Handle handle_;
};

/* The text of tokens that arrive one by one, never cutting a character. */
class Detokenizer {
 public:
  /* flags: PREFIX_DECODE_*. */
  explicit Detokenizer(const Tokenizer& tokenizer, int32_t flags = 0, prefix_error* error = nullptr)
      : handle_(detail::made<prefix_detok>(error, [&](auto... to) {
          return prefix_detok_create(tokenizer.get(), flags, to...);
        })) {}
  /* The text that has become complete, often none. */
  std::string push(std::span<const prefix_token> tokens, prefix_error* error = nullptr) {
    return read<std::string>(
        256,
        [&](auto... to) { return prefix_detok_push(get(), tokens.data(), tokens.size(), to...); },
        error);
  }
  std::string push(prefix_token token, prefix_error* error = nullptr) {
    return push(std::span(&token, 1), error);
  }
  /* The rest of the text; then the next one may begin. */
  std::string flush(prefix_error* error = nullptr) {
    return read<std::string>(
        256, [&](auto... to) { return prefix_detok_flush(get(), to...); }, error);
  }
  prefix_detok* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<prefix_detok, prefix_detok_release> handle_;
};

/* What happened to an item of a task; its number is event.request. */
struct TaskEvent {
  prefix_event event = PREFIX_EVENT_INIT;
  std::string text; /* more of it; PREFIX_EVENT_TEXT */
};

/* A place in a ranking: counted from the first value that was asked for, and the value. */
struct Ranked {
  size_t place = 0;
  float score = 0;
};

/* A token of a text that a task wrote. */
struct TextToken {
  prefix_token token = 0;
  float logprob = 0;
  size_t offset = 0;         /* where it begins in the text, in bytes */
  std::vector<TopToken> top; /* with option top_logprobs: the likeliest of its place */
};

/* Text in; scores, vectors or texts out. Destroying it cancels what is not finished. */
class Task {
 public:
  /* kind: "rerank", "embed", "classify", "answer", "generate" or "chat". */
  Task(const Engine& engine, const Tokenizer& tokenizer, Text kind,
       const Options* options = nullptr, prefix_error* error = nullptr)
      : handle_(detail::made<prefix_task>(error, [&](auto... to) {
          return prefix_task_create(engine.get(), tokenizer.get(), kind.data(), kind.size(),
                                    options ? options->get() : nullptr, to...);
        })) {}

  /* Of classify. */
  void set_labels(const Texts& labels, prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) {
      return prefix_task_set_labels(get(), labels.data(), labels.lengths(), labels.size(), e);
    });
  }
  /* Items one after the other, each of as many texts as the kind has; the number of the first. */
  size_t add(const Texts& texts, int64_t tag = 0, prefix_error* error = nullptr) {
    return detail::filled<size_t>(0, error, [&](auto... to) {
      return prefix_task_add(get(), texts.data(), texts.lengths(), texts.size(), tag, to...);
    });
  }
  /* Every second text with every first one; the number of the first item. */
  size_t add_product(const Texts& firsts, const Texts& seconds, int64_t tag = 0,
                     prefix_error* error = nullptr) {
    return detail::filled<size_t>(0, error, [&](auto... to) {
      return prefix_task_add_product(get(), firsts.data(), firsts.lengths(), firsts.size(),
                                     seconds.data(), seconds.lengths(), seconds.size(), tag, to...);
    });
  }
  void submit(prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) { return prefix_task_submit(get(), e); });
  }
  /* Whether every item is finished, after waiting for it this long. */
  bool wait(std::chrono::milliseconds timeout = kForever, prefix_error* error = nullptr) const {
    prefix_error failure = PREFIX_ERROR_INIT;
    const prefix_status status = prefix_task_wait(get(), timeout.count(), &failure);
    return detail::ok_unless(status, failure, error, PREFIX_ERR_TIMEOUT);
  }
  void notify(Queue& queue, int64_t tag, prefix_error* error = nullptr) const {
    call(error, [&](prefix_error* e) { return prefix_task_notify(get(), queue.get(), tag, e); });
  }
  void cancel(prefix_error* error = nullptr) const {
    call(error, [&](prefix_error* e) { return prefix_task_cancel(get(), e); });
  }
  /* Its recipe, and why it has this one. */
  std::string info_json(prefix_error* error = nullptr) const {
    return read<std::string>(
        256, [&](auto... to) { return prefix_task_info_json(get(), to...); }, error);
  }
  size_t size(prefix_error* error = nullptr) const {
    return detail::filled<size_t>(0, error,
                                  [&](auto... to) { return prefix_task_count(get(), to...); });
  }
  size_t finished_count(prefix_error* error = nullptr) const {
    return detail::filled<size_t>(
        0, error, [&](auto... to) { return prefix_task_finished_count(get(), to...); });
  }
  /* Of an item as the engine is given them, to look for them in its cache for instance. */
  std::vector<prefix_token> tokens(size_t item, prefix_error* error = nullptr) const {
    return array<std::vector<prefix_token>>(prefix_task_item_tokens, item, error);
  }
  /* The next event; nothing after this time, and when there will be no more. */
  std::optional<TaskEvent> next_event(std::chrono::milliseconds timeout = kForever,
                                      prefix_error* error = nullptr) const {
    TaskEvent next;
    prefix_error failure = PREFIX_ERROR_INIT;
    next.text = read<std::string>(
        256,
        [&](auto... to) {
          return prefix_task_next_event(get(), timeout.count(), &next.event, to...);
        },
        &failure);
    if (!detail::ok_unless(failure.code, failure, error, PREFIX_ERR_TIMEOUT, PREFIX_ERR_NO_EVENT))
      return std::nullopt;
    return next;
  }
  /* The tag comes when there is an event to read, and again when next_event() has run out of them.
   * See prefix_job_notify_events. */
  void notify_events(Queue& queue, int64_t tag, prefix_error* error = nullptr) const {
    call(error,
         [&](prefix_error* e) { return prefix_task_notify_events(get(), queue.get(), tag, e); });
  }

  /* Values of an item. */
  size_t width(prefix_error* error = nullptr) const {
    return detail::filled<size_t>(0, error,
                                  [&](auto... to) { return prefix_task_width(get(), to...); });
  }
  prefix_result_info info(size_t item, prefix_error* error = nullptr) const {
    return detail::filled<prefix_result_info>(PREFIX_RESULT_INFO_INIT, error, [&](auto... to) {
      return prefix_task_item_info(get(), item, to...);
    });
  }
  /* The sentence of an item that failed. */
  std::string message(size_t item, prefix_error* error = nullptr) const {
    return array<std::string>(prefix_task_item_message, item, error);
  }
  std::vector<float> values(size_t item, prefix_error* error = nullptr) const {
    return array<std::vector<float>>(prefix_task_item_values, item, error);
  }
  std::string text(size_t item, prefix_error* error = nullptr) const {
    return array<std::string>(prefix_task_item_text, item, error);
  }
  /* What there is, also of a text that was cancelled or ran out of time. */
  std::string partial_text(size_t item, prefix_error* error = nullptr) const {
    return array<std::string>(prefix_task_item_partial_text, item, error);
  }
  /* With option logprobs or top_logprobs: the tokens of a text from number `first` on; see
   * prefix_task_item_logprobs. */
  std::vector<TextToken> logprobs(size_t item, size_t first = 0,
                                  prefix_error* error = nullptr) const {
    std::vector<float> logprobs;
    std::vector<int64_t> offsets;
    const auto tokens = read<std::vector<prefix_token>>(
        64,
        [&](prefix_token* out, size_t n, size_t* needed, prefix_error* e) {
          logprobs.resize(n);
          offsets.resize(n);
          return prefix_task_item_logprobs(get(), item, first, out, n, needed, logprobs.data(), n,
                                           offsets.data(), n, e);
        },
        error);
    std::vector<TextToken> found;
    for (size_t i = 0; i < tokens.size(); ++i) {
      // Where the first place has none, no place has.
      const bool has_top = i == 0 || !found[0].top.empty();
      std::vector<TopToken> top;
      if (has_top)
        top = detail::read_top(
            error, [&](auto... to) { return prefix_task_item_top(get(), item, first + i, to...); });
      if (error && error->code != PREFIX_OK) return {};
      found.push_back({tokens[i], logprobs[i], static_cast<size_t>(offsets[i]), std::move(top)});
    }
    return found;
  }
  /* Of all items, width() for each; NaN where one failed or is unfinished. */
  std::vector<float> all_values(prefix_error* error = nullptr) const {
    return read<std::vector<float>>(
        size(error) * width(error),
        [&](auto... to) { return prefix_task_all_values(get(), to...); }, error);
  }
  /* Of every item. */
  std::vector<prefix_status> statuses(prefix_error* error = nullptr) const {
    return read<std::vector<prefix_status>>(
        size(error), [&](auto... to) { return prefix_task_statuses(get(), to...); }, error);
  }
  /* The first item that failed; nothing when none has so far. */
  std::optional<Failure> first_failure(prefix_error* error = nullptr) const {
    Failure failure;
    failure.request = static_cast<size_t>(-1);
    const prefix_status status = prefix_task_first_failure(get(), &failure.request, &failure.error);
    const bool found = failure.request != static_cast<size_t>(-1);
    // Without one, the status is that of the call itself.
    const prefix_error none = PREFIX_ERROR_INIT;
    detail::ok(found ? PREFIX_OK : status, found ? none : failure.error, error);
    return found ? std::optional(failure) : std::nullopt;
  }
  /* Of these values of all_values(), from best to worst; see prefix_task_ranking. */
  std::vector<Ranked> ranking(size_t first, size_t count, prefix_error* error = nullptr) const {
    std::vector<float> scores;
    const auto places = read<std::vector<int64_t>>(
        std::min(count, size(error) * width(error)),  // more are refused, whatever the room
        [&](int64_t* out, size_t n, size_t* needed, prefix_error* e) {
          scores.resize(n);
          return prefix_task_ranking(get(), first, count, out, n, needed, scores.data(), n, e);
        },
        error);
    std::vector<Ranked> ranking;
    for (size_t i = 0; i < places.size(); ++i)
      ranking.push_back({static_cast<size_t>(places[i]), scores[i]});
    return ranking;
  }
  prefix_job_totals totals(prefix_error* error = nullptr) const {
    return detail::filled<prefix_job_totals>(PREFIX_JOB_TOTALS_INIT, error, [&](auto... to) {
      return prefix_task_get_totals(get(), to...);
    });
  }
  prefix_task* get() const noexcept { return handle_.get(); }

 private:
  template <typename Array, typename Function>
  Array array(Function function, size_t item, prefix_error* error) const {
    return read<Array>(64, [&](auto... to) { return function(get(), item, to...); }, error);
  }

  detail::Handle<prefix_task, prefix_task_release> handle_;
};

/* The names of the shipped recipes. */
inline std::vector<std::string> recipes() {
  std::vector<std::string> names;
  for (size_t i = 0; i < prefix_recipe_count(); ++i) names.emplace_back(prefix_recipe_name(i));
  return names;
}
/* "major.minor.patch" of the loaded libprefix_text. */
inline std::string text_version() { return prefix_text_version_string(); }

/* A shipped recipe, as a place to start from. */
inline std::string recipe_json(Text name, prefix_error* error = nullptr) {
  return read<std::string>(
      1024, [&](auto... to) { return prefix_recipe_json(name.data(), name.size(), to...); }, error);
}

}  // namespace cpp1
}  // namespace prefix

#endif /* PREFIX_TEXT_HPP */
