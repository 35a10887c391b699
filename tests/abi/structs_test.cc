// Rule 4: structs that the library fills, with a struct_size below, at and above its own.
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>

#include "abi_support.h"

namespace prefix_abi {
namespace {

// A struct of a later header: this one's fields and some that this library does not know.
template <typename T>
struct Later {
  T known;
  unsigned char more[24];
};

template <typename T>
using Fill = std::function<prefix_status(T*, prefix_error*)>;

// first_layout: the size of the struct in the first release. optional: it may be NULL.
template <typename T>
void check_sizes(const char* name, const Fill<T>& fill, size_t first_layout = sizeof(T),
                 bool optional = false) {
  SCOPED_TRACE(name);
  constexpr auto kSize = static_cast<int32_t>(sizeof(T));
  const auto first = static_cast<int32_t>(first_layout);
  for (const int32_t size : {first - 1, first - 8, 4, 3, 1, 0, -1, INT32_MIN}) {
    Later<T> out;
    std::memset(static_cast<void*>(&out), 0x5a, sizeof(out));
    const Later<T> before = out;
    out.known.struct_size = size;
    expect(PREFIX_ERR_STRUCT_TOO_OLD, [&](prefix_error* e) { return fill(&out.known, e); },
           {std::to_string(size), std::to_string(first)});
    EXPECT_EQ(out.known.struct_size, size);
    out.known.struct_size = before.known.struct_size;
    EXPECT_EQ(std::memcmp(&out, &before, sizeof(out)), 0) << "written to a struct that is too old";
  }
  for (const int32_t size : {kSize, kSize + 1, kSize + 24, INT32_MAX}) {
    Later<T> out;
    std::memset(static_cast<void*>(&out), 0x5a, sizeof(out));
    out.known.struct_size = size;
    expect(PREFIX_OK, [&](prefix_error* e) { return fill(&out.known, e); });
    EXPECT_EQ(out.known.struct_size, size) << "it stays the caller's";
    for (const unsigned char byte : out.more) EXPECT_EQ(byte, 0x5a) << "fields it does not know";
  }
  if (optional)
    expect(PREFIX_OK, [&](prefix_error* e) { return fill(nullptr, e); });
  else
    expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) { return fill(nullptr, e); },
           {"NULL"});
}

TEST(Structs, SmallerIsTooOldAndLargerIsLeftAlone) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  for (int i = 0; i < 8; ++i) add_logits(batch, {1, 2, i});
  const Job job = run(engine, batch);
  const Tokens tokens = {1, 2};
  check_sizes<prefix_option_details>("prefix_option_info", [](auto* out, prefix_error* e) {
    return prefix_option_info(0, out, e);
  });
  check_sizes<prefix_device_details>("prefix_device_info", [](auto* out, prefix_error* e) {
    return prefix_device_info(0, out, e);
  });
  check_sizes<prefix_memory>("prefix_engine_estimate", [](auto* out, prefix_error* e) {
    return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, nullptr, out, e);
  });
  check_sizes<prefix_engine_stats>("prefix_engine_get_stats", [&](auto* out, prefix_error* e) {
    return prefix_engine_get_stats(engine, out, e);
  });
  check_sizes<prefix_engine_info>("prefix_engine_get_info", [&](auto* out, prefix_error* e) {
    return prefix_engine_get_info(engine, out, e);
  });
  check_sizes<prefix_result_info>("prefix_job_result_info", [&](auto* out, prefix_error* e) {
    return prefix_job_result_info(job, 0, out, e);
  });
  check_sizes<prefix_job_totals>("prefix_job_get_totals", [&](auto* out, prefix_error* e) {
    return prefix_job_get_totals(job, out, e);
  });
  const int64_t ends[] = {0, 2}, cells[] = {1, 2};
  check_sizes<prefix_order_info>(
      "prefix_order",
      [&](auto* out, prefix_error* e) {
        return prefix_order(cells, 2, nullptr, 0, 2, nullptr, 0, nullptr, 0, out, e);
      },
      sizeof(prefix_order_info), true);
  check_sizes<prefix_partition_info>(
      "prefix_partition",
      [&](auto* out, prefix_error* e) {
        return prefix_partition(tokens.data(), 2, ends, 2, 1, 0, nullptr, 0, nullptr, 0, nullptr, 0,
                                out, e);
      },
      sizeof(prefix_partition_info), true);
  check_sizes<prefix_estimate_info>(
      "prefix_estimate_batch",
      [&](auto* out, prefix_error* e) {
        return prefix_estimate_batch(tokens.data(), 2, ends, 2, nullptr, 0, out, e);
      },
      sizeof(prefix_estimate_info), true);
  check_sizes<prefix_cache_info>("prefix_cache_lookup", [&](auto* out, prefix_error* e) {
    return prefix_cache_lookup(engine, 0, tokens.data(), 2, out, e);
  });
  check_sizes<prefix_cache_usage>("prefix_cache_get_usage", [&](auto* out, prefix_error* e) {
    return prefix_cache_get_usage(engine, 0, out, e);
  });
  check_sizes<prefix_event>("prefix_job_next_event", [&](auto* out, prefix_error* e) {
    return prefix_job_next_event(job, 0, out, e);
  });
  const Engine telling = make_engine({{"cache_events", "16"}});
  const Batch warm = make_batch(telling);
  const Tokens block(40, 7);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_warm(warm, block.data(), block.size(), nullptr, 0, nullptr, e);
  });
  run(telling, warm);
  check_sizes<prefix_cache_event>("prefix_cache_next_event", [&](auto* out, prefix_error* e) {
    return prefix_cache_next_event(telling, 0, out, nullptr, 0, nullptr, e);
  });
  const prefix::testing_support::TempFolder folder;
  const std::string file = folder / "cache";
  constexpr size_t kInfo = sizeof(prefix_snapshot_info);
  check_sizes<prefix_snapshot_info>(
      "prefix_snapshot_save",
      [&](auto* out, prefix_error* e) {
        return prefix_snapshot_save(engine, file.c_str(), PREFIX_NUL, nullptr, 0, out, e);
      },
      kInfo, true);
  check_sizes<prefix_snapshot_info>(
      "prefix_snapshot_load",
      [&](auto* out, prefix_error* e) {
        return prefix_snapshot_load(engine, file.c_str(), PREFIX_NUL, out, e);
      },
      kInfo, true);
}

// An event that could not be handed over is still there: a call that fails changes nothing.
TEST(Structs, AnEventIsNotLostToAStructThatIsTooOld) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2});
  const Job job = run(engine, batch);
  const auto drain = [&](const Job& from) {
    int events = 0;
    prefix_event event = PREFIX_EVENT_INIT;
    while (prefix_job_next_event(from, -1, &event, nullptr) == PREFIX_OK) ++events;
    return events;
  };
  const int all = drain(run(engine, batch));
  EXPECT_GE(all, 2) << "STARTED and FINISHED";
  prefix_event old{};
  old.struct_size = 8;
  for (int i = 0; i < all; ++i)
    expect(PREFIX_ERR_STRUCT_TOO_OLD,
           [&](prefix_error* e) { return prefix_job_next_event(job, -1, &old, e); });
  EXPECT_EQ(drain(job), all);
}

// The two ways in which an engine tells of itself.
TEST(Structs, TheInfoOfAnEngineIsThatOfItsJson) {
  const prefix::testing_support::TempFolder folder;
  prefix::tools::CheckpointShape shape;
  shape.architecture = "granitemoehybrid";
  shape.recurrent.layers = "rar";
  shape.layers = 3;
  prefix::tools::write_checkpoint(folder.path(), shape);
  const Options options = make_options({{"cache_bytes", "4M"}, {"threads", "2"}});
  for (const std::string& path : {model_path(), folder.path()}) {
    SCOPED_TRACE(path);
    Engine engine;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_engine_create(path.c_str(), PREFIX_NUL, options, engine.out(), e);
    });
    prefix_engine_info info = PREFIX_ENGINE_INFO_INIT;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_info(engine, &info, e); });
    const auto json =
        nlohmann::json::parse(text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
          return prefix_engine_info_json(engine, buf, cap, needed, e);
        }));
    const std::pair<const char*, int64_t> fields[] = {
        {"layers", info.layers},
        {"hidden", info.hidden},
        {"heads", info.heads},
        {"kv_heads", info.kv_heads},
        {"head_dim", info.head_dim},
        {"vocab_size", info.vocabulary},
        {"max_positions", info.max_positions},
        {"weight_bytes", info.weight_bytes},
        {"kv_bytes_per_token", info.kv_bytes_per_token},
        {"recurrent_layers", info.recurrent_layers},
        {"state_bytes", info.state_bytes},
        {"labels", info.labels}};
    for (const auto& [key, value] : fields) EXPECT_EQ(json["model"].at(key), value) << key;
    EXPECT_EQ(json.at("threads"), info.threads);
    EXPECT_EQ(info.threads, 2);
    EXPECT_EQ(info.page_tokens, stats_of(engine).page_tokens);
    EXPECT_EQ(info.recurrent_layers, path == folder.path() ? 2 : 0);
    EXPECT_EQ(info.state_bytes > 0, info.recurrent_layers > 0);
  }
}

TEST(Structs, FilledFieldsAreWhatTheHeaderSays) {
  prefix_memory memory{};
  memory.struct_size = sizeof(memory);
  const Options options = make_options({{"cache_bytes", "8M"}});
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, options, &memory, e);
  });
  EXPECT_GT(memory.weight_bytes, 0);
  EXPECT_GT(memory.kv_bytes_per_token, 0);
  EXPECT_EQ(memory.kv_budget_bytes, 8 << 20);
  EXPECT_EQ(memory.total_bytes,
            memory.weight_bytes + memory.kv_budget_bytes + memory.activation_bytes);

  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {5, 6, 7}, {0}, nullptr, 41);
  add_logits(batch, {5, 6, 8}, {0}, nullptr, 42);
  const Job job = run(engine, batch);
  int64_t given = 0, known = 0;
  for (size_t i = 0; i < 2; ++i) {
    const prefix_result_info info = info_of(job, i);
    EXPECT_EQ(info.user_tag, 41 + static_cast<int64_t>(i));
    EXPECT_EQ(info.prompt_tokens, info.cached_tokens + info.shared_tokens + info.computed_tokens);
    EXPECT_LE(info.first_us, info.total_us);
    given += info.prompt_tokens;
    known += info.shared_tokens;
  }
  EXPECT_EQ(given, 6);
  EXPECT_EQ(known, 2);
  prefix_job_totals totals{};
  totals.struct_size = sizeof(totals);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_get_totals(job, &totals, e); });
  EXPECT_EQ(totals.requests, 2);
  EXPECT_EQ(totals.failed, 0);
  EXPECT_EQ(totals.rows, 4);
  EXPECT_EQ(totals.tokens_given,
            totals.tokens_cached + totals.tokens_shared + totals.tokens_computed);

  prefix_engine_stats stats{};
  stats.struct_size = sizeof(stats);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_stats(engine, &stats, e); });
  EXPECT_EQ(stats.requests_finished, 2);
  EXPECT_EQ(stats.tokens_given, 6);
  EXPECT_EQ(stats.rows, 4);
  EXPECT_LE(stats.pages_used, stats.pages_total);
  EXPECT_LE(stats.kv_bytes, stats.kv_budget_bytes);

  prefix_cache_info cache{};
  cache.struct_size = sizeof(cache);
  const Tokens tokens = {5, 6, 8, 9};
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_cache_lookup(engine, 0, tokens.data(), 4, &cache, e);
  });
  EXPECT_EQ(cache.cached_tokens, 3);
  EXPECT_EQ(cache.pending_tokens, 0);
}

}  // namespace
}  // namespace prefix_abi
