/* prefix.hpp - prefix.h in the shape of C++20: objects that release themselves, spans, exceptions.
 *
 *   #include <prefix.hpp>
 *   #include <cstdio>
 *
 *   int main() {
 *     prefix::Engine engine("model.gguf");
 *     prefix::Batch batch(engine);
 *     const prefix_token question[] = {1, 5, 9, 12}, ids[] = {3, 4};
 *     batch.add_logits(question, ids);
 *     const prefix::Job job = engine.run(batch);
 *     for (const float score : job.values(0)) std::printf("%g\n", score);
 *   }
 *
 * Everything is inline and calls the C interface, so a program may be built with another compiler
 * or standard library than libprefix.so was. What functions do, their limits and errors stand in
 * prefix.h, and so do its rules: an object may be destroyed before those that came from it, and any
 * thread may call any function unless prefix.h says otherwise.
 *
 * A failure throws prefix::Error. What can fail also takes a prefix_error* as its last argument:
 * with one, it throws nothing but std::bad_alloc (and Error for an argument that is a NULL text),
 * writes the failure there, and returns an empty value; error.code is PREFIX_OK after a call that
 * succeeded. Without one, and so always throwing, are option_infos(), devices() and these
 * constructors: Options() without JSON, Batch, Queue, Source and Simulation.
 */
#ifndef PREFIX_HPP
#define PREFIX_HPP

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prefix_cache.hpp"
#include "prefix_calls.hpp"
#include "prefix_constraint.hpp"
#include "prefix_job.hpp"
#include "prefix_options.hpp"
#include "prefix_system.hpp"

namespace prefix {
// The interface of this header; its version is part of every name, so that it can grow.
inline namespace cpp1 {

class Pool;

/* Options of engines, requests or tasks: prefix::Options().threads(2).isa("avx2"), or by name:
 * prefix::Options().set("threads", 2). prefix_options.hpp has the methods. */
class Options : public detail::OptionMethods<Options> {
 public:
  Options() : handle_(detail::made<prefix_options>(nullptr, prefix_options_create)) {}
  /* {"key": value, ...} */
  explicit Options(Text json, prefix_error* error = nullptr)
      : handle_(detail::made<prefix_options>(error, prefix_options_create)) {
    if (!handle_) return;
    call(error, [&](prefix_error* e) {
      return prefix_options_set_json(get(), json.data(), json.size(), e);
    });
  }
  /* A text, a number, a bool, or a list of numbers or texts. */
  template <typename Value>
  Options& set(Text key, const Value& value, prefix_error* error = nullptr) & {
    put(key, value, error);
    return *this;
  }
  template <typename Value>
  Options&& set(Text key, const Value& value, prefix_error* error = nullptr) && {
    put(key, value, error);
    return std::move(*this);
  }
  /* Engines that are made with these options share the threads of the pool, and keep it. */
  Options& set_pool(const Pool& pool, prefix_error* error = nullptr) &;
  Options&& set_pool(const Pool& pool, prefix_error* error = nullptr) && {
    return std::move(set_pool(pool, error));
  }
  /* The value in force, as text. */
  std::string value(Text key, prefix_error* error = nullptr) const {
    return read<std::string>(
        64, [&](auto... to) { return prefix_options_get(get(), key.data(), key.size(), to...); },
        error);
  }
  /* What was set, as a JSON object. */
  std::string json(prefix_error* error = nullptr) const {
    return read<std::string>(
        256, [&](auto... to) { return prefix_options_json(get(), to...); }, error);
  }
  prefix_options* get() const noexcept { return handle_.get(); }

 private:
  template <typename Value>
  void put(std::string_view key, const Value& value, prefix_error* error) {
    call(error, [&](prefix_error* e) {
      const char* const name = key.data();
      const size_t length = key.size();
      if constexpr (std::same_as<Value, bool>) {
        return prefix_options_set_bool(get(), name, length, value, e);
      } else if constexpr (std::integral<Value>) {
        if constexpr (std::unsigned_integral<Value> && sizeof(Value) >= sizeof(int64_t)) {
          // As a number it would be negative; as text the library refuses the true one.
          if (value > static_cast<Value>(INT64_MAX)) return put_text(key, std::to_string(value), e);
        }
        return prefix_options_set_int(get(), name, length, static_cast<int64_t>(value), e);
      } else if constexpr (std::floating_point<Value>) {
        return prefix_options_set_double(get(), name, length, static_cast<double>(value), e);
      } else if constexpr (std::convertible_to<const Value&, std::string_view>) {
        return put_text(key, Text(value), e);
      } else if constexpr (std::convertible_to<const Value&, std::span<const prefix_token>>) {
        const std::span<const prefix_token> list(value);
        return prefix_options_set_ints(get(), name, length, list.data(), list.size(), e);
      } else {
        // Copies: what a view makes lives no longer than its step of the loop.
        std::vector<std::string> copies;
        for (const auto& item : value) copies.emplace_back(Text(item));
        std::vector<const char*> texts;
        std::vector<size_t> lengths;
        for (const std::string& text : copies) {
          texts.push_back(text.data());
          lengths.push_back(text.size());
        }
        return prefix_options_set_texts(get(), name, length, texts.data(), lengths.data(),
                                        texts.size(), e);
      }
    });
  }
  prefix_status put_text(std::string_view key, std::string_view text, prefix_error* error) {
    return prefix_options_set(get(), key.data(), key.size(), text.data(), text.size(), error);
  }

  detail::Handle<prefix_options, prefix_options_release> handle_;
};

/* Worker threads that engines share: prefix::Pool pool(prefix::Options{}.set("cpus", "0-7")). */
class Pool {
 public:
  /* Options threads and cpus. */
  explicit Pool(const Options* options = nullptr, prefix_error* error = nullptr)
      : handle_(detail::made<prefix_pool>(error, [&](prefix_pool** out, prefix_error* e) {
          return prefix_pool_create(options ? options->get() : nullptr, out, e);
        })) {}
  explicit Pool(const Options& options, prefix_error* error = nullptr) : Pool(&options, error) {}
  prefix_pool* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<prefix_pool, prefix_pool_release> handle_;
};

inline Options& Options::set_pool(const Pool& pool, prefix_error* error) & {
  call(error, [&](prefix_error* e) { return prefix_options_set_pool(get(), pool.get(), e); });
  return *this;
}

/* What every request may have besides its tokens. */
struct Extra {
  const Options* options = nullptr;  // copied
  int64_t tag = 0;                   // comes back with results and events
};

class Engine;

/* Requests to be run together. Each add_ gives the number of its request. */
class Batch {
 public:
  using Tokens = std::span<const prefix_token>;

  /* To be planned only. */
  Batch() : Batch(static_cast<prefix_engine*>(nullptr)) {}
  explicit Batch(const Engine& engine);
  explicit Batch(prefix_engine* engine)
      : handle_(detail::made<prefix_batch>(nullptr, [&](prefix_batch** out, prefix_error* e) {
          return prefix_batch_create(engine, out, e);
        })) {}
  size_t add_logits(Tokens tokens, Tokens ids, Extra extra = {}, prefix_error* error = nullptr) {
    return add(extra, error, [&](auto... rest) {
      return prefix_batch_add_logits(get(), tokens.data(), tokens.size(), ids.data(), ids.size(),
                                     rest...);
    });
  }
  size_t add_logprobs(Tokens tokens, int32_t from = 1, Extra extra = {},
                      prefix_error* error = nullptr) {
    return add(extra, error, [&](auto... rest) {
      return prefix_batch_add_logprobs(get(), tokens.data(), tokens.size(), from, rest...);
    });
  }
  /* One request; values are the sums of the log-probs of each choice. */
  size_t add_choices(Tokens tokens, std::span<const std::vector<prefix_token>> choices,
                     Extra extra = {}, prefix_error* error = nullptr) {
    const Joined all(choices);
    return add(extra, error, [&](auto... rest) {
      return prefix_batch_add_choices(get(), tokens.data(), tokens.size(), all.tokens.data(),
                                      all.tokens.size(), all.offsets.data(), all.offsets.size(),
                                      rest...);
    });
  }
  /* A request for each; the number of the first one. */
  size_t add_continuations(Tokens tokens, std::span<const std::vector<prefix_token>> continuations,
                           Extra extra = {}, prefix_error* error = nullptr) {
    const Joined all(continuations);
    return add(extra, error, [&](auto... rest) {
      return prefix_batch_add_continuations(get(), tokens.data(), tokens.size(), all.tokens.data(),
                                            all.tokens.size(), all.offsets.data(),
                                            all.offsets.size(), rest...);
    });
  }
  size_t add_embedding(Tokens tokens, Extra extra = {}, prefix_error* error = nullptr) {
    return add(extra, error, [&](auto... rest) {
      return prefix_batch_add_embedding(get(), tokens.data(), tokens.size(), rest...);
    });
  }
  size_t add_generate(Tokens tokens, Extra extra = {}, prefix_error* error = nullptr) {
    return add(extra, error, [&](auto... rest) {
      return prefix_batch_add_generate(get(), tokens.data(), tokens.size(), rest...);
    });
  }
  /* Request `request`, which generates, goes on with tokens that the constraint allows; nullptr
   * takes one away. */
  void constrain(size_t request, const Constraint* constraint, prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) {
      return prefix_batch_constrain(get(), request, constraint ? constraint->get() : nullptr, e);
    });
  }
  size_t add_warm(Tokens tokens, Extra extra = {}, prefix_error* error = nullptr) {
    return add(extra, error, [&](auto... rest) {
      return prefix_batch_add_warm(get(), tokens.data(), tokens.size(), rest...);
    });
  }
  void clear(prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) { return prefix_batch_clear(get(), e); });
  }
  size_t size(prefix_error* error = nullptr) const {
    return detail::filled<size_t>(0, error,
                                  [&](auto... to) { return prefix_batch_count(get(), to...); });
  }
  std::string plan_json(prefix_error* error = nullptr) const {
    return read<std::string>(
        1024, [&](auto... to) { return prefix_batch_plan_json(get(), to...); }, error);
  }
  prefix_batch* get() const noexcept { return handle_.get(); }

 private:
  // Lists in one array, as C takes them.
  struct Joined {
    explicit Joined(std::span<const std::vector<prefix_token>> lists) {
      for (const std::vector<prefix_token>& list : lists) {
        tokens.insert(tokens.end(), list.begin(), list.end());
        offsets.push_back(static_cast<int64_t>(tokens.size()));
      }
    }
    std::vector<prefix_token> tokens;
    std::vector<int64_t> offsets = {0};
  };
  template <typename Add>
  size_t add(const Extra& extra, prefix_error* error, const Add& function) {
    const prefix_options* options = extra.options ? extra.options->get() : nullptr;
    return detail::filled<size_t>(0, error,
                                  [&](auto... to) { return function(options, extra.tag, to...); });
  }

  detail::Handle<prefix_batch, prefix_batch_release> handle_;
};

/* The files of a model, for one that is not in a file system. */
class Source {
 public:
  Source() : handle_(detail::made<prefix_source>(nullptr, prefix_source_create)) {}
  /* Not copied: the bytes stay as they are until each load of them has ended, or its engine is
   * destroyed with every batch made for it. */
  Source& add(Text name, std::span<const std::byte> bytes, prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) {
      return prefix_source_add_buffer(get(), name.data(), name.size(), bytes.data(), bytes.size(),
                                      e);
    });
    return *this;
  }
  prefix_source* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<prefix_source, prefix_source_release> handle_;
};

/* One model, one cache, one scheduler. */
class Engine {
 public:
  /* Loads a Hugging Face directory or a .gguf file. With `error`, an engine that failed to load is
   * empty: get() is NULL, and every call of it fails. */
  explicit Engine(Text path, const Options* options = nullptr, prefix_error* error = nullptr)
      : Engine(detail::made<prefix_engine>(error, [&](prefix_engine** out, prefix_error* e) {
          return prefix_engine_create(path.data(), path.size(), options ? options->get() : nullptr,
                                      out, e);
        })) {}
  explicit Engine(prefix_engine* handle) : handle_(handle) {}  // takes the reference

  /* Does not wait: wait() says when it is ready, and destroying it before gives up. */
  static Engine open(Text path, const Options* options = nullptr, prefix_error* error = nullptr) {
    return Engine(detail::made<prefix_engine>(error, [&](prefix_engine** out, prefix_error* e) {
      return prefix_engine_open(path.data(), path.size(), options ? options->get() : nullptr, out,
                                e);
    }));
  }
  static Engine open(const Source& source, const Options* options = nullptr,
                     prefix_error* error = nullptr) {
    return Engine(detail::made<prefix_engine>(error, [&](prefix_engine** out, prefix_error* e) {
      return prefix_engine_open_source(source.get(), options ? options->get() : nullptr, out, e);
    }));
  }
  /* Whether it is ready, after waiting for it this long; a load that failed throws. *fraction, in
   * [0, 1]: how much is loaded. */
  bool wait(std::chrono::milliseconds timeout = kForever, double* fraction = nullptr,
            prefix_error* error = nullptr) const {
    prefix_error failure = PREFIX_ERROR_INIT;
    const prefix_status status = prefix_engine_wait(get(), timeout.count(), fraction, &failure);
    return detail::ok_unless(status, failure, error, PREFIX_ERR_TIMEOUT);
  }
  void notify(Queue& queue, int64_t tag, prefix_error* error = nullptr) const {
    call(error, [&](prefix_error* e) { return prefix_engine_notify(get(), queue.get(), tag, e); });
  }
  static prefix_memory estimate(Text path, const Options* options = nullptr,
                                prefix_error* error = nullptr) {
    return detail::filled<prefix_memory>(PREFIX_MEMORY_INIT, error, [&](auto... to) {
      return prefix_engine_estimate(path.data(), path.size(), options ? options->get() : nullptr,
                                    to...);
    });
  }
  /* Waits for all requests. Nobody has the job before: submit() gives one that can be cancelled. */
  Job run(const Batch& batch, prefix_error* error = nullptr) const {
    return Job(detail::made<prefix_job>(error, [&](prefix_job** out, prefix_error* e) {
      return prefix_run(get(), batch.get(), out, e);
    }));
  }
  /* Does not wait. A job that is thrown away is cancelled: keep it, or detach() it. */
  [[nodiscard]] Job submit(const Batch& batch, prefix_error* error = nullptr) const {
    return Job(detail::made<prefix_job>(error, [&](prefix_job** out, prefix_error* e) {
      return prefix_submit(get(), batch.get(), out, e);
    }));
  }
  /* Takes no more requests, waits this long for running ones and cancels the rest. */
  void shutdown(std::chrono::milliseconds timeout, prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) { return prefix_engine_shutdown(get(), timeout.count(), e); });
  }
  prefix_engine_info info(prefix_error* error = nullptr) const {
    return detail::filled<prefix_engine_info>(PREFIX_ENGINE_INFO_INIT, error, [&](auto... to) {
      return prefix_engine_get_info(get(), to...);
    });
  }
  prefix_engine_stats stats(prefix_error* error = nullptr) const {
    return detail::filled<prefix_engine_stats>(PREFIX_ENGINE_STATS_INIT, error, [&](auto... to) {
      return prefix_engine_get_stats(get(), to...);
    });
  }
  std::vector<prefix_token> end_tokens(prefix_error* error = nullptr) const {
    return read<std::vector<prefix_token>>(
        8, [&](auto... to) { return prefix_engine_end_tokens(get(), to...); }, error);
  }
  std::string info_json(prefix_error* error = nullptr) const {
    return text(prefix_engine_info_json, error);
  }
  /* In Prometheus text format. */
  std::string metrics(prefix_error* error = nullptr) const {
    return text(prefix_metrics_text, error);
  }
  /* PREFIX_ENGINE_*. */
  int32_t state() const { return prefix_engine_state(get()); }
  /* The cache of a namespace, by its number. */
  Cache cache(int32_t ns = 0) const { return Cache(get(), ns); }
  /* Of these namespaces, of none all. */
  prefix_snapshot_info save_snapshot(Text path, std::span<const int32_t> namespaces = {},
                                     prefix_error* error = nullptr) const {
    return detail::filled<prefix_snapshot_info>(PREFIX_SNAPSHOT_INFO_INIT, error, [&](auto... to) {
      return prefix_snapshot_save(get(), path.data(), path.size(), namespaces.data(),
                                  namespaces.size(), to...);
    });
  }
  prefix_snapshot_info load_snapshot(Text path, prefix_error* error = nullptr) const {
    return detail::filled<prefix_snapshot_info>(PREFIX_SNAPSHOT_INFO_INIT, error, [&](auto... to) {
      return prefix_snapshot_load(get(), path.data(), path.size(), to...);
    });
  }
  /* The number of a namespace, for the option namespace_id and below. */
  int32_t open_namespace(Text name, prefix_error* error = nullptr) {
    return detail::filled<int32_t>(-1, error, [&](auto... to) {
      return prefix_namespace_open(get(), name.data(), name.size(), to...);
    });
  }
  /* That of several parts, as a tenant's salt and an epoch: an array of them, or {"salt", "7"}. */
  int32_t open_namespace(std::span<const std::string_view> parts, prefix_error* error = nullptr) {
    return open_parts(parts, error);
  }
  int32_t open_namespace(std::initializer_list<Text> parts, prefix_error* error = nullptr) {
    return open_parts(parts, error);
  }
  /* Nothing when it is not open. */
  std::optional<int32_t> find_namespace(Text name, prefix_error* error = nullptr) const {
    int32_t ns = 0;
    prefix_error failure = PREFIX_ERROR_INIT;
    const prefix_status status =
        prefix_namespace_find(get(), name.data(), name.size(), &ns, &failure);
    if (!detail::ok_unless(status, failure, error, PREFIX_ERR_NOT_FOUND)) return std::nullopt;
    return ns;
  }
  int32_t namespace_count(prefix_error* error = nullptr) const {
    return detail::filled<int32_t>(
        0, error, [&](auto... to) { return prefix_namespace_count(get(), to...); });
  }
  /* Evicts what is in it; the tokens that it freed. */
  int64_t drop_namespace(int32_t ns, prefix_error* error = nullptr) {
    return detail::filled<int64_t>(
        0, error, [&](auto... to) { return prefix_namespace_drop(get(), ns, to...); });
  }
  /* The tokens that it freed. */
  int64_t close_namespace(int32_t ns, prefix_error* error = nullptr) {
    return detail::filled<int64_t>(
        0, error, [&](auto... to) { return prefix_namespace_close(get(), ns, to...); });
  }
  /* Requests name it by option adapter; a directory as PEFT writes it. */
  void load_adapter(Text name, Text path, prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) {
      return prefix_adapter_load(get(), name.data(), name.size(), path.data(), path.size(), e);
    });
  }
  /* The same from files in memory, which are read until it returns. */
  void load_adapter(Text name, const Source& source, prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) {
      return prefix_adapter_load_source(get(), name.data(), name.size(), source.get(), e);
    });
  }
  /* Requests that were submitted keep it until they end. */
  void unload_adapter(Text name, prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) {
      return prefix_adapter_unload(get(), name.data(), name.size(), e);
    });
  }
  /* The namespace in which requests of `ns` with the adapter run. */
  int32_t adapter_namespace(Text name, int32_t ns = 0, prefix_error* error = nullptr) {
    return detail::filled<int32_t>(-1, error, [&](auto... to) {
      return prefix_adapter_namespace(get(), ns, name.data(), name.size(), to...);
    });
  }
  std::string adapters_json(prefix_error* error = nullptr) const {
    return text(prefix_adapters_json, error);
  }
  prefix_engine* get() const noexcept { return handle_.get(); }

 private:
  template <typename Function>
  std::string text(Function function, prefix_error* error) const {
    return read<std::string>(4096, [&](auto... to) { return function(get(), to...); }, error);
  }
  template <typename Range>
  int32_t open_parts(const Range& parts, prefix_error* error) {
    std::string text;
    std::vector<int64_t> offsets = {0};
    for (const std::string_view part : parts) {
      text += part;
      offsets.push_back(static_cast<int64_t>(text.size()));
    }
    return detail::filled<int32_t>(-1, error, [&](auto... to) {
      return prefix_namespace_open_tuple(get(), text.data(), text.size(), offsets.data(),
                                         offsets.size(), to...);
    });
  }

  detail::Handle<prefix_engine, prefix_engine_release> handle_;
};

inline Batch::Batch(const Engine& engine) : Batch(engine.get()) {}

}  // namespace cpp1
}  // namespace prefix

#endif /* PREFIX_HPP */
