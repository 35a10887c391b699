// What the tests of the C interface share: a model to run, errors, handles that release themselves.
// Nothing here reaches inside the library; all of it goes through prefix.h.
#pragma once

#include <gtest/gtest.h>
#include <prefix.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "random_checkpoint.h"
#include "support/temp_folder.h"

namespace prefix_abi {

using Tokens = std::vector<prefix_token>;
using Settings = std::initializer_list<std::pair<const char*, const char*>>;

inline bool quick() { return std::getenv("PREFIX_TEST_QUICK") != nullptr; }

struct Error : prefix_error {
  Error() : prefix_error(PREFIX_ERROR_INIT) {}
};

template <typename T, void (*Release)(T*)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { Release(handle_); }
  operator T*() const { return handle_; }  // NOLINT: as a C program would pass it
  T** out() { return &handle_; }
  T* give_up() { return std::exchange(handle_, nullptr); }

 private:
  T* handle_ = nullptr;
};
using Options = Handle<prefix_options, prefix_options_release>;
using Engine = Handle<prefix_engine, prefix_engine_release>;
using Batch = Handle<prefix_batch, prefix_batch_release>;
using Job = Handle<prefix_job, prefix_job_release>;
using Queue = Handle<prefix_queue, prefix_queue_release>;
using Sim = Handle<prefix_sim, prefix_sim_release>;
using Source = Handle<prefix_source, prefix_source_release>;
using Pool = Handle<prefix_pool, prefix_pool_release>;
using Constraint = Handle<prefix_constraint, prefix_constraint_release>;

// The status of a call, with its message when it is not the wanted one:
//   expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_clear(batch, e); });
// On failure each part must occur in the message.
template <typename Call>
void expect(prefix_status wanted, const Call& call,
            std::initializer_list<std::string_view> parts = {}) {
  Error error;
  const prefix_status got = call(&error);
  EXPECT_EQ(got, wanted) << prefix_status_name(got) << ": " << error.message;
  if (got == PREFIX_OK) return;
  EXPECT_EQ(error.code, got);
  EXPECT_NE(error.message[0], 0) << "no sentence";
  EXPECT_EQ(std::string_view(error.domain).substr(0, 7), "prefix_");
  for (const std::string_view part : parts)
    EXPECT_NE(std::string_view(error.message).find(part), std::string_view::npos)
        << "the message lacks '" << part << "': " << error.message;
}

inline Options make_options(Settings settings) {
  Options options;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_options_create(options.out(), e); });
  for (const auto& [key, value] : settings)
    expect(PREFIX_OK, [&, k = key, v = value](prefix_error* e) {
      return prefix_options_set(options, k, PREFIX_NUL, v, PREFIX_NUL, e);
    });
  return options;
}

// A random model of 131 tokens, two layers and 4,096 positions; one for the whole program.
inline const std::string& model_path() {
  static const prefix::testing_support::TempFolder folder;
  static const std::string path = [] {
    prefix::tools::write_checkpoint(folder.path(), {});
    return folder.path();
  }();
  return path;
}

inline Engine make_engine(Settings settings = {}) {
  const Options options = make_options({{"cache_bytes", "16M"}, {"threads", "2"}});
  for (const auto& [key, value] : settings)
    expect(PREFIX_OK, [&, k = key, v = value](prefix_error* e) {
      return prefix_options_set(options, k, PREFIX_NUL, v, PREFIX_NUL, e);
    });
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  return engine;
}

// The clock of events.
inline int64_t monotonic_us() {
  timespec now{};
  EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
  return int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
}

inline Pool make_pool(Settings settings = {{"threads", "2"}}) {
  const Options options = make_options(settings);
  Pool pool;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_pool_create(options, pool.out(), e); });
  return pool;
}

inline Queue make_queue() {
  Queue queue;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_create(queue.out(), e); });
  return queue;
}

inline Source make_source() {
  Source source;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_source_create(source.out(), e); });
  return source;
}

// Allows every token, and has no state.
inline constexpr prefix_constraint_calls kAnyToken = {
    sizeof(prefix_constraint_calls),
    0,
    [](void*, void** state) { return *state = nullptr, int32_t{0}; },
    [](void*, uint32_t* mask, size_t words) {
      for (size_t i = 0; i < words; ++i) mask[i] = ~uint32_t{0};
      return int32_t{0};
    },
    [](void*, prefix_token) { return int32_t{0}; },
    [](void*) {},
    nullptr};

inline Constraint make_constraint(const prefix_constraint_calls& calls, void* user = nullptr) {
  Constraint constraint;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_constraint_create(&calls, user, constraint.out(), e);
  });
  return constraint;
}

inline Batch make_batch(prefix_engine* engine) {
  Batch batch;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_create(engine, batch.out(), e); });
  return batch;
}

inline Sim make_sim(const char* options = nullptr) {
  Sim sim;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_sim_create(options, options ? PREFIX_NUL : 0, sim.out(), e);
  });
  return sim;
}

inline void add_logits(prefix_batch* batch, const Tokens& tokens, const Tokens& ids = {0, 1, 2},
                       const prefix_options* options = nullptr, int64_t tag = 0) {
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_logits(batch, tokens.data(), tokens.size(), ids.data(), ids.size(),
                                   options, tag, nullptr, e);
  });
}

inline void add_generate(prefix_batch* batch, const Tokens& tokens, const prefix_options* options,
                         int64_t tag = 0) {
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_generate(batch, tokens.data(), tokens.size(), options, tag, nullptr, e);
  });
}

// Two scores and a generation that share a prefix; another batch for each i.
inline Batch mixed_batch(prefix_engine* engine, int i) {
  Batch batch = make_batch(engine);
  const Options options = make_options({{"max_tokens", "3"}, {"ignore_eos", "true"}});
  add_logits(batch, {1, 2, 3, i});
  add_logits(batch, {1, 2, i, 5, 6});
  add_generate(batch, {1, 2, 3, i, 7}, options);
  return batch;
}

inline Job run(prefix_engine* engine, const prefix_batch* batch) {
  Job job;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_run(engine, batch, job.out(), e); });
  return job;
}

inline Job submit(prefix_engine* engine, const prefix_batch* batch) {
  Job job;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_submit(engine, batch, job.out(), e); });
  return job;
}

inline prefix_result_info info_of(const prefix_job* job, size_t index) {
  prefix_result_info info{};
  info.struct_size = sizeof(info);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_result_info(job, index, &info, e); });
  return info;
}

// Text by the two-call rule: ask for the size, then take it; again while it grew between the two,
// as numbers of a running engine do. `call` is (char* buf, size_t cap, size_t* needed,
// prefix_error*).
template <typename Call>
std::string text(const Call& call) {
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return call(nullptr, 0, &needed, e); });
  for (;;) {
    std::string buffer(needed + 1, '?');
    Error error;
    const prefix_status got = call(buffer.data(), buffer.size(), &needed, &error);
    if (got == PREFIX_ERR_BUFFER_TOO_SMALL && needed >= buffer.size()) continue;
    EXPECT_EQ(got, PREFIX_OK) << error.message;
    EXPECT_EQ(buffer[needed], 0);
    buffer.resize(needed);
    return buffer;
  }
}

inline std::string message_of(const prefix_job* job, size_t index) {
  return text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_job_result_message(job, index, buf, cap, needed, e);
  });
}

inline prefix_engine_stats stats_of(const prefix_engine* engine) {
  prefix_engine_stats stats{};
  stats.struct_size = sizeof(stats);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_stats(engine, &stats, e); });
  return stats;
}

// Every array of a request that failed says how it failed.
inline void expect_no_arrays(const prefix_job* job, size_t index, prefix_status wanted) {
  const std::string why = message_of(job, index);
  float value = -7;
  prefix_token token = -7;
  size_t needed = 12345;
  expect(
      wanted,
      [&](prefix_error* e) { return prefix_job_result_values(job, index, &value, 1, &needed, e); },
      {why});
  expect(
      wanted,
      [&](prefix_error* e) { return prefix_job_result_tokens(job, index, &token, 1, &needed, e); },
      {why});
  expect(wanted,
         [&](prefix_error* e) {
           return prefix_job_result_logprobs(job, index, &value, 1, &needed, e);
         },
         {why});
  EXPECT_EQ(needed, 12345u);
  EXPECT_EQ(value, -7);
  EXPECT_EQ(token, -7);
}

inline std::vector<float> values_of(const prefix_job* job, size_t index) {
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_values(job, index, nullptr, 0, &needed, e);
  });
  std::vector<float> values(needed);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_job_result_values(job, index, values.data(), values.size(), &needed, e);
  });
  return values;
}

// The engine still answers as a new one would: the proof that what came before did no harm.
inline void expect_works(prefix_engine* engine) {
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2, 3});
  const Job job = run(engine, batch);
  EXPECT_EQ(info_of(job, 0).status, PREFIX_OK) << message_of(job, 0);
  EXPECT_EQ(values_of(job, 0).size(), 3u);
}

}  // namespace prefix_abi
