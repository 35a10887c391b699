// Threads with little stack, as runtimes and hosts make them by the thousand: what computes runs on
// threads of the library.
#include <pthread.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <string>

#include "abi_support.h"
#include "random_adapter.h"
#include "support/sanitized.h"

namespace prefix_abi {
namespace {

using prefix::testing_support::TempFolder;

// What prefix.h promises. Sanitizers make frames larger.
size_t promised() { return prefix::testing_support::is_sanitized() ? 1 << 20 : 64 << 10; }

void* call(void* f) {
  (*static_cast<std::function<void()>*>(f))();
  return nullptr;
}

// Runs f on a thread of its own with the promised stack. Returns how much of that it touched.
size_t run_on_small_stack(std::function<void()> f) {
  constexpr int kUntouched = 0xA5;
  const size_t size = promised();
  auto* const memory = static_cast<unsigned char*>(
      mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  unsigned char* const stack = memory + size;  // below it nothing can be written
  EXPECT_EQ(mprotect(stack, size, PROT_READ | PROT_WRITE), 0);
  std::memset(stack, kUntouched, size);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT_EQ(pthread_attr_setstack(&attributes, stack, size), 0);
  pthread_t thread;
  const int made = pthread_create(&thread, &attributes, call, &f);
  EXPECT_EQ(made, 0);
  if (made == 0) {
    EXPECT_EQ(pthread_join(thread, nullptr), 0);
  }
  pthread_attr_destroy(&attributes);
  size_t left = 0;
  while (left < size && stack[left] == kUntouched) ++left;
  munmap(memory, 2 * size);
  return size - left;
}

Tokens counting(int32_t n) {
  Tokens tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = i * 5 % 131;
  return tokens;
}

void use_everything(Settings settings) {
  const TempFolder folder;
  const std::string file = folder.path() + "/snapshot";
  prefix::tools::write_adapter(folder.path(), {}, {});
  const Options options = make_options({{"max_tokens", "5"}, {"ignore_eos", "true"}});
  const Tokens tokens = counting(70);
  Engine engine;
  Batch batch;
  Job job;
  const auto on_small_stacks = [](const char* what, const std::function<void()>& f) {
    testing::Test::RecordProperty(what, static_cast<int>(run_on_small_stack(f)));
  };
  on_small_stacks("create", [&] { engine = make_engine(settings); });
  ASSERT_NE(engine, nullptr);
  on_small_stacks("estimate", [&] {
    prefix_memory memory{};
    memory.struct_size = sizeof(memory);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, nullptr, &memory, e);
    });
    text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
      return prefix_model_info_json(model_path().c_str(), PREFIX_NUL, buf, cap, needed, e);
    });
  });
  on_small_stacks("run", [&] {
    batch = make_batch(engine);
    add_logits(batch, tokens);
    add_generate(batch, tokens, options);
    job = run(engine, batch);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(info_of(job, i).status, PREFIX_OK) << message_of(job, i);
    }
  });
  on_small_stacks("adapter", [&] {
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_adapter_load(engine, "one", PREFIX_NUL, folder.path().c_str(), PREFIX_NUL, e);
    });
  });
  on_small_stacks("cache", [&] {
    prefix_cache_info info{};
    info.struct_size = sizeof(info);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_cache_lookup(engine, 0, tokens.data(), tokens.size(), &info, e);
    });
    EXPECT_GT(info.cached_tokens, 0);
    int64_t lease = 0;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_cache_pin(engine, 0, tokens.data(), 40, 0, &lease, nullptr, e);
    });
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_cache_unpin(engine, lease, e); });
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_cache_set_limits(engine, 0, 1 << 10, 1 << 20, e);
    });
  });
  on_small_stacks("texts", [&] {
    text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
      return prefix_engine_info_json(engine, buf, cap, needed, e);
    });
    text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
      return prefix_metrics_text(engine, buf, cap, needed, e);
    });
    text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
      return prefix_cache_tree_json(engine, buf, cap, needed, e);
    });
    text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
      return prefix_batch_plan_json(batch, buf, cap, needed, e);
    });
  });
  on_small_stacks("snapshot", [&] {
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_snapshot_save(engine, file.c_str(), PREFIX_NUL, nullptr, 0, nullptr, e);
    });
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_snapshot_load(engine, file.c_str(), PREFIX_NUL, nullptr, e);
    });
  });
  on_small_stacks("release", [&] {
    job = {};
    batch = {};
    engine = {};
  });
}

TEST(SmallStacks, Suffice) { use_everything({}); }

// Loading computes: it rounds weights by what they are multiplied with.
TEST(SmallStacks, SufficeToRoundWeights) { use_everything({{"compute", "int8"}, {"kv", "int8"}}); }

// Each prompt goes on where the one before ends, so that a tree is as deep as there are prompts.
TEST(SmallStacks, SufficeForDeepTrees) {
  constexpr int32_t kDeep = 300;
  Tokens all;
  std::vector<int64_t> offsets = {0};
  for (int32_t n = 1; n <= kDeep; ++n) {
    const Tokens prompt = counting(n);
    all.insert(all.end(), prompt.begin(), prompt.end());
    offsets.push_back(static_cast<int64_t>(all.size()));
  }
  run_on_small_stack([&] {
    const Engine engine = make_engine({});
    const Batch batch = make_batch(engine);
    for (int32_t n = 1; n <= kDeep; ++n) add_logits(batch, counting(n));
    const Job job = run(engine, batch);
    EXPECT_EQ(info_of(job, kDeep - 1).status, PREFIX_OK) << message_of(job, kDeep - 1);
    text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
      return prefix_cache_tree_json(engine, buf, cap, needed, e);
    });
    text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
      return prefix_batch_plan_json(batch, buf, cap, needed, e);
    });
  });
  run_on_small_stack([&] {
    std::vector<int32_t> parts(kDeep);
    std::vector<int64_t> order(kDeep), work(4);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_partition(all.data(), all.size(), offsets.data(), offsets.size(), 4, 0,
                              parts.data(), parts.size(), order.data(), order.size(), work.data(),
                              work.size(), nullptr, e);
    });
    // Row r has one cell more in common with the next one than row r - 1 has.
    constexpr int32_t kColumns = 40;
    std::vector<int64_t> values;
    for (int64_t r = 0; r < kDeep; ++r)
      for (int64_t c = 0; c < kColumns; ++c) values.push_back(c < r % kColumns ? 0 : r);
    std::vector<int64_t> rows(kDeep);
    std::vector<int32_t> columns(values.size());
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_order(values.data(), values.size(), nullptr, 0, kColumns, rows.data(),
                          rows.size(), columns.data(), columns.size(), nullptr, e);
    });
  });
  run_on_small_stack([&] {
    for (const char* options : {"{}", R"({"hybrid":{"state_bytes":100,"kv_bytes":1}})"}) {
      const Sim sim = make_sim(options);
      for (int32_t n = 1; n <= kDeep; ++n) {
        const Tokens prompt = counting(n);
        int64_t reused = 0;
        expect(PREFIX_OK, [&](prefix_error* e) {
          return prefix_sim_request(sim, nullptr, 0, prompt.data(), prompt.size(), prompt.size(),
                                    &reused, e);
        });
      }
    }
  });
}

TEST(SmallStacks, SufficeForAFailure) {
  Engine engine;
  run_on_small_stack([&] {
    expect(PREFIX_ERR_NOT_FOUND, [&](prefix_error* e) {
      return prefix_engine_create("/nowhere", PREFIX_NUL, nullptr, engine.out(), e);
    });
  });
  EXPECT_EQ(engine, nullptr);
}

// Each row has a cell more in common with those behind it:
// groups lie in groups as deep as there are rows.
TEST(SmallStacks, SufficeForDeepTables) {
  constexpr size_t kDeep = 320;
  std::vector<int64_t> values;
  for (size_t row = 0; row < kDeep; ++row)
    for (size_t column = 0; column < kDeep; ++column) values.push_back(column < row ? 1 : 0);
  std::vector<int64_t> rows(kDeep);
  std::vector<int32_t> columns(values.size());
  run_on_small_stack([&] {
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_order(values.data(), values.size(), nullptr, 0, kDeep, rows.data(), rows.size(),
                          columns.data(), columns.size(), nullptr, e);
    });
  });
}

}  // namespace
}  // namespace prefix_abi
